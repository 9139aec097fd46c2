"""The sweeper repairs what a caller that died left behind, and in a healthy system it finds nothing."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from stepwell.api.runs.explain import explain
from stepwell.engine.stored.codec import decode_record, encode_record
from stepwell.errors import NewerFormat, PortError
from stepwell.limits import HOUR_MS, MINUTE_MS
from stepwell.runtime import dispatch
from stepwell.runtime.dispatch import put_off
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.loop.rounds import NOTE
from stepwell.runtime.loop.sweeper import StuckRun
from stepwell.runtime.ports import Lane, Saved
from stepwell.runtime.ports.headers import RunQuery
from tests.runtime.kit import NOW_MS, World, fails, first_wake, handle

STILL_MS = 600_000
FLOW = """
workflow: flow
timeline:
  - {name: work, run: python:m.work, retry: {max_retries: 2, initial_delay: 2h, max_delay: 9h}}
  - {name: hold, wait: {for: approval, timeout: 24h}}
  - {name: last, run: python:m.last}
"""
LIMITED = "workflow: flow\ntimeout: 1h\ntimeline: [{name: hold, wait: {any: [{for: event, name: e}], timeout: 30d}}]"
GATHERED = """
workflow: flow
debounce: {period: 30s}
timeline: [{name: work, run: python:m.work}, {name: last, run: python:m.last}]
"""
SLOW = "workflow: flow\ntimeline: [{name: work, run: python:m.work, timeout: 1h, at_most_once: true}]"


def sweep(world: World) -> list[str]:
    return [found.why for found in run_now(world.sweeper.sweep(STILL_MS))]


def started(world: World) -> str:
    run_id = world.start()
    world.deliver()
    return run_id


def test_a_healthy_system_gives_nothing_to_find() -> None:
    world = World(FLOW)
    world.start(create_only=True)
    world.start(start_at_ms=NOW_MS + 10**9)
    started(world)
    cancelled, ended = started(world), started(world)
    run_now(world.service.cancel(cancelled))
    run_now(world.service.approve(ended))
    world.deliver()
    for _ in range(10):
        world.pass_time(3_600_000)
        assert sweep(world) == []


def test_a_run_that_rests_for_its_next_attempt_is_left_alone() -> None:
    world = World(FLOW)
    world.steps.of["work"] = lambda call: fails("E", "transient")
    started(world)
    world.pass_time(3_600_000)
    assert sweep(world) == []


@pytest.mark.parametrize("note", ['{"until_ms":1,"stretches":[{"since_ms":0,"shard":3}]}', '{"lanes":1}', "[", "7"])
def test_a_place_that_other_code_has_noted_is_not_taken_for_its_own(note: str) -> None:
    """A sweep that does not understand where the last one was begins with all runs, as after an hour without."""
    world = World(FLOW)
    run_id = world.start()
    world.lose_messages()
    assert run_now(world.store.put_note(*NOTE, note, None))
    world.clock.advance(STILL_MS * 10)
    assert run_now(world.sweeper.sweep(STILL_MS)) == (StuckRun(run_id, "no_progress"),)
    assert run_now(world.store.get_note(*NOTE)) != note


def test_a_step_that_takes_long_is_left_alone() -> None:
    """A wake at the slot where another worker is at work would run its step again, or take an at_most_once one away."""
    world = World(SLOW)
    found: list[str] = []

    def work(_: object) -> int:
        world.clock.advance(1_800_000)
        found.extend(sweep(world))
        return 1

    world.steps.of["work"] = work
    run_id = started(world)
    assert found == []
    assert world.header(run_id).status == "completed"


UNSAID = {
    "a step": "timeline: [{name: work, run: python:m.work}]",
    "a compensation": "steps: [{name: a, run: python:m.a}, {name: b, run: python:m.b, depends_on: [a],"
    " on_failure: compensate}]\ncompensation: [{step: a, run: python:m.work}]",
    "an action of a time-out": "timeline: [{name: w, wait: {for: approval, timeout: 1h, on_timeout: continue,"
    " timeout_actions: [{run: python:m.work}]}}]",
}


@pytest.mark.parametrize("definition", UNSAID.values(), ids=UNSAID)
def test_code_that_may_have_a_time_limit_of_its_own_is_left_alone_for_as_long_as_an_invocation_lasts(
    definition: str,
) -> None:
    """`@step(timeout="14m")` is in user code, which the sweeper does not load."""
    world = World(f"workflow: flow\n{definition}")
    found: list[str] = []

    def work(_: object) -> int:
        world.clock.advance(14 * MINUTE_MS)
        found.extend(one.why for one in run_now(world.sweeper.sweep(5 * MINUTE_MS)))
        return 1

    world.steps.of |= {"work": work, "b": lambda call: fails("E", "step")}
    started(world)
    world.pass_time(3_600_000)
    assert (found, [call.run for call in world.steps.calls].count("python:m.work")) == ([], 1)


def test_a_start_whose_wake_was_never_sent_is_repaired() -> None:
    world = World(FLOW)
    run_id = world.start()
    world.lose_messages()
    assert sweep(world) == []  # too early to say
    world.clock.advance(STILL_MS + 300_001)
    assert sweep(world) == ["no_progress"]
    world.deliver()
    assert world.header(run_id).status == "waiting"
    assert sweep(world) == []


def test_a_start_behind_a_long_backlog_gets_few_messages_more() -> None:
    """The sweeper cannot see that one is in the queue already, and each more would keep workers busy in their turn."""
    world, found = World(FLOW), list[str]()
    run_id = world.start()
    for _ in range(12 * 12):
        world.clock.advance(5 * MINUTE_MS)
        found.extend(one.why for one in run_now(world.sweeper.sweep(5 * MINUTE_MS)))
    assert 10 <= len(found) <= 16
    world.deliver()
    assert world.header(run_id).status == "waiting"
    assert len(world.steps.calls) == 1


def test_a_first_step_is_left_alone_however_late_its_worker_took_the_run_up() -> None:
    """What the run waited in the queue is no time of its step."""
    world, found = World("workflow: flow\ntimeline: [{name: work, run: python:m.work, timeout: 10m}]"), list[str]()

    def work(_: object) -> int:
        world.clock.advance(10 * MINUTE_MS)
        found.extend(one.why for one in run_now(world.sweeper.sweep(5 * MINUTE_MS)))
        return 1

    world.steps.of["work"] = work
    world.start()
    world.clock.advance(HOUR_MS)
    world.deliver()
    assert (found, len(world.steps.calls)) == ([], 1)


class Again(Unlimited):
    """The budget of a redelivery."""

    def is_first(self) -> bool:
        return False


def spare(world: World) -> dict[str, Any]:
    """The sweeper's message for a run whose own one is late."""
    world.clock.advance(STILL_MS + 300_001)
    assert sweep(world) == ["no_progress"]
    found = first_wake(world)
    assert found["yields"]
    return found


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_spare_message_leaves_the_run_to_the_worker_that_took_it_up(is_seen: bool) -> None:
    """Both messages may find a free worker at once, so both may have read the run before it was taken up."""
    world = World(FLOW)
    world.start()
    own = first_wake(world)
    late = spare(world)
    if is_seen:
        world.steps.of["work"] = lambda call: handle(world, late, Unlimited())
        handle(world, own, Unlimited())
    else:
        world.store.before["change_status"] = lambda *_: handle(world, own, Unlimited())
        handle(world, late, Unlimited())
    assert [call.node for call in world.steps.calls] == ["work"]


