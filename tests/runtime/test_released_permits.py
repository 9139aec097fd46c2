"""A run that gives back its permit while it waits: others begin meanwhile, and it takes one again before it goes on."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from stepwell.api.runs.explain import explain
from stepwell.definition.graph import Json
from stepwell.engine.limits.throttles import ASKS, FREES, PERMITTED
from stepwell.engine.records import ROOT, End, Record
from stepwell.engine.stored.codec import decode_record
from stepwell.limits import HOUR_MS, MINUTE_MS, SECOND_MS
from stepwell.local.database import Database
from stepwell.local.sqlite_store import SqliteStore
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.steps.port import StepCall
from tests.runtime.kit import World, fails
from tests.runtime.test_permit_kills import Watched, ask, deliver
from tests.runtime.test_permits import end, notes_of, started, statuses

ASKED = """
workflow: flow
concurrency: {limit: 1, while_waiting: release}
timeline:
  - {name: hold, wait: {for: approval}}
  - {name: last, run: python:m.last}
"""
HELD = ASKED.replace("release", "hold")
WAITS = {
    "event": "wait: {for: event, name: paid, key: k, timeout: 1m, on_timeout: continue}",
    "sleep": "sleep: 1m",
    "approval": "wait: {for: approval, timeout: 1m, on_timeout: continue}",
    "callback": "wait: {for: callback, timeout: 1m, on_timeout: continue}",
    "any of two": "wait: {any: [{for: event, name: paid, key: k}, {for: delay, timeout: 1m}]}",
}


def records(world: World, run_id: str) -> list[Record]:
    return [decode_record(one.body) for one in run_now(world.store.read_log(run_id, ROOT))]


def slots(world: World, run_id: str) -> list[str]:
    """What became of the run's permit, by its log."""
    told = [_told(record) for record in records(world, run_id)]
    return [one for one in told if one]


def _told(record: Record) -> str:
    if record.resumption is not None and record.resumption.kind == PERMITTED:
        return "taken"
    return "freed" if FREES in record.rules else "asked" if ASKS in record.rules else ""


def test_a_run_that_waits_lets_the_others_begin() -> None:
    world = World(ASKED)
    runs = started(world, 3)
    assert statuses(world, *runs) == ["waiting"] * 3
    for run_id in runs:
        end(world, run_id)
    assert statuses(world, *runs) == ["completed"] * 3
    assert [slots(world, one) for one in runs] == [["freed", "asked", "taken"]] * 3
    assert notes_of(world, "permits:flow") == {}


def test_without_the_option_a_run_that_waits_keeps_its_permit() -> None:
    world = World(HELD)
    runs = started(world, 3)
    assert statuses(world, *runs) == ["waiting", "pending", "pending"]
    assert slots(world, runs[0]) == []


@pytest.mark.parametrize("kind", WAITS)
def test_whatever_it_waits_for_its_permit_is_free(kind: str) -> None:
    world = World(ASKED.replace("wait: {for: approval}", WAITS[kind]))
    runs = started(world, 2)
    assert statuses(world, *runs) == ["waiting"] * 2
    deliver(world, world.clock.now_ms() + HOUR_MS)
    assert statuses(world, *runs) == ["completed"] * 2
    assert [slots(world, one) for one in runs] == [["freed", "asked", "taken"]] * 2
    assert notes_of(world, "permits:flow") == {}


FORK = """
workflow: flow
concurrency: {limit: 1, while_waiting: release}
nodes:
  hold: {wait: {for: approval}, transitions: [{to: each, foreach: "{{ [1] }}"}]}
  each: {wait: {for: event, name: paid, key: k}, transitions: [{to: met}]}
  met: {fan_in: {policy: all}}
"""


def test_a_run_that_goes_on_waits_for_a_permit_before_those_that_have_not_begun() -> None:
    world = World(FORK)
    first, second = started(world, 2)
    end(world, second)  # its fork is open now, and keeps the permit
    (third,) = started(world, 1)
    end(world, first)
    assert statuses(world, first, second, third) == ["waiting", "waiting", "pending"]
    told = explain(run_now(world.service.standing(first)), world.clock.now_ms(), None, {})
    assert not told["nothing_can_wake_it"]
    assert told["wakers"] == [{"what": "limit", "at": None, "detail": f"the end, or a wait, of {second}"}]
    publish(world, "paid")
    assert statuses(world, first, second, third) == ["waiting", "completed", "pending"]
    assert slots(world, first) == ["freed", "asked", "taken"]


