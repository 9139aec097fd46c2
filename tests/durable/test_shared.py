"""An operation that is awaited twice, or was cancelled: by itself, as a part of `all` or `first`, in tasks."""

from __future__ import annotations

import pytest

from stepwell.runtime.durable import operations, racing
from tests.durable.conftest import Flows

HEAD = """
import asyncio
from stepwell import StepFailed, sleep, workflow

def double(n: int) -> int:
    return n * 2

def slow(ctx, n: int) -> int:
    return n if ctx.resumed else sleep("10m", then="again")

def broken():
    raise ValueError("no")

@workflow
async def child(ctx, n: int) -> int:
    return n

@workflow
async def flow(ctx):
"""


@pytest.fixture(params=[1_000, 0], ids=["warm", "cold"])
def sessions(request: pytest.FixtureRequest) -> int:
    """How many functions are kept between two operations: with none, each is replayed from its log."""
    return int(request.param)


def flow(body: str) -> str:
    return HEAD + "".join(f"    {line}\n" for line in body.strip().splitlines())


@pytest.mark.parametrize(
    ("first", "then", "result"),
    [
        ("await a", "await g", [2, [2, 4]]),
        ("await ctx.all(a, c)", "await g", [[2, 6], [2, 4]]),
        ("await ctx.first(a, ctx.event('never'))", "await g", [[2, None], [2, 4]]),
        ("await a", "await ctx.all(g, c)", [2, [[2, 4], 6]]),
        ("None", "await ctx.all(g, ctx.all(a, c))", [None, [[2, 4], [2, 6]]]),
        ("ctx.start(g)", "[await a, await first]", [None, [2, [2, 4]]]),
        ("ctx.start(g)", "await asyncio.gather(ctx.all(b, c), first)", [None, [[4, 6], [2, 4]]]),
    ],
)
def test_an_operation_of_several_is_done_once_whoever_else_awaits_it(
    flows: Flows, sessions: int, first: str, then: str, result: object
) -> None:
    kit = flows(flow(f"""
a, b, c = ctx.step(double, 1), ctx.step(double, 2), ctx.step(double, 3)
g = ctx.all(a, b)
first = {first}
last = {then}
if {"c" if "c)" not in first + then else None}:
    await c
return [None if isinstance(first, asyncio.Task) else first, last]
"""), sessions=sessions)  # fmt: skip
    run = kit.start("flow")
    assert run.result == result, run.error
    done = [entry["data"].get("output") for entry in run.history if entry["type"] == "step.completed"]
    assert sorted(done) == [2, 4, 6]


def test_a_wait_or_a_child_run_of_several_is_awaited_once(flows: Flows, sessions: int) -> None:
    kit = flows(flow("""
paid, seen = ctx.event("paid"), ctx.event("seen")
both, either = ctx.all(paid, seen), ctx.first(paid, ctx.timer("1d"))
one, two = ctx.child(child, 1), ctx.child(child, 2)
children = ctx.all(one, two)
return [await paid, await both, (await either).value, await one, await children]
"""), sessions=sessions)  # fmt: skip
    run = kit.start("flow")
    kit.event("paid", 1)
    kit.event("seen", 2)
    assert run.result == [1, [1, 2], 1, 1, [1, 2]], run.error
    assert len(kit.runs("child")) == 2


def test_a_timer_that_is_over_is_over_for_others(flows: Flows, sessions: int) -> None:
    kit = flows(flow("""
timer, began = ctx.timer(10), ctx.now()
await timer
first = await ctx.first(timer, ctx.sleep(50))
await ctx.all(timer, ctx.step(double, 1))
return [first.winner, (ctx.now() - began).total_seconds()]
"""), sessions=sessions)  # fmt: skip
    run = kit.start("flow")
    kit.advance("1h")
    assert run.result == [0, 10], run.error


@pytest.mark.parametrize(
    "cut",
    [
        "async with asyncio.timeout(5):\n        await one",
        "won = await ctx.first(one, ctx.timer(5))\n    raise TimeoutError",
        "won = await ctx.first(one, asyncio.sleep(5))\n    raise TimeoutError",
        "await ctx.all(one, ctx.step(broken))",
        "await asyncio.wait_for(ctx.all(one, ctx.step(double, 1)), 5)",
    ],
)
def test_a_step_that_was_cancelled_is_not_begun_again_and_says_so(flows: Flows, sessions: int, cut: str) -> None:
    body = f"""
one = ctx.step(slow, 1)
try:
    {cut}
except (TimeoutError, ValueError):
    await ctx.sleep("1h")
try:
    return await one
except Exception as error:
    return [error.code, await ctx.step(double, 1)]
"""
    kit = flows(flow(body), sessions=sessions)
    run = kit.start("flow")
    kit.advance("2h")
    assert run.result == ["operation_cancelled", 2], run.error


def test_a_wait_that_was_cancelled_is_awaited_anew(flows: Flows, sessions: int) -> None:
    kit = flows(flow("""
paid = ctx.event("paid")
reminded = 0
for limit in (60, 120):
    try:
        async with asyncio.timeout(limit):
            await paid
    except TimeoutError:
        reminded += 1
other = ctx.start(paid)
mine = ctx.start(paid)
await ctx.sleep(1)
other.cancel()
return [reminded, await paid, await mine, other.cancelled() or other.result()]
"""), sessions=sessions)  # fmt: skip
    run = kit.start("flow")
    kit.advance("1h")
    kit.event("paid", "late")
    assert run.result == [2, "late", "late", True], run.error


def test_a_run_of_an_earlier_release_goes_on_as_it_began(flows: Flows, monkeypatch: pytest.MonkeyPatch) -> None:
    """It did an operation twice, and its log has both."""
    kit = flows(flow("""
a, b = ctx.step(double, 1), ctx.step(double, 2)
g = ctx.all(a, b)
found = [await a, await g]
paid, seen = ctx.event("paid"), ctx.event("seen")
both = ctx.all(paid, seen)
found += [await paid, await both]
one = ctx.step(slow, 1)
await ctx.first(one, ctx.timer(5))
found.append(await one)
await ctx.sleep("1h")
c = ctx.step(double, 3)
later = ctx.all(c, ctx.step(double, 4))
return [*found, await c, await later]
"""), sessions=0)  # fmt: skip
    run = kit.start("flow")
    with monkeypatch.context() as earlier:
        for module in (operations, racing):
            earlier.setattr(module, "is_once", lambda: False)
        assert run.waiting_for == "event"
        for name, payload in (("paid", 1), ("paid", 2), ("seen", 3)):
            kit.event(name, payload)
        kit.advance("30m")
        assert run.waiting_for == "sleep", run.error
    kit.advance("2h")
    assert run.result == [2, [2, 4], 1, [2, 3], 1, 6, [6, 8]], run.error
    outputs = [entry["data"].get("output") for entry in run.history if entry["type"] == "step.completed"]
    assert (outputs.count(2), outputs.count(6)) == (2, 1)
