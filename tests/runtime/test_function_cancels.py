"""Cancelling a durable function: it is told where it awaits something, and has a bounded time to clean up."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from stepwell.api.runs.explain import explain
from stepwell.api.runs.views import read_run
from stepwell.api.runs.vocabulary import in_words_of
from stepwell.definition.graph import EventSettings
from stepwell.engine.waits import event_topic
from stepwell.errors import Conflict, PortError
from stepwell.limits import HOUR_MS
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.log.messages import Deadline, Publish
from stepwell.runtime.loop.advance import Advance
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Event
from stepwell.testing.kit import Run, Stepwell

MODULE = """
import asyncio
from stepwell import Cancelled, step, workflow

@step
def book(room): return room

@step
def release(room): return room

@workflow(cleanup="5m")
async def stay(ctx, room):
    booked = await ctx.step(book, room)
    try:
        await ctx.event("arrived", timeout="10d")
    except Exception as error:
        ctx.state["caught"] = str(error)
    except Cancelled as why:
        ctx.state["why"] = str(why)
        await ctx.sleep("10s")
        await ctx.step(release, booked)
        raise

@workflow
async def forked(ctx):
    await ctx.step(book, "x")
    try:
        await ctx.all(ctx.sleep("1d"), ctx.child("stay", {"room": "y"}))
    finally:
        await ctx.step(release, "x")

@workflow
async def stubborn(ctx):
    await ctx.step(book, "z")
    while True:
        try:
            await ctx.sleep("1h")
        except Cancelled:
            ctx.state["no"] = True

@workflow(cleanup=0)
async def plain(ctx):
    await ctx.step(book, "z")
    try:
        await ctx.sleep("1h")
    finally:
        await ctx.step(release, "z")

@workflow
async def returns(ctx):
    await ctx.step(book, "z")
    try:
        await ctx.sleep("1h")
    except Cancelled:
        return "all is well"

@step
def refuse(): raise ValueError("the hotel is closed")

@workflow
async def fails(ctx, how):
    try:
        await ctx.sleep("1h")
    finally:
        match how:
            case "raise": raise ValueError("the hotel is closed")
            case "step": await ctx.step(refuse)
            case "late":
                await ctx.sleep("5s")
                raise ValueError("the hotel is closed")

@workflow
async def gathers(ctx):
    async def one(n):
        try:
            await ctx.sleep("1h")
        except asyncio.CancelledError:
            raise asyncio.CancelledError from None
    await asyncio.gather(one(1), one(2))

@workflow
async def parent(ctx, how):
    await ctx.child("fails", {"how": how})

@workflow
async def asks(ctx):
    try:
        await ctx.sleep("1h")
    finally:
        await ctx.event("paid", key="x", timeout="1m")
        await ctx.step(release, "x")

@workflow
async def locks(ctx):
    async with ctx.lock("a"):
        try:
            await ctx.sleep("1h")
        finally:
            async with ctx.lock("b"):
                pass