def publish(world: World, name: str) -> None:
    run_now(world.service.send_event(name, {}, key="k"))
    world.deliver()


def in_line() -> tuple[World, str, str, str]:
    """One run holds the only permit, its fork is open; another waits for it again; a third has not begun."""
    world = World(FORK)
    first, second = started(world, 2)
    end(world, second)
    (third,) = started(world, 1)
    end(world, first)
    return world, second, first, third


@pytest.mark.parametrize("word", ["cancel", "terminate"])
def test_a_run_that_is_ended_while_it_waits_for_its_permit_leaves_the_line(word: str) -> None:
    world, holder, waits, pending = in_line()
    run_now(getattr(world.service, word)(waits))
    world.deliver()
    assert statuses(world, holder, waits, pending) == [
        "waiting",
        "cancelled" if word == "cancel" else "failed",
        "pending",
    ]
    publish(world, "paid")
    assert statuses(world, holder, pending) == ["completed", "waiting"]
    run_now(world.service.cancel(pending))
    world.deliver()
    assert notes_of(world, "permits:flow") == {}


def test_a_paused_run_lets_the_next_one_have_the_permit() -> None:
    world, holder, waits, pending = in_line()
    run_now(world.service.pause(waits))
    publish(world, "paid")
    assert statuses(world, holder, waits, pending) == ["completed", "paused", "waiting"]
    run_now(world.service.unpause(waits))
    world.deliver()
    assert statuses(world, waits) == ["waiting"]
    publish(world, "paid")
    assert statuses(world, waits) == ["completed"]
    run_now(world.service.cancel(pending))
    world.deliver()
    assert notes_of(world, "permits:flow") == {}


def test_a_run_that_is_ended_while_it_waits_has_no_permit_to_give_back() -> None:
    world = World(ASKED)
    runs = started(world, 2)
    run_now(world.service.cancel(runs[0]))
    world.deliver()
    assert statuses(world, *runs) == ["cancelled", "waiting"]
    assert notes_of(world, "permits:flow") == {}


UNDONE = """
workflow: flow
concurrency: {limit: 1, while_waiting: release}
compensate_on: [cancel]
timeline:
  - {name: paid, run: python:m.pay, compensate: {run: python:m.back}}
  - {name: hold, wait: {for: approval}}
"""


def test_a_run_that_is_undone_after_a_wait_takes_a_permit_first() -> None:
    world = World(UNDONE)
    run_id = world.start()
    world.deliver()
    run_now(world.service.cancel(run_id))
    world.deliver()
    assert statuses(world, run_id) == ["compensated"]
    assert slots(world, run_id) == ["freed", "asked", "taken"]
    assert notes_of(world, "permits:flow") == {}


LOCKED = ASKED.replace("concurrency:", "lock: one\nconcurrency:")


def test_a_run_with_a_lock_keeps_its_permit_as_others_with_one_may_wait_for_the_lock() -> None:
    world = World(LOCKED)
    runs = started(world, 2)
    assert statuses(world, *runs) == ["waiting", "pending"]
    end(world, runs[0])
    end(world, runs[1])
    assert statuses(world, *runs) == ["completed"] * 2


NESTED = """
workflow: flow
concurrency: {limit: 1, while_waiting: release}
nodes:
  top: {transitions: [{to: each, foreach: "{{ [1] }}", when: "!has(input.depth)"}, {to: hold, priority: 2}]}
  each: {run: "workflow:flow", input: {depth: 1}, transitions: [{to: met}]}
  met: {fan_in: {policy: all}}
  hold: {sleep: 1m}
"""


