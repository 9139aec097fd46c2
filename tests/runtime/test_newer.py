"""Data of newer code waits for a newer worker and loses nothing; broken data stops its own run alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

import pytest

from stepwell import limits
from stepwell.engine.records import ROOT, Status
from stepwell.engine.stored import formats
from stepwell.engine.stored.formats import FORMAT, KEY, NEWEST
from stepwell.engine.token import Token
from stepwell.errors import EngineFault, NewerFormat
from stepwell.limits import DELIVERIES, MINUTE_MS, PUT_OFFS
from stepwell.memory.inbox import ALL_LANES
from stepwell.runtime.dispatch import _last_try, bury, dispatch, give_up
from stepwell.runtime.log.claims import fetch, stow
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.log.messages import Wake, to_json
from stepwell.runtime.log.retries import again, fresh
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.notify.telling import Teller
from stepwell.runtime.ports import Lane, Saved
from stepwell.runtime.ports.headers import RunQuery
from tests.runtime.kit import World

FLOW = """
workflow: flow
timeline:
  - {name: work, run: python:m.work}
  - {name: hold, wait: {for: approval}}
  - {name: last, run: python:m.last}
"""
LOOP = """
workflow: flow
nodes:
  a: {run: python:m.a, transitions: [{to: a, when: "state.a < 7"}, {to: hold}]}
  hold: {wait: {for: approval}}
"""
FORK = """
workflow: flow
nodes:
  begin: {transitions: [{to: each, foreach: "{{ input.items }}"}]}
  each: {run: python:m.each, transitions: [{to: join}]}
  join: {fan_in: {merge: append, target: all}}
