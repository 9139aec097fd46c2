"""A lock that is entered after tasks gave operations up: cancelled operations are not in progress beside it."""

from __future__ import annotations

import pytest

from tests.durable.conftest import Flows

CODE = """
import asyncio
from stepwell import workflow

def double(n: int) -> int:
    return n * 2

async def nap(ctx, seconds):
    await ctx.sleep(seconds)

async def wait_for(ctx):
    try:
        await asyncio.wait_for(ctx.event("never"), 60)
    except TimeoutError:
        pass

async def race(ctx):
    tasks = [asyncio.create_task(nap(ctx, seconds)) for seconds in (30, 3_000)]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()

async def race_of_steps(ctx):
    await ctx.first(nap(ctx, 3_000), ctx.step(double, 1))

async def handle(ctx):
    begun = ctx.start(ctx.event("never"))
    await ctx.sleep(30)
    begun.cancel()

async def group(ctx):
    async def fails():
        await ctx.sleep(30)
        raise ValueError
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fails())
            tasks.create_task(nap(ctx, 3_000))
    except* ValueError:
        pass

async def until(ctx):
    seen = []
    ctx.update("add", lambda n: seen.append(n))
    await ctx.until(lambda: seen)

async def lock_held_back(ctx):
    async def locked():
        async with ctx.lock("hall"):
            pass
    first, second = (asyncio.create_task(ctx.step(double, n)) for n in (1, 2))
    held_back = asyncio.create_task(locked())
    await first
    held_back.cancel()
    await second

@workflow
async def flow(ctx, before: str):
    await globals()[before](ctx)
    async with ctx.lock("room"):
        await globals()[before](ctx)
        doubled = await ctx.step(double, 4)
    return await ctx.step(double, doubled)

@workflow
async def leaves(ctx, before: str):
    async with ctx.lock("room"):
        await globals()[before](ctx)
    return await ctx.step(double, 8)
"""


@pytest.mark.parametrize("before", ["wait_for", "race", "race_of_steps", "handle", "group", "until", "lock_held_back"])
@pytest.mark.parametrize("sessions", [1_000, 0], ids=["warm", "cold"])
@pytest.mark.parametrize("workflow", ["flow", "leaves"])
def test_a_lock_is_entered_and_left_after_what_was_cancelled(
    flows: Flows, workflow: str, sessions: int, before: str
) -> None:
    kit = flows(CODE, sessions=sessions)
    runs = [kit.start(workflow, {"before": before}) for _ in range(2)]
    for _ in range(3):
        for run in runs:
            if before == "until" and run.status == "waiting":
                run.update("add", {"n": 1})
        kit.advance("1m")
    assert [run.result for run in runs] == [16, 16], [run.error for run in runs]
