"""Events: each counts once, is taken by one run, is kept for who waits later, and is refused where none can take it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stepwell.engine.records import Topic
from stepwell.engine.waits import run_topic
from stepwell.errors import Conflict, LeaseLost
from stepwell.limits import HOUR_MS
from stepwell.memory.inbox import ALL_LANES
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.log.messages import Publish, from_json, to_json
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Event, Lane
from tests.runtime.kit import World
from tests.runtime.test_lost_workers import RunsOut
from tests.runtime.test_service import ENDED, FLOW, approving


def test_an_event_of_one_id_counts_once_however_often_it_comes() -> None:
    wait = "wait: {for: event, name: e, key: k}"
    text = f"workflow: flow\ntimeline: [{{name: a, {wait}}}, {{name: b, {wait}}}]"
    world = World(text)
    run_id = approving(world)
    for _ in range(3):
        run_now(world.service.send_event("e", {"n": 1}, key="k", event_id="same"))
        world.deliver()
    assert world.token(run_id).node == "b"
    run_now(world.service.send_event("e", {"n": 2}, key="k", event_id="other"))
    world.deliver()
    assert world.header(run_id).status == "completed"


def test_an_event_for_one_run_finds_its_wait_in_its_log_and_no_other_run() -> None:
    arms = "{for: event, name: e, key: k, match: 'event.n > 1'}, {for: event, name: f}"
    world = World(f"workflow: flow\ntimeline: [{{name: a, wait: {{any: [{arms}]}}}}]")
    run_id, other = approving(world), approving(world)
    for number in (1, 2):
        run_now(world.service.send_event("e", {"n": number}, run_id=run_id))
        world.deliver()
    assert world.token(run_id).result["result"] == {"n": 2}
    assert world.header(other).status == "waiting"
    assert not run_now(world.store.waiters(run_topic("e", other)))
    run_now(world.service.send_event("f", {}, run_id=other))
    world.deliver()
    assert world.token(other).result["index"] == 1


def test_an_event_that_came_first_is_kept_for_the_run_that_waits_later() -> None:
    world = World(FLOW)
    run_id = approving(world)
    run_now(world.service.send_event("paid", {"n": 1}, run_id=run_id))
    world.deliver()
    run_now(world.service.approve(run_id))
    world.deliver()
    assert world.token(run_id).scope["event"] == {"n": 1}


def test_an_event_is_consumed_by_one_run_the_one_that_has_waited_longest() -> None:
    world = World("workflow: flow\ntimeline: [{name: a, wait: {for: event, name: e}}]")
    runs = []
    for _ in range(3):
        runs.append(approving(world))
        world.clock.advance(10)
    run_now(world.service.send_event("e", {}))
    world.deliver()
    assert [world.header(run_id).status for run_id in runs] == ["completed", "waiting", "waiting"]


def test_a_coordinator_whose_lease_ran_out_resumes_no_run() -> None:
    """Another has the message by now, and may be done with it: nobody would push the run, should this one die here."""
    world = World("workflow: flow\ntimeline: [{name: a, wait: {for: event, name: e}}]")
    run_id = approving(world)
    run_now(world.service.send_event("e", {}))
    came = world.queue.receive((Lane.RESUME,), world.clock.now_ms(), 0)
    assert came is not None
    with pytest.raises(LeaseLost, match="ran out"):
        run_now(dispatch(world.parts, Lane.RESUME, came.message, RunsOut(0)))
    assert world.header(run_id).status == "waiting"
    run_now(dispatch(world.parts, Lane.RESUME, came.message, RunsOut(1)))
    world.deliver()
    assert world.header(run_id).status == "completed"


def test_an_event_that_the_match_refuses_stays_for_another() -> None:
    world = World("workflow: flow\ntimeline: [{name: a, wait: {for: event, name: e, match: 'event.n > 1'}}]")
    run_id = approving(world)
    for number in (1, 2):
        run_now(world.service.send_event("e", {"n": number}))
        world.deliver()
    assert world.token(run_id).result == {"n": 2}


@pytest.mark.parametrize("state", ENDED)
def test_an_event_for_a_run_that_has_ended_is_refused(state: Callable[[World], str]) -> None:
    world = World(FLOW)
    run_id = state(world)
    with pytest.raises(Conflict) as refused:
        run_now(world.service.send_event("paid", {}, run_id=run_id))
    assert refused.value.code == "run_ended"


def test_an_event_too_many_is_refused_once_and_is_no_message_that_comes_for_ever(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(f"{FLOW}\nevents: {{nobody: {{max_pending: 1}}}}")
    now_ms = world.clock.now_ms()
    for number in range(2):  # as a step sends them
        event = Event(Topic("nobody"), f"e{number}", number, now_ms, now_ms + HOUR_MS)
        world.send(Lane.RESUME, to_json(Publish(event)))
    assert world.deliver() == 2
    assert [event.id for event in run_now(world.store.pending_events(Topic("nobody"), now_ms))] == ["e0"]
    assert caplog.messages == ["event e1 of nobody is refused: too_many_pending"]


def test_the_same_message_published_twice_is_one_event() -> None:
    world = World("workflow: flow\ntimeline: [{name: a, wait: {for: event, name: e}}]")
    first, second = approving(world), approving(world)
    run_now(world.service.send_event("e", {}, event_id="x"))
    one = world.queue.receive((Lane.RESUME,), world.clock.now_ms(), 0)
    assert one is not None
    world.send(Lane.RESUME, one.message)
    world.deliver()
    assert sorted(world.header(run_id).status for run_id in (first, second)) == ["completed", "waiting"]


def test_a_time_out_takes_the_event_whose_message_was_lost() -> None:
    world = World("workflow: flow\ntimeline: [{name: a, wait: {for: event, name: e, timeout: 1h}}]")
    run_id = approving(world)
    timer = world.queue.receive(ALL_LANES, 10**15, 0)
    assert timer is not None
    run_now(world.service.send_event("e", {"n": 1}))
    world.queue.delete(timer)
    event = world.queue.receive(ALL_LANES, world.clock.now_ms(), 0)
    assert event is not None
    publish = from_json(event.message)
    assert isinstance(publish, Publish)
    run_now(world.store.put_event(publish.event))
    world.queue.delete(event)
    world.clock.advance(3_600_000)
    run_now(dispatch(world.parts, timer.lane, timer.message, Unlimited(timer.deliveries)))
    world.deliver()
    assert world.token(run_id).result == {"n": 1}


EVENT_READ = """
workflow: flow
nodes:
  a:
    wait: {any: [{for: event, name: e, match: event.n > 0}, {for: delay, timeout: 1h}]}
    output: {wait: "{{ result }}", n: "{{ has(event.n) ? event.n : 0 }}"}
    transitions: [{to: big, when: event.n > 10}, {to: small, when: "event.kind == 'x' || event.n > 0"}, {to: none}]
  big: {}
  small: {}
  none: {}
"""


@pytest.mark.parametrize(("number", "way"), [(11, "big"), (1, "small")])
def test_the_output_and_the_rules_of_a_wait_read_the_event_that_ended_it(number: int, way: str) -> None:
    world = World(EVENT_READ)
    run_id = approving(world)
    run_now(world.service.send_event("e", {"n": number}))
    world.deliver()
    token = world.token(run_id)
    assert (token.node, token.scope["n"]) == (way, number)


def test_a_rule_that_reads_an_event_does_not_apply_where_none_has_ended_the_wait() -> None:
    world = World(EVENT_READ.replace('n: "{{ has(event.n) ? event.n : 0 }}"', "n: 0"))
    run_id = approving(world)
    world.pass_time(3_600_000)
    assert world.token(run_id).node == "none"
    timed = "{for: event, name: e, timeout: 1h}, diverge: [{when: event.n > 0, skip_to: end}, {when: true, fail: late}]"
    world = World(f"workflow: flow\ntimeline: [{{name: a, wait: {timed}}}]")
    run_id = approving(world)
    world.pass_time(3_600_000)
    end = world.token(run_id).end
    assert end is not None
    assert end.error is not None
    assert end.error.type == "late"
