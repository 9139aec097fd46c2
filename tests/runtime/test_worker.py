"""The advance loop: redeliveries, duplicates, zombies, hand-overs and dead workers, one by one and by name."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.engine.actions import Outcome
from stepwell.engine.names import iso
from stepwell.engine.records import Kind
from stepwell.errors import PortError
from stepwell.limits import HOPS, MINUTE_MS
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.log.messages import DeadLetter, Timer, Wake, from_json, to_json
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Lane
from stepwell.runtime.steps.port import StepCall
from tests.runtime.kit import FLOW, ONCE, PLAIN, World, fails, first_wake, handle

RETRY = FLOW.replace("RETRY", "retry: {max_retries: 2, on: [step]}")
HOLD = "workflow: flow\ntimeline: [{name: hold, wait: {for: approval}}, {name: b, run: python:m.b}]"
BOTH = HOLD.replace("{for: approval}", "{all: [{for: approval}, {for: event, name: paid}]}")
TOLD = FLOW.replace("RETRY", "timeout: 1m").replace("}", ", input: {since: '{{ run.started_at }}'}}")
TWO_FORKS = """
workflow: flow
nodes:
  a: {run: python:m.a, transitions: [{to: b, foreach: "{{ input }}"}]}
  b: {run: python:m.b, transitions: [{to: c}]}
  c: {fan_in: {target: found, policy: all}, run: python:m.c, transitions: [{to: d, foreach: "{{ input }}"}]}
  d: {run: python:m.d, transitions: [{to: e}]}
  e: {fan_in: {target: found, policy: all}, run: python:m.e}
"""


def dies(*_: object) -> None:
    raise PortError("the worker died here")


def test_a_redelivered_wake_runs_the_step_again_under_the_same_key() -> None:
    world = World(PLAIN)
    run_id = world.start()
    body = first_wake(world)
    world.store.before["append"] = dies
    with pytest.raises(PortError):
        handle(world, body)
    handle(world, body)
    assert [(call.node, call.attempt) for call in world.steps.calls] == [("a", 1), ("a", 1), ("b", 1)]
    assert world.steps.calls[0].key == world.steps.calls[1].key != world.steps.calls[2].key
    assert world.header(run_id).status == "completed"


def test_the_second_message_of_a_start_that_was_repeated_leaves_the_run_to_the_first() -> None:
    """The first call may have died before it sent one, so the second sends one in any case."""
    world = World(PLAIN)
    run_id = world.start(key="k")
    assert world.start(key="k") == run_id
    world.steps.of["a"] = lambda _: world.deliver()  # by another worker, while this one is at the step
    world.deliver()
    assert [call.node for call in world.steps.calls] == ["a", "b"]
    assert world.header(run_id).status == "completed"


def test_a_redelivered_wake_goes_on_after_its_own_progress() -> None:
    world = World(PLAIN)
    run_id = world.start()
    body = first_wake(world)

    def work(call: Any) -> Any:
        if call.node == "b" and len(world.steps.calls) == 2:
            raise PortError("the worker died in its second step")
        return 1

    world.steps.of = {"a": work, "b": work}
    with pytest.raises(PortError):
        handle(world, body)
    handle(world, body)
    assert [call.node for call in world.steps.calls] == ["a", "b", "b"]
    assert world.header(run_id).status == "completed"


def test_every_try_of_a_step_has_the_same_key_over_retries_and_redeliveries() -> None:
    world = World(RETRY)
    world.steps.of["a"] = lambda call: fails() if call.attempt < 3 else 1
    run_id = world.start()
    world.pass_time(60_000)
    assert [call.attempt for call in world.steps.calls if call.node == "a"] == [1, 2, 3]
    assert len({call.key for call in world.steps.calls if call.node == "a"}) == 1
    assert world.header(run_id).status == "completed"


def test_steps_are_told_the_tags_with_which_the_run_was_started() -> None:
    told = '[{name: a, run: python:m.a, input: {who: "{{ run.tags.customer }}", all: "{{ run.tags }}"}}]'
    world = World(f"workflow: flow\ntimeline: {told}")
    world.start(tags={"customer": "ana", "channel": "web"})
    world.deliver()
    (call,) = world.steps.calls
    assert call.input == {"who": "ana", "all": {"customer": "ana", "channel": "web"}}


def test_a_copy_that_read_the_run_before_it_was_picked_up_tells_its_steps_the_same_start() -> None:
    told = '[{name: a, run: python:m.a}, {name: b, run: python:m.b, input: {began: "{{ run.started_at }}"}}]'
    world = World(f"workflow: flow\ntimeline: {told}")
    run_id = world.start()
    body = first_wake(world)
    world.clock.advance(20_000)

    def another_runs_a(*_: object) -> None:
        world.steps.of["b"] = dies
        with pytest.raises(PortError):
            handle(world, body)
        del world.steps.of["b"]

    world.store.before["load"] = another_runs_a
    handle(world, body, Unlimited(2))
    began = [call.input for call in world.steps.calls if call.node == "b"]
    assert began == [{"began": iso(world.header(run_id).started_ms)}] * 2


def test_the_result_of_a_zombie_is_dropped() -> None:
    """Another delivery of the same wake commits first: the step ran twice, and one result is recorded."""
    world = World(PLAIN)
    run_id = world.start()
    body = first_wake(world)

    def work(call: Any) -> Any:
        if len(world.steps.calls) == 1:
            handle(world, body)  # the message came back while this worker was slow
            return "the zombie's"
        return "the winner's"

    world.steps.of["a"] = work
    handle(world, body)
    assert world.token(run_id).steps["a"].output == "the winner's"
    assert world.header(run_id).status == "completed"


def test_who_began_a_wait_registers_it_although_a_part_of_it_came_meanwhile() -> None:
    """The worker died before it had registered the wait, and so did the caller who answered a part of it."""
    world = World(BOTH)
    run_id = world.start()
    body = first_wake(world)
    world.store.before["put_waiter"] = dies
    with pytest.raises(PortError):
        handle(world, body)
    world.store.before["put_waiter"] = dies
    with pytest.raises(PortError):
        run_now(world.service.approve(run_id))
    assert world.store.calls["put_waiter"] == 0
    handle(world, body)
    assert world.store.calls["put_waiter"] > 0
    run_now(world.service.send("paid", {}, run_id=run_id))
    world.deliver()
    assert world.header(run_id).status == "completed"


def test_a_wake_that_was_given_up_leaves_a_run_alone_that_has_a_part_of_its_wait_by_now() -> None:
    world = World(BOTH)
    run_id = world.start()
    world.deliver()
    run_now(world.service.approve(run_id))
    world.send(Lane.RESUME, to_json(DeadLetter(Wake(run_id, -1, hops=HOPS))))
    world.deliver()
    assert world.header(run_id).status == "waiting"


def test_a_worker_whose_header_is_older_than_its_log_looks_again() -> None:
    """Another delivery picks the run up and ends its first step, after this one's look at the header."""
    world = World(TOLD)
    world.start()
    body = first_wake(world)

    def picked_up_first(*_: object) -> None:
        world.clock.advance(5_000)  # since the run was created
        world.steps.of["b"] = dies
        with pytest.raises(PortError):
            handle(world, body)
        del world.steps.of["b"]

    world.store.before["load"] = picked_up_first
    handle(world, body)
    assert len({call.input["since"] for call in world.steps.calls}) == 1


