"""Workers that run out of time, of their lease, or die with their message, and what becomes of the run."""

from __future__ import annotations

import pytest

from stepwell.api.runs.histories import read_history
from stepwell.errors import LeaseLost
from stepwell.runtime.dispatch import give_up, is_exhausted
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.log.messages import DeadLetter, Wake, to_json
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Lane
from tests.runtime.kit import ONCE, PLAIN, World, first_wake, handle

HOLD = "workflow: flow\ntimeline: [{name: hold, wait: {for: approval}}, {name: b, run: python:m.b}]"


class Short(Unlimited):
    """An invocation that is nearly over: it lets so many steps through."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def left_ms(self) -> int | None:
        self._left -= 1
        return None if self._left >= 0 else 0


def test_a_worker_whose_time_is_short_hands_over_and_loses_nothing() -> None:
    world = World(PLAIN)
    run_id = world.start()
    handle(world, first_wake(world), Short(1))
    assert [call.node for call in world.steps.calls] == ["a"]
    world.deliver()
    assert [call.node for call in world.steps.calls] == ["a", "b"]
    assert world.header(run_id).status == "completed"


def test_a_message_that_kills_its_worker_becomes_a_failure_that_a_rule_can_take() -> None:
    rule = "diverge: [{when: \"error.type == 'worker_lost'\", skip_to: c}]"
    world = World(f"workflow: flow\ntimeline: [{{name: a, run: python:m.a, {rule}}}, {{name: b, run: python:m.b}}, "
                  "{name: c, run: python:m.c}]")  # fmt: skip
    run_id = world.start()
    body = first_wake(world)
    assert is_exhausted(6)
    assert not is_exhausted(5)
    assert run_now(give_up(world.parts, Lane.WORK, body))
    world.deliver()
    assert [call.node for call in world.steps.calls] == ["c"]
    assert world.token(run_id).steps["a"].error is not None
    assert world.header(run_id).status == "completed"


def test_a_branch_that_had_not_begun_ends_at_its_first_node() -> None:
    world = World("workflow: flow\nsteps: [{name: a, run: python:m.a}, {name: b, run: python:m.b, depends_on: [a]}]")
    run_id = world.start()
    handle(world, first_wake(world), Short(0))
    run_now(world.parts.service.terminate(run_id, "enough", "ana"))
    world.deliver()
    told = run_now(read_history(world.parts.service, run_id, "", 100)).entries
    assert [(one.step, one.token) for one in told if one.type == "branch.cancelled"] == [("a", "0/0.0"), ("b", "0/0.1")]


def test_a_dead_letter_that_comes_twice_fails_the_step_once() -> None:
    world = World(PLAIN)
    run_id = world.start()
    body = first_wake(world)
    for _ in range(2):
        run_now(give_up(world.parts, Lane.WORK, body))
    world.deliver()
    assert (world.header(run_id).status, world.token(run_id).slot) == ("failed", 0)


def test_a_dead_letter_of_a_run_that_went_on_is_dropped() -> None:
    world = World(PLAIN)
    run_id = world.start()
    world.deliver()
    world.send(Lane.RESUME, to_json(DeadLetter(Wake(run_id, -1))))
    world.deliver()
    assert world.header(run_id).status == "completed"


def test_a_step_longer_than_any_worker_lives_does_not_hand_over_for_ever() -> None:
    world = World(PLAIN)
    world.start()
    body = first_wake(world)
    for _ in range(10):
        handle(world, body, Short(0))
        if not world.queue.pending():
            return
        body = first_wake(world)
    pytest.fail("ten workers in a row handed the step over, and none ran or failed it")


def test_a_dead_letter_that_is_past_wakes_nobody() -> None:
    """Its workers died long ago: the run has been approved since, and is another's."""
    world = World(HOLD)
    run_id = world.start()
    world.deliver()
    run_now(world.service.approve(run_id))
    world.lose_messages()
    run_now(world.parts.coordinator.handle(DeadLetter(Wake(run_id, -1))))
    assert world.lose_messages() == 0


class RunsOut(Unlimited):
    """A lease that runs out after it was asked a number of times."""

    def __init__(self, times: int) -> None:
        self.times = times

    def holds(self) -> bool:
        self.times -= 1
        return self.times >= 0


@pytest.mark.parametrize(("text", "records"), [(PLAIN, 0), (PLAIN, 1), (ONCE, 0), (ONCE, 1), (ONCE, 2)])
def test_a_worker_whose_lease_ran_out_appends_nothing_more(text: str, records: int) -> None:
    world = World(text)
    run_id = world.start()
    body = first_wake(world)
    with pytest.raises(LeaseLost, match="ran out"):
        handle(world, body, RunsOut(records))
    assert world.token(run_id).slot == records - 1
    if text is PLAIN:
        handle(world, body)
        assert world.header(run_id).status == "completed"