@pytest.mark.parametrize("first", ["get_run", "load", "append"])
def test_a_spare_message_that_reads_half_of_what_another_has_done_leaves_the_run_to_it(first: str) -> None:
    """It has read that nobody has the run, and then finds records, or is too late with its own."""
    world = World(GATHERED)
    world.start()
    world.clock.advance(MINUTE_MS)
    own = first_wake(world)
    late = spare(world)
    world.steps.of["last"] = dies

    def goes_first(*_: object) -> None:
        with pytest.raises(PortError):
            handle(world, own, Unlimited())

    world.store.before[first] = goes_first
    handle(world, late, Unlimited())
    assert [call.node for call in world.steps.calls] == ["work", "last"]


def dead_with_a_spare() -> tuple[World, str, dict[str, Any]]:
    """A run whose own message is lost, and the spare one, whose worker took the run up and died."""
    world = World(FLOW)
    run_id = world.start()
    world.lose_messages()
    late = spare(world)
    world.steps.of["work"] = dies
    with pytest.raises(PortError):
        handle(world, late, Unlimited())
    world.steps.of.clear()
    return world, run_id, late


def test_a_spare_message_whose_worker_died_goes_on_when_it_comes_again() -> None:
    world, run_id, late = dead_with_a_spare()
    handle(world, late, Unlimited())
    assert world.header(run_id).status == "running"
    handle(world, late, Again())
    assert world.header(run_id).status == "waiting"