def test_a_copy_of_a_wake_that_fell_behind_runs_no_step_that_the_other_has_ended() -> None:
    """
    one      a ─────────────────────────────── refused: its own record stands, and those of b and c too
    another  └─ a ── b ── c ── ended ──┘
    """
    world = World(PLAIN.replace("}]", "}, {name: c, run: python:m.c}]"))
    world.start()
    body = first_wake(world)

    def overtaken(call: StepCall) -> str:
        del world.steps.of["a"]
        handle(world, body)
        return call.node

    world.steps.of["a"] = overtaken
    handle(world, body)
    assert [call.node for call in world.steps.calls] == ["a", "a", "b", "c"]


def test_a_copy_of_a_wake_that_fell_behind_leaves_its_parent_to_whoever_joined_it_again() -> None:
    """
    one         b ── b ── c ──────────────────────────────── refused: its own record stands, and the next join too
    another               └─ c ── forks ──┐
    its branch                            └─ d ── d ── joins ── e: dies ────────────────── comes again ── e
    """
    world = World(TWO_FORKS)
    run_id = world.start(given=[1, 2])
    handle(world, first_wake(world))
    body, later = first_wake(world), list[dict[str, Any]]()

    def overtaken(call: StepCall) -> str:
        del world.steps.of["c"]
        handle(world, body)
        later.append(first_wake(world))
        world.steps.of["e"] = dies
        with pytest.raises(PortError):
            handle(world, later[0])
        del world.steps.of["e"]
        return call.node

    world.steps.of["c"] = overtaken
    handle(world, body)
    assert [call.node for call in world.steps.calls] == ["a", "b", "b", "c", "c", "d", "d", "e"]
    handle(world, later[0])
    assert world.header(run_id).status == "completed"


def test_a_late_wake_of_another_slot_is_stale_and_runs_nothing() -> None:
    world = World(HOLD)
    run_id = world.start()
    world.deliver()
    run_now(world.service.approve(run_id))
    world.deliver()
    for slot in (-1, 0, 2, 99):
        world.send(Lane.WORK, to_json(Wake(run_id, slot)))
    world.deliver()
    assert len(world.steps.calls) == 1


