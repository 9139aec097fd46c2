"""`ctx.until`: a function waits for something to hold, and an update lets it look again at once."""

from __future__ import annotations

import pytest

from tests.durable.conftest import Flows

CODE = """
import asyncio
from stepwell import sleep, workflow

def double(n: int) -> int:
    return n * 2

@workflow
async def cart(ctx):
    items = []
    ctx.update("add", lambda item: items.append(item))
    await ctx.until(lambda: len(items) >= 2)
    return [items, await ctx.step(double, len(items))]

@workflow
async def late(ctx):
    ctx.update("add", lambda item: None)
    try:
        await ctx.until(lambda: False, timeout="1h")
    except TimeoutError:
        return ctx.now().hour

@workflow
async def uncaught(ctx, inner: bool = False):
    def holds():
        if inner:
            raise TimeoutError("its own")
    await ctx.until(holds, timeout="1h")

@workflow
async def both(ctx):
    over = []
    for awaited in (lambda: ctx.event("go", timeout="1h"), lambda: ctx.until(lambda: False, timeout="1h")):
        try:
            await awaited()
        except TimeoutError as error:
            over.append([type(error).__name__, error.type, error.category, str(error)])
    return over

@workflow
async def soon(ctx):
    seen = []
    ctx.update("add", lambda item: seen.append(item))
    await ctx.until(lambda: seen, timeout="1h")
    return await ctx.step(double, seen[0])

@workflow
async def holds(ctx):
    await ctx.until(lambda: True)
    return await ctx.step(double, 1)

@workflow
async def beside(ctx):
    seen = []
    ctx.update("add", lambda item: seen.append(item))

    async def watch():
        await ctx.until(lambda: seen)
        return await ctx.step(double, seen[0])

    watching = ctx.start(watch())
    event = await ctx.event("go")
    return [event, await watching]

@workflow
async def raises(ctx, how: str):
    seen = []
    ctx.update("add", lambda item: seen.append(item))

    def holds():
        if seen and how == "exit":
            raise SystemExit(3)
        return seen and how == "next" and next(one for one in seen if one > 9)

    await ctx.until(holds)

@workflow
async def never(ctx):
    await ctx.until(lambda: False)
"""


@pytest.fixture(params=[1_000, 0], ids=["warm", "cold"])
def sessions(request: pytest.FixtureRequest) -> int:
    """How many functions are kept between two operations: with none, each is replayed from its log."""
    return int(request.param)


def test_a_wait_and_a_condition_whose_time_is_up_raise_the_same_time_out_error(flows: Flows, sessions: int) -> None:
    """As `asyncio.timeout` raises it, so that one `except TimeoutError` is for all of them."""
    kit = flows(CODE, sessions=sessions)
    run = kit.start("both")
    kit.advance("2h")
    told = [(kind, name, category) for kind, name, category, _ in run.result]
    assert told == [("WaitTimedOut", "event_timeout", "timeout"), ("WaitTimedOut", "until_timeout", "timeout")]
    assert run.result[1][3] == "the condition of until did not hold within 3600 s"


def test_a_wait_for_a_condition_with_a_time_limit_is_called_as_one_without_wherever_runs_are_counted(
    flows: Flows,
) -> None:
    """It is no sleep, as that of `ctx.sleep` is."""
    kit = flows(CODE)
    run, endless = kit.start("soon"), kit.start("cart")
    client = kit.client()
    (listed,), (other,) = (client.runs(workflow=name).page().items for name in ("soon", "cart"))
    assert [(one["waiting_for"], one["current_steps"]) for one in (listed, other)] == [("tasks", ["until"])] * 2
    assert listed["waiting_until"] == run.view["waiting_until"] is not None
    assert (run.waiting_for, endless.waiting_for) == ("tasks", "tasks")
    assert client.stats()["waits"] == {"tasks": 2}
    (version,) = client.versions("soon")["items"]
    assert version["waits"] == [{"waiting_for": "tasks", "step": "until", "runs": 1}]
    assert version["oldest"]["waiting_step"] == "until"


def test_a_run_whose_condition_did_not_hold_in_time_is_timed_out(flows: Flows, sessions: int) -> None:
    kit = flows(CODE, sessions=sessions)
    over, own = kit.start("uncaught"), kit.start("uncaught", {"inner": True})
    kit.advance("1h")
    assert (over.status, over.error and over.error["type"]) == ("timed_out", "until_timeout")
    assert (own.status, own.error and own.error["message"]) == ("failed", "its own")


def test_an_update_wakes_a_function_that_waits_for_a_condition(flows: Flows, sessions: int) -> None:
    kit = flows(CODE, sessions=sessions)
    run = kit.start("cart")
    assert run.status == "waiting"
    run.update("add", {"item": "tea"})
    assert run.status == "waiting"
    run.update("add", {"item": "cup"})
    assert run.result == [["tea", "cup"], 4]


def test_a_condition_may_have_a_time_limit(flows: Flows, sessions: int) -> None:
    kit = flows(CODE, sessions=sessions)
    run = kit.start("late")
    began = kit.now.hour
    kit.advance("2h")
    assert run.result == began + 1


def test_an_update_wakes_it_before_its_time_limit(flows: Flows, sessions: int) -> None:
    kit = flows(CODE, sessions=sessions)
    run = kit.start("soon")
    run.update("add", {"item": 2})
    assert run.result == 4
    assert kit.now.hour == 9


def test_a_condition_that_holds_costs_nothing(flows: Flows, sessions: int) -> None:
    kit = flows(CODE, sessions=sessions)
    run = kit.start("holds")
    assert (run.result, run.view["cost"]["records"]) == (2, 2)


def test_an_update_wakes_a_task_while_another_waits(flows: Flows, sessions: int) -> None:
    kit = flows(CODE, sessions=sessions)
    run = kit.start("beside")
    kit.settle()
    run.update("add", {"item": 4})
    kit.settle()
    assert kit.runs("beside")[0].branches("0/0")
    kit.event("go", "now")
    assert run.result == ["now", 8]


def test_a_condition_that_nothing_can_change_fails_the_run(flows: Flows) -> None:
    run = flows(CODE).start("never")
    assert run.error is not None
    assert run.error["type"] == "foreign_await"


@pytest.mark.parametrize(("how", "kind"), [("exit", "SystemExit"), ("next", "RuntimeError")])
def test_whatever_a_condition_raises_fails_the_function_and_leaves_no_run_stuck(
    flows: Flows, sessions: int, how: str, kind: str
) -> None:
    kit = flows(CODE, sessions=sessions)
    run = kit.start("raises", {"how": how})
    kit.settle()
    run.update("add", {"item": 1})
    assert run.status == "failed", run.view["waiting_data"]
    assert run.error is not None
    assert run.error["type"] == kind