"""


@pytest.fixture
def kit(tmp_path: Path) -> Stepwell:
    (tmp_path / "hotel.py").write_text(MODULE)
    return Stepwell(tmp_path)


def began(kit: Stepwell, workflow: str, given: object = None) -> Run:
    run = kit.start(workflow, given)
    assert run.status in {"waiting", "running"}
    return run


def released(run: Run) -> int:
    return sum(one["type"] == "step.completed" and one["step"] == "release" for one in run.history)


def test_a_cancelled_function_cleans_up_where_it_awaits_something(kit: Stepwell) -> None:
    run = began(kit, "stay", {"room": "12"})
    assert run.cancel("ill", by="ana")
    assert (run.status, run.phase, run.view["cancelled_by"]) == ("waiting", "cleaning_up", "ana")
    at = run_now(kit.service.standing(run.id))
    explained = explain(at, 0, None, {})
    assert explained["why"].startswith("It was cancelled, and cleans up. ")
    assert (explained["status"], explained["phase"]) == ("waiting", "cleaning_up")
    assert ("deadline", "the end of its time to clean up") in {(w["what"], w["detail"]) for w in explained["wakers"]}
    view = run_now(read_run(kit.service, run.id))
    assert in_words_of("timeline", view, at)["status"] == "sleeping"
    kit.advance("10s")
    assert (run.status, run.phase, run.error) == ("cancelled", "cancelled", None)
    assert (run.view["cancelled_by"], run.view["cancel_reason"]) == ("ana", "ill")
    assert run.view["result_summary"] == "cancelled by ana: ill"
    assert run.state == {"why": "ill"}
    assert run.steps["arrived"].status == "cancelled"
    assert released(run) == 1


def test_it_is_told_once_and_a_second_cancel_is_refused(kit: Stepwell) -> None:
    run = began(kit, "stay", {"room": "12"})
    run.cancel()
    with pytest.raises(Conflict, match="cancelled already, and cleans up"):
        run.cancel()
    kit.advance("10s")
    assert run.status == "cancelled"
    assert not run.cancel()


def test_it_may_be_terminated_while_it_cleans_up(kit: Stepwell) -> None:
    run = began(kit, "stay", {"room": "12"})
    run.cancel()
    assert run.phase == "cleaning_up"
    assert run.terminate("enough")
    assert run.status == "failed"
    kit.advance("1h")
    assert released(run) == 0


def test_what_it_awaited_together_ends_before_it_cleans_up(kit: Stepwell) -> None:
    run = began(kit, "forked")
    child = next(one for one in kit.runs("stay"))
    assert child.status == "waiting"
    run.cancel()
    assert run.status == "cancelled"
    assert released(run) == 1
    kit.advance("10s")
    assert child.status == "cancelled"
    assert released(child) == 1
    assert {one["status"] for one in run.branches("0/1")} == {"cancelled"}


def test_one_that_does_not_end_is_ended(kit: Stepwell) -> None:
    run = began(kit, "stubborn")
    run.cancel("now", by="leo")
    kit.advance("29s")
    assert run.phase == "cleaning_up"
    kit.advance("1s")
    assert (run.status, run.view["cancelled_by"], run.view["cancel_reason"]) == ("cancelled", "leo", "now")


def test_without_time_to_clean_up_it_ends_at_once(kit: Stepwell) -> None:
    run = began(kit, "plain")
    run.cancel()
    assert run.status == "cancelled"
    assert released(run) == 0


def test_what_it_returns_then_is_of_no_account(kit: Stepwell) -> None:
    run = began(kit, "returns")
    run.cancel()
    assert (run.status, run.result) == ("cancelled", None)


def test_a_late_event_does_not_come_to_what_it_awaited(kit: Stepwell) -> None:
    run = began(kit, "stay", {"room": "12"})
    run.cancel()
    run.event("arrived", {"at": 1})
    kit.advance("10s")
    assert run.status == "cancelled"
    assert released(run) == 1


def test_an_event_goes_on_with_the_clean_up_though_its_bringer_died_and_a_deadline_came_first(
    kit: Stepwell,
) -> None:
    """The deadline leaves what follows from that event to its message. The waiter is how that finds the run again."""
    run = began(kit, "asks")
    run.cancel()
    kit.settle()
    kit._parts.catalog._events = {"paid": EventSettings(consume_on_read=False)}
    coordinator, now_ms = kit._parts.coordinator, kit._parts.ports.clock.now_ms()
    publish = Publish(Event(event_topic("paid", "x"), "e", {}, now_ms, now_ms + HOUR_MS))
    with mock.patch.object(Advance, "wake", side_effect=PortError("it died here")), pytest.raises(PortError):
        run_now(coordinator.handle(publish))
    for message in (Deadline(run.id), publish):
        run_now(coordinator.handle(message, Unlimited(deliveries=2)))
    kit.settle()
    assert (run.status, released(run)) == ("cancelled", 1)


@pytest.mark.parametrize("cleanup", ["'366d'", "-1", "'soon'"])
def test_a_time_to_clean_up_that_cannot_be_is_told(tmp_path: Path, cleanup: str) -> None:
    (tmp_path / "hotel.py").write_text(
        f"from stepwell import workflow\n@workflow(cleanup={cleanup})\nasync def a(ctx): ...\n"
    )
    with pytest.raises(Exception, match=r"hotel.py:2:11: error"):
        Stepwell(tmp_path)


def test_it_may_clean_up_for_months(tmp_path: Path) -> None:
    """A company that gives money back takes its time."""
    (tmp_path / "slow.py").write_text(
        "from stepwell import workflow\n"
        "@workflow(cleanup='300d')\n"
        "async def slow(ctx):\n"
        "    try:\n"
        "        await ctx.event('never')\n"
        "    finally:\n"
        "        ctx.state['given_back'] = await ctx.event('given_back')\n"
    )
    kit = Stepwell(tmp_path)
    run = kit.start("slow", {})
    run.cancel()
    kit.advance("200d")
    assert (run.status, run.view["phase"]) == ("waiting", "cleaning_up")
    run.event("given_back", 80)
    assert (run.status, run.state) == ("cancelled", {"given_back": 80})
    kit.close()


def test_one_that_asks_for_a_second_lock_then_is_cancelled_all_the_same(kit: Stepwell) -> None:
    run = began(kit, "locks")
    run.cancel()
    assert run.error is not None
    assert (run.status, run.error["type"]) == ("cancelled", "lock_nested")


@pytest.mark.parametrize("how", ["raise", "step", "late"])
def test_a_clean_up_that_fails_leaves_the_run_cancelled_with_its_error(kit: Stepwell, how: str) -> None:
    run = began(kit, "fails", {"how": how})
    run.cancel("ill", by="ana")
    kit.advance("10s")
    assert (run.status, run.view["cancelled_by"], run.view["cancel_reason"]) == ("cancelled", "ana", "ill")
    assert run.error is not None
    assert (run.error["type"], run.error["message"]) == ("ValueError", "the hotel is closed")
    assert run.view["result_summary"] == "cancelled by ana: ill; its clean-up failed: the hotel is closed"
    last = run.history[-1]
    assert (last["type"], last["data"]["error"]["type"]) == ("run.cancelled", "ValueError")
    assert (last["data"]["reason"], last["by"]) == ("ill", "ana")


def test_the_end_of_a_run_that_cleaned_up_says_who_cancelled_it_and_why_unless_it_was_terminated(kit: Stepwell) -> None:
    run, other = began(kit, "stay", {"room": "a"}), began(kit, "stay", {"room": "b"})
    run.cancel("ill", by="ana")
    other.cancel("ill", by="ana")
    other.terminate("now", by="leo")
    kit.advance("10s")
    for one, told in ((run, ("run.cancelled", "ill", "ana")), (other, ("run.failed", "now", "leo"))):
        last = one.history[-1]
        assert (last["type"], last["data"]["reason"], last["by"]) == told


def test_a_parent_sees_the_error_of_a_child_s_clean_up(kit: Stepwell) -> None:
    run = began(kit, "parent", {"how": "raise"})
    (child,) = kit.runs("fails")
    child.cancel()
    kit.advance("10s")
    assert run.error is not None
    assert run.error["message"].endswith("ended cancelled: ValueError: the hotel is closed")


def test_the_cancel_of_what_it_awaited_is_no_failure_of_its_clean_up(kit: Stepwell) -> None:
    run = began(kit, "gathers")
    run.cancel()
    kit.advance("10s")
    assert (run.status, run.error) == ("cancelled", None)