@pytest.mark.parametrize("message", [Wake("run_gone", -1), Timer("run_gone", 3), DeadLetter(Wake("run_gone", 0))])
def test_a_message_for_a_run_that_is_gone_is_dropped(message: Any) -> None:
    world = World(PLAIN)
    world.send(Lane.WORK if isinstance(message, Wake) else Lane.RESUME, to_json(message))
    assert world.deliver() == 1


def test_a_late_timer_does_not_touch_an_answered_approval() -> None:
    world = World(HOLD)
    run_id = world.start()
    world.deliver()
    run_now(world.service.approve(run_id))
    world.send(Lane.RESUME, to_json(Timer(run_id, 0)))
    world.deliver()
    world.pass_time(10**9)
    assert world.header(run_id).status == "completed"


def test_a_timer_that_comes_early_waits_for_its_time() -> None:
    world = World(HOLD)
    run_id = world.start()
    world.deliver()
    world.send(Lane.RESUME, to_json(Timer(run_id, 0)))
    world.deliver()
    assert world.header(run_id).status == "waiting"
    world.pass_time(24 * 3_600_000)
    assert world.header(run_id).status == "timed_out"


def test_an_at_most_once_step_is_recorded_before_it_runs_and_never_runs_twice() -> None:
    world = World(ONCE)
    run_id = world.start()
    body = first_wake(world)

    def work(call: Any) -> Any:
        last = world.token(run_id).last
        assert last is not None
        assert last.kind is Kind.BEGAN
        raise PortError("the worker died in the step")

    world.steps.of["a"] = work
    with pytest.raises(PortError):
        handle(world, body)
    handle(world, body)
    assert world.token(run_id).end is None  # the first worker may be alive until the step's own time is up
    world.pass_time(6 * MINUTE_MS)
    assert len(world.steps.calls) == 1
    end = world.token(run_id).end
    assert end is not None
    assert end.error is not None
    assert (end.error.type, end.error.category) == ("outcome_unknown", "worker_lost")


def test_a_duplicate_of_the_wake_does_not_take_an_at_most_once_step_from_the_worker_that_runs_it() -> None:
    world = World(ONCE)
    run_id = world.start()
    body = first_wake(world)

    def work(call: Any) -> Any:
        handle(world, body)  # SQS delivers at least once
        return 1

    world.steps.of["a"] = work
    handle(world, body)
    assert world.header(run_id).status == "completed"


def test_the_run_s_own_timeout_overrides_a_step_s_and_counts_waiting() -> None:
    text = """
workflow: flow
timeout: 1h
timeline:
  - {name: hold, wait: {for: approval, timeout: 24h}}
  - {name: a, run: python:m.a, timeout: 50m}
"""
    world = World(text)
    run_id = world.start()
    world.pass_time(45 * 60_000)
    run_now(world.service.approve(run_id))
    world.deliver()
    assert [call.timeout_ms for call in world.steps.calls] == [15 * 60_000]
    late = world.start()
    world.pass_time(3_600_000)
    end = world.token(late).end
    assert end is not None
    assert (end.status, end.error and end.error.type) == ("timed_out", "workflow_timeout")


def test_a_step_that_the_run_s_own_time_cuts_short_ends_the_run_timed_out() -> None:
    world = World(
        "workflow: flow\ntimeout: 1m\ntimeline: [{name: a, run: python:m.a, timeout: 1h, retry: {on: [timeout]}}]"
    )

    def work(call: Any) -> Outcome:
        world.clock.advance(call.timeout_ms)
        return fails("step_timeout", "timeout")

    world.steps.of["a"] = work
    run_id = world.start()
    world.deliver()
    assert (world.header(run_id).status, len(world.steps.calls)) == ("timed_out", 1)


def test_a_blocked_step_tells_whoever_listens_and_goes_on_when_approved() -> None:
    world = World(PLAIN, "workflow: watch\ntimeline: [{name: w, wait: {for: event, name: governance.blocked}}]")
    watcher = world.start("watch")
    world.steps.of["a"] = lambda call: fails("Blocked", "governance") if call.resumed is None else 1
    run_id = world.start()
    world.deliver()
    assert world.token(watcher).result["run_id"] == run_id
    assert world.header(run_id).waiting_for == "approval"
    run_now(world.service.approve(run_id))
    world.deliver()
    assert world.header(run_id).status == "completed"


@pytest.mark.parametrize("wake", [Wake("r", 3), Timer("r", 3, "0/1.2"), DeadLetter(Wake("r", -1))])
def test_a_message_comes_back_from_json_as_it_was(wake: Any) -> None:
    assert from_json(to_json(wake)) == wake


def test_a_run_that_is_ended_as_its_worker_picks_it_up_begins_no_step() -> None:
    world = World(PLAIN)
    run_id = world.start()
    world.store.before["change_status"] = lambda *_: run_now(world.service.terminate(run_id))
    world.deliver()
    assert (world.header(run_id).status, world.steps.calls) == ("failed", [])
