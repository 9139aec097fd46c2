"""A call wakes one worker, however often it is made, and one that died is made up for.

Two workers that are woken for one record both run the step behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stepwell.definition.graph import Json
from stepwell.engine.waits import run_topic
from stepwell.errors import Conflict, PortError
from stepwell.limits import ATTEMPT_MAX_MS, CALL_MS, DAY_MS, SECOND_MS
from stepwell.memory.inbox import ALL_LANES, Delivery
from stepwell.runtime.calls.callbacks import wait_callback
from stepwell.runtime.calls.links import CallbackLink
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.log.messages import Publish, to_json
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Event, Lane
from stepwell.runtime.steps.port import StepCall
from tests.runtime.kit import NOW_MS, World, fails

EVENTS = (("older", NOW_MS - 2), ("newer", NOW_MS - 1))
FLOW = """
workflow: flow
timeline:
  - {name: hook, wait: {for: WAIT, timeout: 1d}}
  - {name: charge, run: python:shop.charge}
  - {name: ship, run: python:shop.ship}
"""
UNDONE = """
workflow: flow
compensate_on: [cancel]
timeline:
  - {name: charge, run: python:shop.charge, compensate: {run: python:shop.refund}}
  - {name: hook, wait: {for: approval, timeout: 1d}}
"""


def waiting(kind: str) -> tuple[World, str]:
    world = World(FLOW.replace("WAIT", kind))
    run_id = world.start()
    world.deliver()
    return world, run_id


def post(world: World, run_id: str) -> None:
    callback = wait_callback(run_id, world.token(run_id))
    assert callback is not None
    link = CallbackLink(callback, world.clock.now_ms() + DAY_MS)
    run_now(world.service.callbacks.complete(link, {"paid": True}))


def approve(world: World, run_id: str) -> None:
    run_now(world.service.approve(run_id, {}, "ana"))


def reject(world: World, run_id: str) -> None:
    run_now(world.service.reject(run_id, "too much", "ana"))


def taken(world: World) -> list[Delivery]:
    """The messages that are due, in the hands of workers that have not begun."""
    found = []
    while (one := world.queue.receive(ALL_LANES, world.clock.now_ms(), DAY_MS)) is not None:
        found.append(one)
    return found


def work(world: World, one: Delivery) -> None:
    run_now(dispatch(world.parts, one.lane, one.message, Unlimited(one.deliveries)))
    world.queue.delete(one)


def dies_at_its_wake(world: World, call: Callable[[World, str], None], run_id: str) -> None:
    """The process dies between the record and the message that it sends to a worker."""
    send = world.queue.send

    async def sends(lane: Lane, message: Any, at_ms: int = 0) -> None:
        if message["type"] == "wake":
            raise PortError("away")
        await send(lane, message, at_ms)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(world.queue, "send", sends)
        with pytest.raises(PortError):
            call(world, run_id)


def runs_once(world: World, run_id: str, step: str) -> None:
    """Has a worker take the first message that is due, and others in the midst of the step take the rest."""
    first, *others = taken(world)

    def midst(_: StepCall) -> Json:
        others.extend(taken(world))
        while others:
            work(world, others.pop())
        return "done"

    world.steps.of[step] = midst
    work(world, first)
    world.pass_time(DAY_MS)
    assert [call.node for call in world.steps.calls].count(step) == 1
    assert world.header(run_id).status.terminal


def test_a_callback_s_message_comes_once_its_call_is_over() -> None:
    world, run_id = waiting("callback")
    post(world, run_id)
    [wake] = taken(world)
    assert wake.message["type"] == "wake"
    world.clock.set(world.clock.now_ms() + CALL_MS)
    [message] = taken(world)
    assert message.message["type"] == "publish"


def test_a_callback_s_message_wakes_no_second_worker_beside_the_one_that_its_call_woke() -> None:
    world, run_id = waiting("callback")
    post(world, run_id)
    world.clock.set(world.clock.now_ms() + CALL_MS)  # a backlog: no worker has begun
    wake, message = taken(world)
    work(world, message)
    world.queue.release(wake, world.clock.now_ms())
    runs_once(world, run_id, "charge")


@pytest.mark.parametrize("call", [approve, reject])
def test_a_call_that_is_made_twice_wakes_one_worker(call: Callable[[World, str], None]) -> None:
    world, run_id = waiting("approval")
    call(world, run_id)
    call(world, run_id)
    [wake] = taken(world)
    assert wake.message["type"] == "wake"
    world.queue.release(wake, world.clock.now_ms())
    world.pass_time(DAY_MS)
    assert [one.node for one in world.steps.calls] == (["charge", "ship"] if call is approve else [])


def test_a_call_that_is_repeated_amid_the_next_step_runs_it_no_second_time() -> None:
    world, run_id = waiting("approval")
    approve(world, run_id)
    [wake] = taken(world)
    approve(world, run_id)
    world.queue.release(wake, world.clock.now_ms())
    runs_once(world, run_id, "charge")


def test_an_event_that_another_s_message_took_wakes_no_second_worker() -> None:
    """The newer event's message comes first, takes the older event, and wakes a worker."""
    world, run_id = waiting("event, name: paid")
    first, second = (Event(run_topic("paid", run_id), name, {}, at_ms, DAY_MS * 30_000) for name, at_ms in EVENTS)
    for event in (first, second):
        run_now(world.store.put_event(event))
    world.send(Lane.RESUME, to_json(Publish(second, kept=True)))
    for one in taken(world):
        work(world, one)
    [wake] = taken(world)
    world.clock.set(world.clock.now_ms() + SECOND_MS)
    [older] = taken(world)
    work(world, older)
    world.queue.release(wake, world.clock.now_ms())
    runs_once(world, run_id, "charge")