"""
STILL_MS = 600_000


def newer_code() -> Any:
    """A deploy: from here on the code of the next format runs."""
    return mock.patch.multiple(formats, FORMAT=FORMAT + 1, NEWEST=NEWEST + 1)


def rewritten(world: World, run_id: str, change: Callable[[dict[str, Any]], object], slot: int = -1) -> None:
    """A record of the run as somebody else has written it."""
    log = world.store.inner._logs[run_id, ROOT]
    saved = log.records[log.slots[slot]]
    raw = json.loads(saved.body)
    change(raw)
    log.records[saved.slot] = Saved(saved.slot, json.dumps(raw, separators=(",", ":")))


def make_newer(raw: dict[str, Any]) -> None:
    raw[KEY] = NEWEST + 1


def break_it(raw: dict[str, Any]) -> None:
    raw["kind"] = "unheard_of"


def lose_it(raw: dict[str, Any]) -> None:
    """Its claim check leads to no blob."""
    raw.clear()
    raw["claim"] = f"sha256:{'0' * 64}"


def held(definition: str = FLOW) -> tuple[World, str]:
    """A run at its approval."""
    world = World(definition)
    run_id = world.start()
    world.deliver()
    return world, run_id


def waiting_messages(world: World) -> list[tuple[Lane, Mapping[str, Any]]]:
    return [(one.lane, json.loads(one.text)) for one in world.queue._messages.values()]


# -- messages


def test_a_wake_that_meets_a_newer_record_waits_for_newer_code_and_then_goes_on() -> None:
    world, run_id = held()
    run_now(world.service.approve(run_id))
    rewritten(world, run_id, make_newer)
    before = waiting_messages(world)
    for _ in range(3 * DELIVERIES * PUT_OFFS):
        assert world.deliver() == 1
        world.clock.advance(MINUTE_MS)
        assert [(lane, fresh(body)) for lane, body in waiting_messages(world)] == before
    with newer_code():
        world.deliver()
        assert world.header(run_id).status is Status.COMPLETED


@pytest.mark.parametrize("lane", list(Lane))
def test_a_message_of_newer_code_is_sent_again_with_every_field_it_has(lane: Lane) -> None:
    """Of a type that this code does not know, and of one that has got more fields."""
    world = World(FLOW)
    bodies = [
        {"type": "greeting", "to": ["all"], KEY: FORMAT + 1, "put_off": 9},
        {**to_json(Wake("r1", 3)), KEY: FORMAT + 1, "urgent": True},
    ]
    for body in bodies:
        world.send(lane, body)
    for _ in range(30):
        world.deliver()
        world.clock.advance(MINUTE_MS)
    assert waiting_messages(world) == [(lane, again(body)) for body in bodies]


def test_it_does_not_come_again_at_once() -> None:
    world = World(FLOW)
    world.send(Lane.WORK, {"type": "greeting", KEY: FORMAT + 1})
    assert world.deliver() == 1
    assert world.queue.next_due_ms() == world.clock.now_ms() + MINUTE_MS


def test_a_message_of_newer_code_fails_no_token_however_often_it_was_delivered() -> None:
    """Neither where this code would give it up, nor out of a dead-letter queue: from there it goes to the workers."""
    world = World(FLOW)
    body = {**to_json(Wake("r1", 3)), KEY: FORMAT + 1}
    assert not run_now(give_up(world.parts, Lane.WORK, body))
    assert waiting_messages(world) == []
    assert run_now(bury(world.parts, body))
    assert waiting_messages(world) == [(Lane.WORK, again(body))]


def test_a_dead_wake_of_a_run_that_newer_code_has_moved_is_left_to_newer_code() -> None:
    world, run_id = held()
    rewritten(world, run_id, make_newer)
    world.lose_messages()
    dead = to_json(Wake(run_id, 1))
    run_now(world.store.put_note(*_last_try(dead), "", None))  # a worker died of it
    assert run_now(bury(world.parts, dead))
    ((lane, body),) = waiting_messages(world)
    assert (lane, body["type"]) == (Lane.RESUME, "dead_letter")
    assert run_now(world.store.read_log(run_id, ROOT))[-1].slot == 1


def test_a_claim_check_carries_the_number_too() -> None:
    world = World(FLOW)
    body = run_now(stow(json.dumps({"x": "y" * limits.CLAIM_CHECK_BYTES}), world.blobs))
    raw = json.loads(body)
    assert raw[KEY] == FORMAT
    with pytest.raises(NewerFormat):
        run_now(fetch(json.dumps({**raw, KEY: FORMAT + 1}, separators=(",", ":")), world.blobs))
    for broken in ('{"claim":', '{"claim":7,"v":"x"}'):
        with pytest.raises(EngineFault) as raised:
            run_now(fetch(broken, world.blobs))
        assert raised.value.code == "broken_claim_check"
    without = json.dumps({"claim": raw["claim"]}, separators=(",", ":"))
    assert len(run_now(fetch(without, world.blobs))) > limits.CLAIM_CHECK_BYTES


# -- one run alone


@pytest.mark.parametrize("broken", [break_it, lose_it, make_newer])
def test_a_run_that_cannot_be_read_keeps_no_other_from_the_sweeper(broken: Callable[[dict[str, Any]], object]) -> None:
    world = World(FLOW)
    runs = [world.start() for _ in range(3)]
    world.deliver()
    for run_id in runs:
        run_now(world.service.approve(run_id))
    world.lose_messages()
    rewritten(world, runs[1], broken)
    world.clock.advance(STILL_MS + 1)
    found = {(one.run_id, one.why) for one in run_now(world.sweeper.sweep(STILL_MS))}
    unread = {(runs[1], "unreadable")} if broken is not make_newer else set()
    assert found == {(runs[0], "no_progress"), (runs[2], "no_progress")} | unread
    world.deliver()
    assert [world.header(run_id).status.value for run_id in runs] == ["completed", "waiting", "completed"]


def test_a_run_that_cannot_be_read_keeps_no_event_from_the_others() -> None:
    """It waits for the same event, and began to before them. If it is alone, the message comes again."""
    world = World("workflow: flow\ntimeline:\n  - {name: hear, wait: {for: event, name: paid, key: k}}\n")
    first, second = world.start(), world.start()
    world.deliver()
    rewritten(world, first, break_it)
    run_now(world.service.send_event("paid", None, key="k"))
    world.deliver()
    assert world.header(second).status is Status.COMPLETED
    run_now(world.service.send_event("paid", None, key="k"))
    with pytest.raises(EngineFault):
        world.deliver()


@pytest.mark.parametrize(("broken", "error"), [(break_it, EngineFault), (make_newer, NewerFormat)])
def test_it_is_listed_with_the_others_and_cannot_be_shown(
    broken: Callable[[dict[str, Any]], object], error: type[Exception]
) -> None:
    world = World(FLOW)
    runs = [world.start() for _ in range(3)]
    world.deliver()
    rewritten(world, runs[1], broken)
    assert {header.run_id for header in run_now(world.service.runs(RunQuery())).headers} == set(runs)
    for call in (world.service.standing, world.service.records, world.service.approve, world.service.cancel):
        with pytest.raises(error):
            run_now(call(runs[1]))
    run_now(world.service.approve(runs[2]))
    world.deliver()
    assert world.header(runs[2]).status is Status.COMPLETED


# -- snapshots


def counted() -> tuple[World, str]:
    """A run whose state was saved, and has grown since."""
    world = World(LOOP, snapshot_records=3)
    world.steps.of["a"] = lambda call: call.state.get("a", 0) + 1
    run_id = world.start()
    world.deliver()
    return world, run_id


def older_fold(world: World, run_id: str) -> Saved:
    """As a fold that knew nothing of the scope has left it."""
    log = world.store.inner._logs[run_id, ROOT]
    assert log.snapshot is not None
    raw = {**json.loads(log.snapshot.body), "fold": formats.FOLD - 1}
    del raw["scope"], raw["visits"]
    older = log.snapshot = Saved(log.snapshot.slot, json.dumps(raw))
    return older


def test_the_snapshot_of_an_older_fold_loses_no_state() -> None:
    world, run_id = counted()
    before = world.token(run_id)
    assert before.scope == {"a": 7}
    old = older_fold(world, run_id)
    assert world.token(run_id) == before
    run_now(world.service.approve(run_id))
    world.deliver()
    assert world.token(run_id).scope["a"] == 7
    saved = world.store.inner._logs[run_id, ROOT].snapshot
    assert saved.slot > old.slot
    assert json.loads(saved.body)["fold"] == formats.FOLD


def test_history_and_notices_are_told_from_the_log_where_another_fold_made_the_snapshot() -> None:
    world, run_id = counted()
    before = run_now(run_now(world.service.narrator(run_id)).logbook.token_before(run_id, 10**6))
    assert before is not None
    assert before.slot > 0
    older_fold(world, run_id)
    assert run_now(run_now(world.service.narrator(run_id)).logbook.token_before(run_id, 10**6)) == Token()
    last = run_now(world.store.read_log(run_id, ROOT))[-1]
    with mock.patch("stepwell.runtime.notify.telling.SNAPSHOT_RECORDS", 3):
        told = run_now(
            Teller(world.store, world.store, world.store, world.blobs).appended(run_id, ROOT, last.slot, last.body)
        )
    assert [notice.entry.type for notice in told] == ["approval.requested"]


# -- forks


@pytest.mark.parametrize("limit", ["PAGE_BRANCHES", "FORK_CHUNK"])
def test_a_fork_that_was_recorded_under_other_limits_goes_on_under_them(limit: str) -> None:
    """A deploy changes the limits while the branches run: each still knows its page, and the join its members."""
    world = World(FORK)
    items = list(range(25))
    with mock.patch.object(limits, "PAGE_BRANCHES", 8), mock.patch.object(limits, "FORK_CHUNK", 3):
        run_id = world.start(given={"items": items})
        for _ in range(4):
            _deliver_one(world)
    with mock.patch.object(limits, limit, 5):
        world.deliver()
    assert world.header(run_id).status is Status.COMPLETED
    assert len(world.token(run_id).scope["all"]) == len(items)
    joins = {join for _, join in world.store.inner._joins}
    assert joins == {f"0/0@{page}" for page in range(4)}


def _deliver_one(world: World) -> None:

    one = world.queue.receive(ALL_LANES, world.clock.now_ms(), 60_000)
    assert one is not None
    run_now(dispatch(world.parts, one.lane, one.message, Unlimited(one.deliveries)))
    world.queue.delete(one)