def test_a_run_below_one_that_holds_the_permit_goes_on_under_it() -> None:
    """Its parent's fork waits for it, so the permit that it would wait for would never come."""
    world = World(NESTED)
    run_id = world.start(given={})
    deliver(world, world.clock.now_ms() + HOUR_MS)
    assert statuses(world, run_id) == ["completed"]
    assert notes_of(world, "permits:flow") == {}


class Held(Watched):
    """It counts the runs that hold a permit, by their logs."""

    def see(self, run_id: str, record: Record) -> None:
        is_first = record.slot == 0 and not isinstance(record.next, End)
        if isinstance(record.next, End) or FREES in record.rules:
            self.counted.discard(run_id)
        elif is_first or _told(record) == "taken":
            self.counted.add(run_id)
        self.most = max(self.most, len(self.counted))


NAPS = """
workflow: flow
concurrency: {limit: 1, while_waiting: release}
timeline: [{name: one, run: python:m.one}, {name: nap, sleep: 10s}, {name: two, run: python:m.two}]
"""


def lived(at: int, done: bool) -> tuple[World, Held, list[str]]:
    """Three runs, of which one is cancelled and one paused for a while."""
    world = World(NAPS)
    runs = [world.start() for _ in range(3)]
    watched = Held(world.store.inner, at, done)
    world.store.inner = watched
    now_ms = world.clock.now_ms()
    deliver(world, now_ms + 5_000)
    ask(partial(world.service.cancel, runs[2]))
    deliver(world, now_ms + 10 * MINUTE_MS)
    return world, watched, runs


@pytest.mark.parametrize("done", [False, True], ids=["before it", "after it"])
def test_a_worker_that_dies_at_any_call_leaks_no_permit_and_leaves_no_run_behind(done: bool) -> None:
    at, has_killed = 1, True
    while has_killed:
        world, watched, runs = lived(at, done)
        assert watched.most == 1, at
        has_killed = watched.stop()
        world.clock.set(world.clock.now_ms() + HOUR_MS)
        run_now(world.sweeper.sweep(MINUTE_MS))
        deliver(world, world.clock.now_ms() + HOUR_MS)
        assert statuses(world, *runs) == ["completed", "completed", "cancelled"], at
        last = world.start()
        deliver(world, world.clock.now_ms() + HOUR_MS)
        assert statuses(world, last) == ["completed"], at
        assert notes_of(world, "permits:flow") == {}, at
        at += 1
    assert at > 50


RETRY = "retry: {max_retries: 1, backoff: constant, initial_delay: 1s}"  # which is no wait: it keeps its permit
CONTENDED = f"""
workflow: flow
concurrency: {{limit: 10, while_waiting: release}}
timeline:
  - {{name: first, run: python:m.first, {RETRY}}}
  - {{name: nap, sleep: 3s}}
  - {{name: last, run: python:m.last, {RETRY}}}
"""


@pytest.mark.parametrize("number", [150, pytest.param(1_000, marks=pytest.mark.slow)])
def test_runs_that_release_their_permits_under_a_limit_of_ten_are_never_eleven_and_none_is_starved(
    number: int, tmp_path: Path
) -> None:
    """On SQLite. Each holds a permit for a second, waits without one for three, and holds one for a second again."""
    world = World(CONTENDED)
    database = Database(tmp_path / "runs.db", "NORMAL")
    world.store.inner = SqliteStore(database)
    at_work: set[str] = set()
    most, ended = 0, []

    def works(call: StepCall) -> Json:
        nonlocal most
        if call.attempt == 1:
            at_work.add(call.run_id)
            most = max(most, len(at_work))
            return fails("Away", "transient")
        at_work.discard(call.run_id)
        ended.extend([call.run_id] * (call.node == "last"))
        return None

    world.steps.of |= {"first": works, "last": works}
    runs = [world.start() for _ in range(number)]
    world.deliver()
    world.pass_time(2 * number * SECOND_MS // 10)  # all permits are at work all the time
    assert (sorted(ended), most) == (runs, 10)
    assert notes_of(world, "permits:flow") == {}
    turns = {run_id: place for place, run_id in enumerate(ended)}
    assert max(abs(turns[run_id] - place) for place, run_id in enumerate(runs)) <= 10
    database.close()
