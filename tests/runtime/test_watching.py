"""The sweeper reads the runs that are due, meets each run once, and leaves those that wait alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from stepwell.engine.records import Status
from stepwell.errors import PortError
from stepwell.limits import ATTEMPT_MAX_MS, DAY_MS, HOUR_MS, MINUTE_MS
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.loop import sweeper
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.loop.rounds import KEPT_STRETCHES, Rounds
from stepwell.runtime.loop.sweeper import StuckRun, Sweeper
from stepwell.runtime.ports import Lane
from stepwell.runtime.ports.headers import RunQuery, StatusChange
from tests.runtime.kit import World

STILL_MS = 5 * MINUTE_MS
ASKS = "workflow: flow\ntimeline: [{name: hold, wait: {for: approval}}, {name: last, run: python:m.last}]"
TIMED = "workflow: flow\ntimeline: [{name: hold, wait: {for: approval, timeout: 3d}}]"
STEP = "workflow: flow\ntimeline: [{name: work, run: python:m.work, timeout: 1h}]"
EVENT = "workflow: flow\ntimeline: [{name: hold, wait: {for: event, name: paid, key: k}}]"
BRANCHES = """
workflow: flow
nodes:
  list: {run: python:m.list, transitions: [{to: hold, foreach: "{{ input }}"}]}
  hold: {wait: {for: approval}, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all, merge: append, target: found}, transitions: [{to: end}]}