@pytest.mark.parametrize(
    ("kind", "call", "again_ms"), [("callback", post, CALL_MS), ("approval", approve, 0), ("approval", reject, 0)]
)
def test_a_run_whose_call_died_before_it_woke_a_worker_goes_on_without_a_sweep(
    kind: str, call: Callable[[World, str], None], again_ms: int
) -> None:
    world, run_id = waiting(kind)
    dies_at_its_wake(world, call, run_id)
    if not again_ms:
        call(world, run_id)
    world.pass_time(again_ms + ATTEMPT_MAX_MS - 1)
    assert not world.header(run_id).status.terminal
    world.pass_time(1)
    assert world.header(run_id).status.terminal


def test_a_late_wake_leaves_the_steps_of_the_first_worker_to_that_one() -> None:
    world, run_id = waiting("approval")
    approve(world, run_id)
    approve(world, run_id)

    def ship(_: StepCall) -> Json:
        world.clock.set(world.clock.now_ms() + ATTEMPT_MAX_MS)
        for one in taken(world):
            assert one.message["late"] is True
            work(world, one)
        return "shipped"

    world.steps.of["ship"] = ship
    [wake] = taken(world)
    work(world, wake)
    assert [call.node for call in world.steps.calls] == ["charge", "ship"]


def test_a_run_that_is_cancelled_twice_is_undone_by_one_worker() -> None:
    world = World(UNDONE)
    run_id = world.start()
    world.deliver()
    run_now(world.service.cancel(run_id, "no stock"))
    [wake] = taken(world)
    with pytest.raises(Conflict, match="being undone"):
        run_now(world.service.cancel(run_id, "no stock"))
    world.queue.release(wake, world.clock.now_ms())

    def refund(_: StepCall) -> Json:
        for one in taken(world):
            work(world, one)
        return None

    world.steps.of["charge"] = refund
    before = len(world.steps.calls)
    world.deliver()
    world.pass_time(DAY_MS)
    assert len(world.steps.calls) == before + 1


def test_a_run_that_is_redriven_twice_at_once_goes_on_once() -> None:
    world, run_id = waiting("approval")
    world.steps.of["charge"] = lambda _: fails()
    approve(world, run_id)
    world.deliver()
    world.steps.calls.clear()
    new_id = run_now(world.service.redrive(run_id)).header.run_id
    assert run_now(world.service.redrive(run_id)).header.run_id == new_id
    runs_once(world, new_id, "charge")
