"""Passes a queue's message to the part that handles it, and gives up one that kills its worker too often."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import replace

from stepwell.definition.graph import Json
from stepwell.engine.actions import Look, Rest
from stepwell.engine.decide import timer_slot
from stepwell.engine.inputs import TimerFired
from stepwell.errors import EngineFault, NewerFormat, NotFound, PortError
from stepwell.limits import DELIVERIES, MINUTE_MS, NEWER_FORMAT_MS, PUT_OFFS, REPUBLISHED
from stepwell.runtime.assembly import Assembly
from stepwell.runtime.log import retries
from stepwell.runtime.log.alarms import QUEUE_HORIZON_MS
from stepwell.runtime.log.door import Budget, Unlimited
from stepwell.runtime.log.messages import (
    DeadLetter,
    Erase,
    GoOn,
    GoOnAll,
    HoldPage,
    Message,
    Publish,
    Scheduled,
    Timer,
    Update,
    Wake,
    from_json,
    to_json,
)
from stepwell.runtime.ports import Lane
from stepwell.runtime.stores.jsontext import encode
from stepwell.values import dataclass

log = logging.getLogger("stepwell.queues")


async def dispatch(parts: Assembly, lane: Lane, body: Mapping[str, Json], budget: Budget) -> None:
    """Handles one message to its end. The caller then deletes it; if this raises, it is to be redelivered."""
    try:
        await _handle(parts, lane, from_json(body), _Again(budget) if retries.may_have_begun(body) else budget)
    except NewerFormat as newer:
        await _leave(parts, lane, body, newer)
    except (EngineFault, NotFound) as fault:
        run_id = body.get("wake", body).get("run_id")
        if not isinstance(run_id, str) or await parts.ports.runs.get_run(run_id) is not None:
            raise
        log.info("run %s was deleted while a message about it was handled: %s", run_id, fault)


async def dispatch_work(parts: Assembly, body: Mapping[str, Json], budget: Budget, deliveries: int) -> None:
    """Handles a worker's message. Its last delivery leaves a note meanwhile, and if it fails or the worker dies.

    Whoever finds the message among the dead letters tells by it whether a worker has seen it: one that was throttled
    counts as delivered. If the world did not answer, that says nothing about the message either.
    """
    if deliveries < DELIVERIES:
        await dispatch(parts, Lane.WORK, body, budget)
        return
    await parts.ports.notes.put_note(*_last_try(body), "", None)
    try:
        await dispatch(parts, Lane.WORK, body, budget)
    except PortError:
        with suppress(PortError):  # the outage may last: a note that stays makes this message count as begun
            await parts.ports.notes.drop_note(*_last_try(body))
        raise
    await parts.ports.notes.drop_note(*_last_try(body))


async def _leave(parts: Assembly, lane: Lane, body: Mapping[str, Json], newer: NewerFormat) -> None:
    """Sends a message that needs newer code again, also the fields that only newer code knows, as often as needed.

    No try of it is counted: it is a new message for its queue, and never a dead letter.
    """
    log.warning("a message is left to a newer version: %s", newer)
    await parts.ports.queue.send(lane, _own(body), parts.ports.clock.now_ms() + NEWER_FORMAT_MS)


def _handle(parts: Assembly, lane: Lane, message: Message, budget: Budget) -> Awaitable[None]:
    if lane is Lane.WORK and isinstance(message, Wake):
        return parts.worker.handle(message, budget)
    if lane is Lane.WORK and isinstance(message, Update):
        return parts.updates.handle(message, budget)
    if lane is Lane.WORK and isinstance(message, Erase):
        return parts.eraser.again(message)
    return coordinate(parts, message, budget)


async def coordinate(parts: Assembly, message: Message, budget: Budget) -> None:
    """Handles a message of the resume lane. An event is offered to waits, and starts what it triggers."""
    match message:
        case Timer():
            await _fire(parts, message, budget)
        case Scheduled():
            await parts.triggers.fire(message)
        case Publish(event):
            await parts.coordinator.handle(message, budget)
            if not message.after:
                await parts.triggers.take(event)
        case GoOnAll():
            await parts.stopping.handle(message)
        case HoldPage() | GoOn():
            await parts.pausing.handle(message)
        case _:
            await parts.coordinator.handle(message, budget)


async def _fire(parts: Assembly, timer: Timer, budget: Budget) -> None:
    """Puts what a wait's timer brings, and pushes on what moved. A timer that is too early is set, if it is not.

    The part of a wait that moved its time has a timer of its own, or none: a heartbeat sets none.
    """
    at, given = await parts.logbook.load(timer.run_id, timer.token), TimerFired(timer.slot)
    if at is None:
        return
    answer = await parts.door.put_once(at, given, timer.id, budget)
    if isinstance(answer.action, Look):
        answer = await parts.advance.look(answer.at, given, timer.id, budget)
    if answer.is_mine:
        await parts.advance.push(answer.at, timer.id, budget, again=not answer.is_new)
    elif isinstance(answer.action, Rest) and answer.action.until_ms is not None:
        again = replace(timer, slot=timer_slot(answer.at.token, parts.ports.clock.now_ms()))
        await parts.alarms.look_again(Lane.RESUME, again, answer.action.until_ms, timer, answer.at.header.created_ms)


async def put_off(parts: Assembly, lane: Lane, body: Mapping[str, Json]) -> bool:
    """Sends the message again, to be handled later: its handler reported that the world did not answer.

    So an outage of an hour loses no message and fails no step. Returns False if it was put off too often already.
    """
    return await _send_later(parts, lane, body, retries.PUT_OFF, PUT_OFFS)


async def republish(parts: Assembly, body: Mapping[str, Json]) -> bool:
    """Sends a message of the dead-letter queue to the resume queue again: a deploy may have fixed its handler.

    Returns False if it is left to a person: it was sent often enough, or is none of that queue's; the sweeper finds a
    lost wake's run.
    """
    try:
        is_other = isinstance(from_json(body), Wake | Update)
    except NewerFormat:
        is_other = False
    except EngineFault:
        return False
    return not is_other and await _send_later(parts, Lane.RESUME, body, retries.REPUBLISHED, REPUBLISHED)


async def _send_later(parts: Assembly, lane: Lane, body: Mapping[str, Json], counter: str, most: int) -> bool:
    """Sends a copy with a growing delay. Returns False if it was sent this often already."""
    times = retries.times(body, counter)
    if times >= most:
        return False
    delay_ms = min(MINUTE_MS * 2**times, QUEUE_HORIZON_MS)
    at_ms = parts.ports.clock.now_ms() + delay_ms
    await parts.ports.queue.send(lane, {**_own(body), counter: times + 1}, at_ms)
    return True


def _own(body: Mapping[str, Json]) -> dict[str, Json]:
    """Returns a copy that counts as a redelivery and does not yield: the message's worker may have begun with it."""
    return retries.again({name: value for name, value in body.items() if name != "yields"})


