"""Pools of workers: each runs its own steps, sends others to theirs, and no message goes round for ever."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.definition.expressions import compile_expression
from stepwell.engine.actions import Outcome
from stepwell.engine.records import Pause, Status
from stepwell.limits import HOPS
from stepwell.memory.inbox import Delivery
from stepwell.runtime.assembly import assemble
from stepwell.runtime.dispatch import dispatch, give_up
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Lane
from tests.runtime.kit import World, fails

FLOW = """
workflow: flow
timeline:
  - {name: a, run: python:m.a}
  - {name: b, run: python:m.b, pool: heavy}
  - {name: c, run: python:m.c}
"""
HEAVY_FIRST = "workflow: flow\ntimeline: [{name: a, run: python:m.a, pool: heavy}]"
LOOP = """
workflow: flow
nodes:
  hold:
    wait: {for: delay, timeout: 1s}
    max_visits: 100000
    transitions: [{to: end, when: "has(state.never)"}, {to: hold}]
"""
HOLD = "workflow: flow\ntimeline: [{name: hold, wait: {for: approval}}, {name: b, run: python:m.b, pool: heavy}]"


def next_message(world: World) -> Delivery:
    one = world.queue.receive((Lane.WORK,), world.clock.now_ms(), 0)
    assert one is not None
    world.queue.delete(one)
    return one


def handle_next(world: World) -> dict[str, Any]:
    """The next message, handled by this world's worker."""
    body = dict(next_message(world).message)
    run_now(dispatch(world.parts, Lane.WORK, body, Unlimited()))
    return body


def test_a_step_of_another_pool_is_handed_over_and_runs_there() -> None:
    world = World(FLOW, pool="default")
    world.start()
    assert "pool" not in handle_next(world)
    assert [call.node for call in world.steps.calls] == ["a"]
    handed = next_message(world).message
    assert handed["pool"] == "heavy"
    assert handed["slot"] == 0


def test_a_run_that_begins_with_a_pools_step_is_woken_there() -> None:
    world = World(HEAVY_FIRST, pool="default")
    world.start()
    assert next_message(world).message["pool"] == "heavy"


def test_the_three_steps_of_two_pools_take_three_messages() -> None:
    world, heavy = two_pools()
    run_id = world.start()
    for parts in (world.parts, heavy, world.parts):
        body = dict(next_message(world).message)
        run_now(dispatch(parts, Lane.WORK, body, Unlimited()))
    assert world.header(run_id).status is Status.COMPLETED
    assert world.store.calls["append"] == 3


def test_a_pool_that_nobody_serves_runs_where_its_message_came() -> None:
    world = World(FLOW, pool="default")
    run_id = world.start()
    handle_next(world)
    assert handle_next(world)["pool"] == "heavy"  # the queues sent it to this worker: there is no other
    assert world.header(run_id).status is Status.COMPLETED


def test_a_worker_without_a_pool_runs_everything_inline() -> None:
    world = World(FLOW)
    run_id = world.start()
    assert world.deliver() == 1
    assert world.header(run_id).status is Status.COMPLETED


def test_a_duplicate_of_a_message_that_was_handed_over_runs_no_step_twice_to_a_result() -> None:
    world, heavy = two_pools()
    run_id = world.start()
    first = dict(next_message(world).message)
    for _ in range(2):
        run_now(dispatch(world.parts, Lane.WORK, first, Unlimited()))
    for _ in range(2):
        run_now(dispatch(heavy, Lane.WORK, dict(next_message(world).message), Unlimited()))
    while world.queue.next_due_ms() is not None:
        handle_next(world)
    assert world.header(run_id).status is Status.COMPLETED
    assert world.token(run_id).slot == 2


def test_an_approval_wakes_the_worker_that_can_go_on() -> None:
    world = World(HOLD, pool="default")
    run_id = world.start()
    world.deliver()
    run_now(world.service.approve(run_id))
    handle_next(world)  # from the wait to the next node
    assert next_message(world).message["pool"] == "heavy"


def test_pools_that_disagree_about_a_step_do_not_pass_it_on_for_ever() -> None:
    world = World(HEAVY_FIRST, pool="default")
    world.start()
    body = {**next_message(world).message, "pool": "other", "hops": HOPS}
    run_now(dispatch(world.parts, Lane.WORK, body, Unlimited()))
    assert [call.node for call in world.steps.calls] == ["a"]


def test_a_run_ends_at_the_bound_of_its_records_and_says_so() -> None:
    world = World(LOOP, max_steps=90)
    run_id = world.start()
    world.pass_time(1_000_000)
    token = world.token(run_id)
    assert 90 <= token.slot < 93  # seen at the next way into a node
    assert token.end is not None
    assert token.end.status is Status.FAILED
    assert token.end.error is not None
    assert token.end.error.type == "step_limit"
    assert "90 records" in token.end.error.message


ASKS = """
workflow: flow
failure_policy: compensate
timeline: [{name: book, run: python:m.book, compensate: {run: python:m.undo}}, {name: a, run: python:m.a}]
"""
POLLS = Outcome(pause=Pause("sleep", timeout_ms=1_000, then="again"))


@pytest.mark.parametrize("asks", [POLLS, fails("Blocked", "governance")], ids=["polls", "blocked"])
def test_a_step_that_asks_each_time_to_run_again_ends_at_that_bound_too(asks: Outcome) -> None:
    """It enters no node."""
    world = World(ASKS, max_steps=30)
    world.steps.of["a"] = lambda call: asks
    run_id = world.start()
    for _ in range(20):
        world.pass_time(1_000)
        if world.header(run_id).waiting_for == "approval":
            run_now(world.service.approve(run_id, who="ana"))
    token = world.token(run_id)
    assert token.end is not None
    assert token.end.error is not None
    assert (token.end.error.type, token.end.error.step, token.slot) == ("step_limit", "a", 32)
    assert world.header(run_id).status is Status.COMPENSATED
    assert token.steps["a"].status == "failed"


def test_forty_waits_in_a_row_are_well_below_the_bound() -> None:
    world = World(LOOP.replace("100000", "41"))
    run_id = world.start()
    world.pass_time(1_000_000)
    token = world.token(run_id)
    assert token.end is not None
    assert token.end.error is not None
    assert token.end.error.type == "loop_limit"  # the definition's own: 40 waits came and went
    assert token.slot > 80


def test_a_record_that_kills_every_worker_where_no_step_is_next_ends_the_run() -> None:
    world = World(HOLD)
    run_id = world.start()
    for _ in range(HOPS + 1):
        body = dict(next_message(world).message)
        assert run_now(give_up(world.parts, Lane.WORK, body))
        one = world.queue.receive((Lane.RESUME,), world.clock.now_ms(), 0)
        assert one is not None
        run_now(dispatch(world.parts, Lane.RESUME, one.message, Unlimited()))
        world.queue.delete(one)
    end = world.token(run_id).end
    assert end is not None
    assert end.error is not None
    assert (end.status, end.error.type) == (Status.FAILED, "hop_limit")
    assert world.queue.next_due_ms() is None


def two_pools() -> tuple[World, Any]:
    """A world whose worker serves the default pool, and the parts of one that serves `heavy`."""
    world = World(FLOW, pool="default")
    ports = world.parts.ports
    heavy = assemble(ports, world.catalog, world.steps, compile_expression=compile_expression,
                     new_id=lambda: "x", jitter=lambda: 0.5, pool="heavy")  # fmt: skip
    return world, heavy
