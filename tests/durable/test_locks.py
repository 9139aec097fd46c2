"""Locks of durable functions: one at a time, in turn, and let go however it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.testing.kit import Stepwell

MODULE = """
import asyncio
from stepwell import Cancelled, OperationFailed, step, workflow

@step
def work(n: int) -> int:
    return n

@workflow
async def alone(ctx, room, fails=False):
    async with ctx.lock(room):
        await ctx.step(work, 1)
        await ctx.sleep("1h")
        if fails:
            raise ValueError("no")
    await ctx.sleep("1h")
    return "done"

@workflow
async def twice(ctx):
    for n in range(2):
        async with ctx.lock("a", "b"):
            await ctx.step(work, n)
    return "done"

@workflow
async def nested(ctx):
    async with ctx.lock("a"):
        async with ctx.lock("b"):
            return "never"

@workflow
async def no_name(ctx):
    async with ctx.lock(""):
        return "never"

async def leg(ctx, n):
    async with ctx.lock("leg"):
        await ctx.sleep("1m")
        return await ctx.step(work, n)

@workflow
async def legs(ctx):
    return await ctx.all(leg(ctx, 1), leg(ctx, 2), leg(ctx, 3))

@step
def declines(n: int) -> int:
    raise ValueError(f"declined {n}")

@workflow
async def gathered(ctx, beside):
    others = {
        "steps": lambda: ctx.step(declines, 2),
        "event": lambda: ctx.event("paid"),
        "sleep": lambda: asyncio.sleep(60),
        "child": lambda: ctx.child(alone, "b"),
    }
    async with ctx.lock("a"):
        await asyncio.gather(ctx.step(declines, 1), others[beside]())
"""


@pytest.fixture
def kit(tmp_path: Path) -> Stepwell:
    (tmp_path / "locking.py").write_text(MODULE)
    return Stepwell(tmp_path)


def test_one_run_has_the_lock_and_the_next_waits_for_it(kit: Stepwell) -> None:
    first, second = (kit.start("alone", {"room": "12"}) for _ in range(2))
    assert (first.phase, second.waiting_for) == ("sleeping", "lock")
    assert second.view["waiting_data"]["owner"] == first.id
    kit.advance("1h")
    assert (first.phase, second.phase) == ("sleeping", "sleeping")  # the first has let it go, and goes on
    assert second.steps["work"].status == "completed"
    kit.advance("2h")
    assert (first.result, second.result) == ("done", "done")


def test_another_name_is_another_lock(kit: Stepwell) -> None:
    runs = [kit.start("alone", {"room": room}) for room in ("12", "13")]
    assert [run.phase for run in runs] == ["sleeping", "sleeping"]


@pytest.mark.parametrize("how", ["fails", "cancel", "terminate"])
def test_however_it_ends_the_next_has_its_turn(kit: Stepwell, how: str) -> None:
    first = kit.start("alone", {"room": "12", "fails": how == "fails"})
    second = kit.start("alone", {"room": "12"})
    assert second.waiting_for == "lock"
    if how == "fails":
        kit.advance("1h")
    else:
        getattr(first, how)()
    assert first.status in {"failed", "cancelled"}
    assert second.phase == "sleeping"


def test_one_that_waits_for_it_can_be_cancelled(kit: Stepwell) -> None:
    first, second, third = (kit.start("alone", {"room": "12"}) for _ in range(3))
    assert second.waiting_for == third.waiting_for == "lock"
    second.cancel()
    kit.advance("1h")
    assert (second.status, third.phase) == ("cancelled", "sleeping")
    assert first.status == "waiting"


def test_it_can_be_taken_again_and_again(kit: Stepwell) -> None:
    assert kit.start("twice").result == "done"


def test_branches_take_turns(kit: Stepwell) -> None:
    run = kit.start("legs")
    assert run.status == "waiting"
    kit.advance("2m")
    assert run.status == "waiting"
    kit.advance("1m")
    assert run.result == [1, 2, 3]


@pytest.mark.parametrize(("name", "error"), [("nested", "lock_nested"), ("no_name", "bad_lock")])
def test_what_cannot_be_locked_is_told(kit: Stepwell, name: str, error: str) -> None:
    run = kit.start(name)
    assert run.status == "failed"
    assert run.error is not None
    assert run.error["type"] == error


def test_a_lock_within_another_one_is_told_with_its_place_and_replays_so(kit: Stepwell) -> None:
    run = kit.start("nested")
    assert run.error is not None
    assert " at locking.py:" in run.error["message"]
    assert "ctx.lock('a', 'b')" in run.error["message"]
    kit.replay(run)


@pytest.mark.parametrize("beside", ["steps", "event", "sleep", "child"])
def test_the_first_error_of_what_is_gathered_within_a_lock_fails_the_run(kit: Stepwell, beside: str) -> None:
    """Leaving the block beside an event or another wait is a mistake of its own, and comes second."""
    run = kit.start("gathered", {"beside": beside})
    kit.settle()
    assert run.error is not None
    assert run.error["type"] == "ValueError"
    assert run.error["message"].startswith("declined 1")
    assert ("then lock_in_task: " in run.error["message"]) == (beside != "steps")
    kit.replay(run)


def test_a_cold_replay_holds_what_it_held(kit: Stepwell) -> None:
    first, second = (kit.start("alone", {"room": "12"}) for _ in range(2))
    kit.advance("30m")
    kit.reload()
    kit.advance("30m")
    assert (first.phase, second.phase) == ("sleeping", "sleeping")
    kit.reload()
    kit.advance("2h")
    assert (first.result, second.result) == ("done", "done")