"""
LIMITED = """
workflow: flow
timeout: 20h
timeline: [{name: one, wait: {for: approval, timeout: 30d}}, {name: two, wait: {for: approval, timeout: 30d}}]
"""
PARENT = 'workflow: flow\ntimeline: [{name: ask, run: "workflow:child", timeout: 1d}]'
CHILD = "workflow: child\ntimeline: [{name: hold, wait: {for: approval, timeout: 30d}}]"
NOTHING_NEW = Counter(list_due=1, get_note=1, list_runs=1, put_note=1)


def sweep(world: World) -> list[StuckRun]:
    return list(run_now(world.sweeper.sweep(STILL_MS)))


def reads(world: World) -> Counter[str]:
    """What a sweep that finds nothing asks the store for."""
    world.store.calls.clear()
    assert sweep(world) == []
    return Counter(world.store.calls)


def met(text: str, *, given: object = None) -> tuple[World, str]:
    """A run that waits, and that the sweeper has met: all live runs at first, and once more an hour later."""
    world = World(text)
    run_id = world.start(given=given)
    world.deliver()
    for _ in range(15):
        world.pass_time(STILL_MS)
        assert sweep(world) == []
    assert world.header(run_id).watched
    return world, run_id


def dies(*_: object) -> None:
    raise PortError("the caller died here")


def after(world: World, duration_ms: int) -> list[StuckRun]:
    """What the sweeps of this time found, each run once."""
    found: dict[str, StuckRun] = {}
    for _ in range(duration_ms // STILL_MS):
        world.clock.advance(STILL_MS)
        found.update((one.run_id, one) for one in sweep(world))
    return list(found.values())


@pytest.mark.parametrize("text", [ASKS, TIMED, EVENT])
def test_a_run_that_waits_is_read_once_and_then_left_alone(text: str) -> None:
    world, _ = met(text)
    for _ in range(20):
        world.clock.advance(STILL_MS)
        assert reads(world) == NOTHING_NEW


def test_a_wait_without_a_timer_is_never_due_and_one_with_a_timer_is_due_at_it() -> None:
    world, run_id = met(ASKS)
    waits_ms = world.header(run_id).waiting_until_ms
    assert world.header(run_id).due_ms == (None if waits_ms is None else waits_ms - waits_ms % MINUTE_MS)


def test_a_timer_that_got_lost_long_after_the_sweeper_met_the_run_is_overdue() -> None:
    world, run_id = met(TIMED)
    world.lose_messages()
    assert after(world, 2 * DAY_MS) == []
    assert after(world, DAY_MS) == [StuckRun(run_id, "overdue")]
    world.deliver()
    assert world.header(run_id).status == "timed_out"


def test_a_run_whose_branches_wait_is_read_once() -> None:
    world, run_id = met(BRANCHES, given=[1, 2, 3])
    assert world.header(run_id).status == "waiting"
    world.clock.advance(STILL_MS)
    assert reads(world) == NOTHING_NEW


def test_a_caller_that_dies_before_the_wake_of_a_long_wait_is_found_within_two_sweeps() -> None:
    world, run_id = met(ASKS)
    run_now(world.service.approve(run_id))
    assert world.lose_messages() > 0
    assert after(world, 3 * STILL_MS) == [StuckRun(run_id, "no_progress")]
    world.deliver()
    assert world.header(run_id).status == "completed"


def test_a_caller_that_dies_right_after_its_append_is_found_too() -> None:
    """The header still says that the run waits."""
    world, run_id = met(ASKS)
    world.store.before["change_status"] = dies
    with pytest.raises(PortError):
        run_now(world.service.cancel(run_id))
    assert world.header(run_id).status == "waiting"
    assert after(world, 3 * STILL_MS) == [StuckRun(run_id, "no_progress")]
    world.deliver()
    assert world.header(run_id).status == "cancelled"


def test_a_branch_whose_wake_was_lost_after_a_long_wait_is_found() -> None:
    world, run_id = met(BRANCHES, given=[1, 2])
    run_now(world.service.approve(run_id, wait="0/0.1"))
    assert world.lose_messages() > 0
    assert after(world, 3 * STILL_MS) == [StuckRun(run_id, "no_progress")]
    world.deliver()
    world.pass_time(STILL_MS)
    assert sweep(world) == []
    run_now(world.service.approve(run_id, wait="0/0.0"))
    world.deliver()
    assert world.header(run_id).status == "completed"


def test_a_run_that_an_event_moved_and_that_no_message_is_left_for_is_found() -> None:
    world, run_id = met(EVENT)
    run_now(world.service.send_event("paid", {}, key="k"))
    one = world.queue.receive([Lane.RESUME], world.clock.now_ms(), 60_000)
    assert one is not None
    run_now(dispatch(world.parts, one.lane, one.message, Unlimited(one.deliveries)))
    assert world.lose_messages() > 0
    assert after(world, 3 * STILL_MS) == [StuckRun(run_id, "no_progress")]
    world.deliver()
    assert world.header(run_id).status == "completed"


def test_a_step_that_may_take_an_hour_is_looked_at_when_the_hour_is_over() -> None:
    world = World(STEP)
    run_id = world.start()
    seen: list[int] = []

    def work(_: object) -> int:
        for _ in range(12):
            world.clock.advance(STILL_MS)
            world.store.calls.clear()
            assert sweep(world) == []
            seen.append(world.store.calls["load"])
        raise PortError("the worker died here")

    world.steps.of["work"] = work
    with pytest.raises(PortError):
        world.deliver()
    world.lose_messages()
    assert sum(seen) == 1  # as the sweeper met it
    assert after(world, 4 * STILL_MS) == [StuckRun(run_id, "no_progress")]


def test_runs_of_an_older_release_are_met_though_nothing_says_when_they_are_due() -> None:
    world = World(TIMED)
    run_id = world.start()
    world.deliver()
    world.lose_messages()
    runs = world.store.inner._runs
    runs[run_id] = replace(runs[run_id], due_ms=None)
    assert after(world, 2 * HOUR_MS) == []
    assert world.header(run_id).due_ms is not None
    assert after(world, 3 * DAY_MS) == [StuckRun(run_id, "overdue")]


def test_what_an_older_release_moves_while_a_newer_one_sweeps_is_found_an_hour_later() -> None:
    """During a deploy the last worker of the older release may leave a run that was met without its due time."""
    world = World(ASKS)
    run_id = world.start()
    world.deliver()
    world.pass_time(2 * STILL_MS)
    assert sweep(world) == []
    assert world.header(run_id).watched
    run_now(world.service.approve(run_id))
    world.lose_messages()
    run_now(world.store.inner.change_status(StatusChange(run_id, 3, Status.RUNNING, world.clock.now_ms())))
    assert world.header(run_id).due_ms is None
    assert after(world, HOUR_MS + 2 * STILL_MS) == [StuckRun(run_id, "no_progress")]


def test_a_sweep_after_an_hour_without_one_looks_at_all_live_runs() -> None:
    """A release that was rolled back for a day has moved runs without saying when they are due."""
    world, _ = met(ASKS)
    world.clock.advance(HOUR_MS + 1)
    world.store.calls.clear()
    assert sweep(world) == []
    assert world.store.calls["load"] == 1
    world.clock.advance(STILL_MS)
    assert reads(world) == NOTHING_NEW


def test_the_next_process_goes_on_where_the_last_had_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeper, "PAGE_ITEMS_MAX", 3)
    world = World(ASKS)
    runs = [world.start() for _ in range(20)]
    world.lose_messages()
    world.clock.advance(3 * STILL_MS)
    found: list[str] = []
    for _ in range(7):
        parts = world.parts
        process = Sweeper(parts.ports, Logbook(parts.ports, world.catalog), parts.stopping)
        page = run_now(process.sweep(STILL_MS, lambda: 0))
        assert len(page) <= 3
        found += [one.run_id for one in page]
    assert sorted(found) == sorted(runs)


def test_due_runs_that_did_not_fit_into_a_sweep_come_first_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeper, "PAGE_ITEMS_MAX", 2)
    world = World(TIMED)
    runs = [world.start() for _ in range(6)]
    world.deliver()
    world.lose_messages()
    assert after(world, 2 * HOUR_MS) == []
    world.clock.advance(3 * DAY_MS)
    found = [[one.run_id for one in run_now(world.sweeper.sweep(STILL_MS, lambda: 0))] for _ in range(3)]
    assert [len(page) for page in found] == [2, 2, 2]
    assert sorted(run_id for page in found for run_id in page) == sorted(runs)


def test_a_new_run_is_met_before_what_is_left_of_old_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million runs of an older release take hours: none of them keeps a run of today waiting."""
    monkeypatch.setattr(sweeper, "PAGE_ITEMS_MAX", 10)
    world = World(ASKS)
    for _ in range(100):
        world.start()
    world.deliver()
    world.clock.advance(2 * STILL_MS)
    assert run_now(world.sweeper.sweep(STILL_MS, lambda: 0)) == ()
    stuck = world.start()
    world.lose_messages()
    found: list[str] = []
    for _ in range(3):
        world.clock.advance(STILL_MS)
        found += [one.run_id for one in run_now(world.sweeper.sweep(STILL_MS, lambda: 0))]
    assert found[:1] == [stuck]
    assert set(found) == {stuck}


