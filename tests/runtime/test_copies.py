"""Two messages of one name, or two copies of one: the second to come leaves the token to the first, which is at it."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Event, Thread
from typing import Any

import pytest

from stepwell.definition.graph import Json
from stepwell.engine.waits import event_topic
from stepwell.errors import PortError
from stepwell.limits import DAY_MS, MINUTE_MS
from stepwell.memory.inbox import ALL_LANES, Delivery
from stepwell.runtime.calls.dead import sent_back
from stepwell.runtime.dispatch import dispatch, put_off
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.log.messages import Publish, Timer, to_json
from stepwell.runtime.log.retries import AGAIN
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Event as Sent
from stepwell.runtime.ports import Lane
from stepwell.runtime.steps.port import StepCall
from tests.runtime.kit import World, first_wake

PATIENCE_SECONDS = 20
STEPS = """
workflow: flow
timeline:
  - {name: pick, run: python:shop.pick}
  - {name: charge, run: python:shop.charge}
"""
WAITS = """
workflow: flow
timeline:
  - {name: paid, wait: {for: event, name: paid, timeout: 1m, on_timeout: continue}}
  - {name: charge, run: python:shop.charge}
"""


def handle(world: World, lane: Lane, body: Mapping[str, Any], deliveries: int = 1) -> None:
    run_now(dispatch(world.parts, lane, body, Unlimited(deliveries)))


def due(world: World) -> list[Delivery]:
    found = []
    while (one := world.queue.receive(ALL_LANES, world.clock.now_ms(), DAY_MS)) is not None:
        found.append(one)
    return found


def taken(world: World) -> dict[str, Any]:
    """The run's first message, which yields to nobody: those for later records do not."""
    return {name: value for name, value in first_wake(world).items() if name != "yields"}


def calls_of(world: World, step: str) -> int:
    return [call.node for call in world.steps.calls].count(step)


@pytest.mark.parametrize("deliveries", [1, 2])
def test_a_message_of_one_name_that_comes_amid_a_step_leaves_it_to_the_first_unless_that_may_be_dead(
    deliveries: int,
) -> None:
    """A redelivery goes on: who else would, if the worker of the first delivery is dead?"""
    world = World(STEPS)
    run_id = world.start()
    wake = taken(world)

    def charge(_: StepCall) -> Json:
        if calls_of(world, "charge") == 1:
            handle(world, Lane.WORK, wake, deliveries)
        return None

    world.steps.of["charge"] = charge
    handle(world, Lane.WORK, wake)
    assert calls_of(world, "charge") == deliveries
    assert world.header(run_id).status == "completed"


def test_of_two_messages_of_one_name_that_write_at_once_the_second_stops() -> None:
    """The second has done the step too, and finds the record of the first, which is at the next step."""
    world = World(STEPS)
    run_id = world.start()
    wake = taken(world)
    is_at_it, may_end = Event(), Event()
    first = Thread(target=lambda: handle(world, Lane.WORK, wake))

    def is_overtaken(*_: object) -> None:
        first.start()
        assert is_at_it.wait(PATIENCE_SECONDS)

    def charge(_: StepCall) -> Json:
        if calls_of(world, "charge") == 1:
            is_at_it.set()
            assert may_end.wait(PATIENCE_SECONDS)
        return None

    world.steps.of["charge"] = charge
    world.store.before["append"] = is_overtaken
    handle(world, Lane.WORK, wake)
    amid = calls_of(world, "charge")
    may_end.set()
    first.join(PATIENCE_SECONDS)
    assert amid == 1
    assert world.header(run_id).status == "completed"


def test_two_timers_of_a_wait_that_fire_at_once_wake_one_worker() -> None:
    world = World(WAITS)
    run_id = world.start()
    world.deliver()
    world.lose_messages()
    world.clock.advance(MINUTE_MS)
    timer = to_json(Timer(run_id, 0, "0"))
    world.store.before["append"] = lambda *_: handle(world, Lane.RESUME, timer)
    handle(world, Lane.RESUME, timer)
    [wake] = due(world)
    handle(world, wake.lane, wake.message)
    assert world.header(run_id).status == "completed"
    assert calls_of(world, "charge") == 1


def test_two_messages_of_one_event_that_come_at_once_wake_one_worker() -> None:
    world = World(WAITS)
    run_id = world.start()
    world.deliver()
    event = Sent(event_topic("paid", ""), "e1", {}, world.clock.now_ms(), world.clock.now_ms() + DAY_MS)
    publish = to_json(Publish(event))
    world.store.before["consume"] = lambda *_: handle(world, Lane.RESUME, publish)
    handle(world, Lane.RESUME, publish)
    [wake] = due(world)
    handle(world, wake.lane, wake.message)
    assert world.header(run_id).status == "completed"
    assert calls_of(world, "charge") == 1


def test_a_message_that_was_put_off_amid_its_work_goes_on_there() -> None:
    """It is a new message for its queue, but no copy of one whose worker is at it."""
    world = World(STEPS)
    run_id = world.start()
    wake = taken(world)

    def away(*_: object) -> None:
        raise PortError("away")

    world.store.before["append"] = lambda *_: world.store.before.update(append=away)  # the second
    with pytest.raises(PortError):
        handle(world, Lane.WORK, wake)
    world.store.before.clear()
    assert run_now(put_off(world.parts, Lane.WORK, wake))
    world.clock.advance(MINUTE_MS)
    [again] = due(world)
    assert (again.deliveries, again.message[AGAIN]) == (1, True)
    handle(world, again.lane, again.message)
    assert world.header(run_id).status == "completed"


def test_a_dead_letter_that_a_person_sends_back_goes_on_where_its_worker_failed() -> None:
    """It is delivered for the first time once more, though its worker had written a record."""
    world = World(STEPS)
    run_id = world.start()
    wake = taken(world)

    def away(*_: object) -> None:
        raise PortError("away")

    world.store.before["append"] = lambda *_: world.store.before.update(append=away)  # the second
    with pytest.raises(PortError):
        handle(world, Lane.WORK, wake)
    world.store.before.clear()
    lane, body = sent_back(wake)
    handle(world, lane, body)
    assert world.header(run_id).status == "completed"