def test_a_spare_message_that_is_put_off_is_the_runs_own() -> None:
    world, run_id, late = dead_with_a_spare()
    assert run_now(put_off(world.parts, Lane.WORK, late))
    world.pass_time(HOUR_MS)
    assert world.header(run_id).status == "waiting"


def test_a_spare_message_that_old_code_leaves_to_newer_is_the_runs_own() -> None:
    """Who died of it may have been newer code."""
    world, run_id, late = dead_with_a_spare()
    with mock.patch.object(dispatch, "from_json", side_effect=NewerFormat("of another release")):
        handle(world, late)
    world.pass_time(HOUR_MS)
    assert world.header(run_id).status == "waiting"


def test_an_approval_whose_wake_was_never_sent_is_repaired() -> None:
    world = World(FLOW)
    run_id = started(world)
    run_now(world.service.approve(run_id))
    assert world.lose_messages() > 0
    world.clock.advance(STILL_MS + 300_001)
    assert sweep(world) == ["no_progress"]
    world.deliver()
    assert world.header(run_id).status == "completed"


def test_runs_are_looked_at_side_by_side_where_requests_take_time() -> None:
    """Sixteen runs, eight at once: the last request of each takes two rounds. Alone, none would ever be answered."""
    world = World(FLOW, sweeps_at_once=8)
    run_ids = [started(world) for _ in range(16)]
    world.clock.advance(STILL_MS + 300_001)
    rounds: list[int] = []
    meeting = threading.Barrier(8, lambda: rounds.append(1), timeout=30)
    watch = world.store.inner.watch

    async def watched(*args: Any) -> bool:
        meeting.wait()
        return bool(await watch(*args))

    world.store.inner.watch = watched
    assert sweep(world) == []
    assert len(rounds) == 2
    assert all(world.header(run_id).watched for run_id in run_ids)


def test_an_error_of_a_look_among_others_is_raised() -> None:
    """The note keeps its place, so the next sweep looks at them again."""
    world = World(FLOW, sweeps_at_once=8)
    for _ in range(3):
        started(world)
    world.clock.advance(STILL_MS + 300_001)
    world.store.before["watch"] = dies
    with pytest.raises(PortError, match="died here"):
        sweep(world)
    sweep(world)
    assert all(header.watched for header in run_now(world.store.list_runs(RunQuery())).headers)


def dies(*_: object) -> None:
    raise PortError("the caller died here")


def test_an_idle_run_whose_starter_died_after_its_append_is_repaired() -> None:
    """Its header still says idle; its log says started."""
    world = World(FLOW)
    run_id = world.start(create_only=True)
    world.store.before["change_status"] = dies
    with pytest.raises(PortError):
        run_now(world.service.start_idle(run_id))
    assert world.header(run_id).status == "idle"
    world.clock.advance(STILL_MS + 300_001)
    assert sweep(world) == ["no_progress"]
    world.deliver()
    assert world.header(run_id).status == "waiting"


def test_a_cancel_that_died_before_it_was_shown_is_repaired() -> None:
    world = World(FLOW)
    run_id = started(world)
    world.store.before["change_status"] = dies
    with pytest.raises(PortError):
        run_now(world.service.cancel(run_id))
    assert world.header(run_id).status == "waiting"
    world.clock.advance(STILL_MS + 300_001)
    assert sweep(world) == ["no_progress"]
    world.deliver()
    assert world.header(run_id).status == "cancelled"