@pytest.mark.parametrize("what", ["unknown kind", "lost blob"])
def test_a_run_that_cannot_be_read_is_reported_again_and_again_and_hides_no_other(what: str) -> None:
    world, broken = met(ASKS)
    other = world.start()
    world.lose_messages()
    body = '{"slot":1,"kind":"started","by":"x","at_ms":1}' if what == "unknown kind" else '{"claim":"sha256:00"}'
    run_now(world.store.inner.append(broken, "0", 1, body))
    run_now(world.store.watch(broken, world.clock.now_ms()))
    world.clock.advance(3 * STILL_MS)
    assert set(sweep(world)) == {StuckRun(broken, "unreadable"), StuckRun(other, "no_progress")}
    world.clock.advance(2 * STILL_MS)
    assert StuckRun(broken, "unreadable") in sweep(world)


def test_a_run_that_moves_while_it_is_looked_at_stays_under_watch() -> None:
    world = World(ASKS)
    run_id = world.start()
    world.deliver()
    world.clock.advance(2 * STILL_MS)
    moved = StatusChange(run_id, 50, Status.RUNNING, world.clock.now_ms(), due_ms=7)
    world.store.before["watch"] = lambda *_: run_now(world.store.inner.change_status(moved))
    sweep(world)
    header = world.header(run_id)
    assert header.watched
    assert header.due_ms == world.clock.now_ms() - world.clock.now_ms() % MINUTE_MS


