"""Tasks that end before they begin, and timers whose time never comes, do in a function what they do in asyncio."""

from __future__ import annotations

import pytest

from tests.durable.conftest import Flows

HEAD = """
import asyncio
from stepwell import workflow
def one(): return 1
@workflow
async def flow(ctx):
"""
BODIES = {
    "a task that is cancelled at once": """
    task = asyncio.create_task(ctx.step(one))
    task.cancel()
    await asyncio.wait([task])
    return task.cancelled()
""",
    "a started operation that is cancelled at once": """
    task = ctx.start(ctx.step(one))
    task.cancel()
    await asyncio.wait([task])
    return task.cancelled()
""",
    "no time to wait": """
    try:
        await asyncio.wait_for(ctx.step(one), 0)
    except TimeoutError:
        return True
""",
    "a group whose body fails": """
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.step(one))
            raise LookupError
    except* LookupError:
        pass
    return True
""",
    "a task that sleeps for ever": """
    task = asyncio.create_task(asyncio.sleep(float("inf")))
    await ctx.step(one)
    return task.cancel()
""",
}

BODIES |= {
    f"a task that sleeps for {seconds} s": f"""
    task = asyncio.create_task(asyncio.sleep({seconds}))
    await ctx.step(one)
    return task.cancel()
"""
    for seconds in (1e12, 1e18, 1e300)
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("sessions", [1_000, 0], ids=["warm", "cold"])
def test_a_function_goes_on_after_a_task_that_never_began(flows: Flows, body: str, sessions: int) -> None:
    run = flows(HEAD + body, sessions=sessions).start("flow")
    assert (run.status, run.result) == ("completed", True), run.error


SLEEPS = """
    task = asyncio.create_task(waits(ctx))
    await asyncio.sleep(30)
    task.cancel()
    await asyncio.sleep(30)
    return task.cancelled()

async def waits(ctx):
    await ctx.event("never")
"""


def test_a_function_that_gave_up_its_last_operation_sleeps_on(flows: Flows) -> None:
    """A timer of its own is enough to go on."""
    kit = flows(HEAD + SLEEPS)
    run = kit.start("flow")
    kit.advance("2m")
    assert (run.status, run.result) == ("completed", True), run.error


def test_a_sleep_without_a_number_is_an_error_of_its_caller(flows: Flows) -> None:
    run = flows(HEAD + "    await asyncio.sleep(float('nan'))").start("flow")
    assert run.status == "failed"
    assert run.error is not None
    assert run.error["type"] == "ValueError"


@pytest.mark.parametrize("seconds", [1e12, 1e18, 1e300])
def test_a_lone_sleep_beyond_the_calendar_fails_by_name_and_all_runs_can_be_listed(
    flows: Flows, seconds: float
) -> None:
    """It was due in the year 33715, which no date can show: the list of all runs failed."""
    world = flows(f"{HEAD}    await asyncio.sleep({seconds})\n")
    world.start("flow")
    (run,) = world.runs("flow")
    assert run.error is not None
    assert (run.status, run.error["type"]) == ("failed", "foreign_await")
    assert "no timer is set at flow.py:7" in run.error["message"]