def test_a_wait_whose_timer_got_lost_is_overdue() -> None:
    world = World(FLOW)
    run_id = started(world)
    world.lose_messages()
    world.clock.advance(24 * 3_600_000 + STILL_MS + 1)
    assert sweep(world) == ["overdue"]
    world.deliver()
    assert world.header(run_id).status == "timed_out"


@pytest.mark.parametrize("definition", [FLOW, LIMITED])
def test_what_is_overdue_behind_a_backlog_is_sent_a_message_each_time_that_it_is_twice_as_late(definition: str) -> None:
    """The coordinator is hours behind. One message in each sweep would make the backlog longer."""
    world = World(definition)
    started(world)
    world.lose_messages()
    world.clock.advance(24 * HOUR_MS + STILL_MS + 1)
    sent = 0
    for _ in range(24):
        sent += len(sweep(world))
        world.clock.advance(5 * MINUTE_MS)
    assert 2 <= sent <= 6


def test_a_run_whose_deadline_got_lost_ends_all_the_same() -> None:
    """A start that died between its two messages: the run goes on, and its own time-out was never set."""
    world = World(LIMITED)
    run_id = world.start()
    world.lose_messages()
    world.clock.advance(STILL_MS + 1)
    assert sweep(world) == ["no_progress"]
    world.deliver()
    assert world.header(run_id).status == "waiting"
    world.clock.advance(3_600_000)
    assert sweep(world) == ["overdue"]
    world.deliver()
    assert world.header(run_id).status == "timed_out"


def test_a_run_that_cannot_be_read_does_not_hide_the_others() -> None:
    world = World(FLOW)
    broken, other = started(world), world.start()
    world.lose_messages()
    run_now(world.store.inner.append(broken, "0", 2, '{"slot":2,"kind":"started","by":"x","at_ms":1}'))
    world.clock.advance(STILL_MS + 300_001)
    found = run_now(world.sweeper.sweep(STILL_MS))
    assert set(found) == {StuckRun(broken, "unreadable"), StuckRun(other, "no_progress")}


@pytest.mark.parametrize("times", [1, 3])
def test_sweeping_again_and_again_does_no_harm(times: int) -> None:
    world = World(FLOW)
    run_id = world.start()
    world.lose_messages()
    world.clock.advance(STILL_MS + 300_001)
    for _ in range(times):
        sweep(world)
    world.deliver()
    assert (len(world.steps.calls), world.header(run_id).status) == (1, "waiting")


def test_more_runs_than_fit_a_page_are_all_looked_at() -> None:
    world = World("workflow: flow\ntimeline: [{name: hold, wait: {for: approval}}]")
    runs = [started(world) for _ in range(520)]
    world.lose_messages()
    world.clock.advance(24 * 3_600_000 + STILL_MS + 1)
    assert len(sweep(world)) == len(runs)
    world.deliver()
    assert {world.header(run_id).status for run_id in runs} == {"timed_out"}


def test_a_run_that_waits_for_nothing_is_driven_again_and_told_apart() -> None:
    """The law that `explain` shows: every open run has something durable that wakes it."""
    world = World("workflow: flow\ntimeline: [{name: hear, wait: {for: event, name: e, key: k}}]")
    run_id = started(world)
    world.pass_time(STILL_MS)
    assert sweep(world) == []
    inner = world.store.inner
    (place,) = inner._logs
    log = inner._logs[place]
    for slot, saved in log.records.items():
        record = decode_record(saved.body)
        if record.parked is not None:  # a defect has lost what it waits for
            bare = replace(record.parked, arms=(), until_ms=None)
            log.records[slot] = Saved(slot, encode_record(replace(record, parked=bare)))
    run_now(world.store.watch(run_id, world.clock.now_ms()))
    world.pass_time(2 * STILL_MS)
    assert sweep(world) == ["nothing_wakes"]
    standing = run_now(world.service.standing(run_id))
    assert explain(standing, world.clock.now_ms(), None, {})["nothing_can_wake_it"]