@dataclass(frozen=True, slots=True)
class _Again:
    """The budget of a message that was sent again, so that its first delivery is none."""

    budget: Budget

    def left_ms(self) -> int | None:
        return self.budget.left_ms()

    def whole_ms(self) -> int | None:
        return self.budget.whole_ms()

    def holds(self) -> bool:
        return self.budget.holds()

    def is_first(self) -> bool:
        return False


def is_exhausted(deliveries: int) -> bool:
    """Tells whether a message was delivered so often that its handler must have died of it."""
    return deliveries > DELIVERIES


async def give_up(parts: Assembly, lane: Lane, body: Mapping[str, Json]) -> bool:
    """Turns a wake that killed its worker into a failure of its token. Returns False for any other message.

    Those are to be handled as before. One of newer code is among them: if a worker died of it, that was a newer one.
    """
    try:
        message = from_json(body)
    except NewerFormat:
        return False
    if lane is not Lane.WORK or not isinstance(message, Wake):
        return False
    await parts.ports.queue.send(Lane.RESUME, to_json(DeadLetter(message)))
    return True


def _last_try(body: Mapping[str, Json]) -> tuple[str, str]:
    """Returns the kind and the name of the note. Each kind is a partition of its own: thousands may come at once."""
    return f"last_try {hashlib.sha256(encode(dict(body)).encode()).hexdigest()[:32]}", "worker"


async def bury(parts: Assembly, body: Mapping[str, Json]) -> bool:
    """Handles a message from the workers' dead-letter queue. Returns False if it is no wake, to be handled as usual.

    A message of newer code goes back to the workers: a newer one can read it. So does a wake whose last delivery no
    worker has begun: the function was throttled, or could not start.
    """
    try:
        message = from_json(body)
    except NewerFormat as newer:
        await _leave(parts, Lane.WORK, body, newer)
        return True
    if not isinstance(message, Wake):
        return False
    if await parts.ports.notes.get_note(*_last_try(body)) is None:
        log.warning("no worker began the last delivery of a wake of run %s: it is sent again", message.run_id)
        await parts.ports.queue.send(Lane.WORK, _own(body))
        return True
    await dispatch(parts, Lane.RESUME, to_json(DeadLetter(message)), Unlimited())
    await parts.ports.notes.drop_note(*_last_try(body))
    return True