def test_two_sweeps_at_once_do_not_undo_each_others_place() -> None:
    world = World(ASKS)
    world.start()
    world.deliver()
    world.clock.advance(2 * STILL_MS)
    world.store.before["put_note"] = lambda *_: run_now(world.sweeper.sweep(STILL_MS))
    assert sweep(world) == []
    assert Rounds.of(run_now(world.store.get_note("sweeper", "rounds"))).stretches == ()


def test_a_place_that_falls_behind_keeps_few_stretches_and_loses_none() -> None:
    rounds = Rounds().begun(DAY_MS, STILL_MS)
    for number in range(1, 11):
        rounds = rounds.begun(DAY_MS + number * STILL_MS, STILL_MS)
    rounds = Rounds(rounds.until_ms, rounds.swept_ms, 0, rounds.stretches)
    for number in range(11, 80):
        rounds = Rounds.of(rounds.begun(DAY_MS + number * STILL_MS, STILL_MS).note())
    assert len(rounds.stretches) == KEPT_STRETCHES
    assert rounds.stretches[-1].since_ms == 0
    assert rounds.stretches[-1].all


def test_a_time_out_of_the_run_itself_that_got_lost_is_overdue_in_its_first_wait_and_in_a_later_one() -> None:
    for answers in (0, 1):
        world, run_id = met(LIMITED)
        for _ in range(answers):
            run_now(world.service.approve(run_id))
            world.deliver()
            assert after(world, HOUR_MS) == []
        world.lose_messages()
        assert after(world, DAY_MS) == [StuckRun(run_id, "overdue")]
        world.deliver()
        assert world.header(run_id).status == "timed_out"


def test_a_worker_that_vanishes_after_it_took_up_a_long_wait_is_found() -> None:
    """The header says that the run is under way: it is due at once."""
    world, run_id = met(ASKS)
    run_now(world.service.approve(run_id))
    world.steps.of["last"] = dies
    with pytest.raises(PortError):
        world.deliver()
    world.lose_messages()
    assert world.header(run_id).status == "running"
    world.steps.of.clear()
    assert after(world, ATTEMPT_MAX_MS + 2 * STILL_MS) == [StuckRun(run_id, "no_progress")]
    world.deliver()
    assert world.header(run_id).status == "completed"


def test_a_parent_that_nobody_told_of_its_childs_end_is_found_though_it_waits_for_long() -> None:
    world = World(PARENT, CHILD)
    parent = world.start()
    world.deliver()
    assert after(world, 2 * HOUR_MS) == []
    (child,) = run_now(world.service.runs(RunQuery(workflow="child"))).headers
    world.store.before["append"] = lambda *_: world.store.before.update(append=dies)  # the second is the parent's
    with pytest.raises(PortError):
        run_now(world.service.cancel(child.run_id))
    assert after(world, HOUR_MS) == [StuckRun(parent, "no_progress")]


def test_a_wait_for_another_run_is_checked_ever_more_rarely() -> None:
    world = World(PARENT, CHILD)
    world.start()
    world.deliver()
    assert after(world, 2 * HOUR_MS) == []  # both are met
    looks: list[int] = []
    for _ in range(20):
        world.store.calls.clear()
        assert after(world, HOUR_MS) == []
        looks.append(world.store.calls["load"])
    assert 8 <= sum(looks) <= 20
    assert looks[0] >= 1
    assert sum(looks[-4:]) <= 2


def test_a_cancel_of_many_branches_makes_their_run_due_once() -> None:
    world, run_id = met(BRANCHES, given=list(range(20)))
    world.store.calls.clear()
    run_now(world.service.cancel(run_id))
    world.deliver()
    assert world.store.calls["watch"] == 1
