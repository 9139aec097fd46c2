"""Updates: a caller has a durable function's own handler change it, and gets the answer. Once for each id.

    caller   event under the run's own topic, a message to the workers
    worker   the function waits? ── handler runs in its session ── RECEIVED and the event's mark, in one transaction
             not now, a step is under way ── the message again, later

The record is what happened: a replay that reaches it calls the handler again, with the same input, in the same place.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from stepwell.definition.graph import Json
from stepwell.engine.actions import Write
from stepwell.engine.durable.turns import Stuck
from stepwell.engine.inputs import UpdateAsked, UpdateMade
from stepwell.engine.pushing import pushes
from stepwell.engine.records import ROOT, UPDATE, Failure, Record, Resumption, Topic
from stepwell.engine.stored.codec import told_failure
from stepwell.engine.stored.token_batches import decode_records
from stepwell.engine.waits import run_topic
from stepwell.errors import Conflict, EngineFault, NotFound
from stepwell.limits import MINUTE_MS
from stepwell.runtime.log.claims import fetch
from stepwell.runtime.log.door import UNLIMITED, Budget, Door
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.messages import Update, to_json
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.advance import Advance
from stepwell.runtime.ports import Event, Lane, Ports
from stepwell.runtime.starts.admission import check_event_key, check_json, check_name
from stepwell.runtime.steps.port import Steps, Updated
from stepwell.values import dataclass

EVENTS = ("stepwell.update", "stepwell.refused")
_logger = logging.getLogger("stepwell.worker")
_READ = 100  # records per read when an answer is looked up
_RACES = 20  # tries of an update, while others move the function, until its message is to come again
KEPT_MS = 7 * 24 * 60 * MINUTE_MS  # how long an update is retried, and its answer kept


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to an update. `error`: {type, message, …}; without one, `output` is what the handler returned."""

    output: Json = None
    error: Mapping[str, Any] | None = None


class Updates:
    """Both sides: the caller's, and the worker's that runs the handler. Messages may come twice, or late."""

    def __init__(self, ports: Ports, logbook: Logbook, door: Door, advance: Advance, steps: Steps) -> None:
        self._ports, self._logbook, self._steps = ports, logbook, steps
        self._door, self._advance = door, advance

    # -- the caller's side

    async def send(self, at: Standing, name: str, given: Json, update_id: str) -> None:
        """Sends an update, or the one of this id again. Raises Conflict, also for the id of another; InvalidInput."""
        check_name(name, "name of an update")
        check_event_key(update_id, "an update's id")
        check_json(given, "input")
        topic, now_ms, payload = topic_of(at.run_id), self._ports.clock.now_ms(), {"name": name, "input": given}
        there = await self._ports.mailbox.get_event(topic, update_id)
        if there is not None and there.payload != payload:
            raise Conflict(f"{update_id} is another update, or has another input", code="already_used",
                           hint="repeat the first one, or take a new id")  # fmt: skip
        if there is None:
            if not at.graph.replays:
                raise Conflict(f"{at.run.workflow} is a graph, which takes no updates", code="not_a_function",
                               hint="send it an event")  # fmt: skip
            if at.token.ended:
                raise _run_ended()
            event = Event(topic, update_id, payload, now_ms, now_ms + KEPT_MS)
            await self._ports.mailbox.put_event(event)
        await self._ports.queue.send(Lane.WORK, to_json(Update(at.run_id, update_id)))

    async def answer(self, at: Standing, update_id: str) -> Answered | None:
        """Returns the answer; None while it is pending. Raises NotFound, Conflict if the run ended before it."""
        check_event_key(update_id, "an update's id")
        event = await self._ports.mailbox.get_event(topic_of(at.run_id), update_id)
        if event is None:
            raise NotFound(f"run {at.run_id} has no update {update_id!r}", code="unknown_update_id")
        if not event.consumed_by:
            if (refusal := await self._refusal(at.run_id, update_id)) is not None:
                told = refusal.payload
                raise Conflict(f"its validator refuses it: {told['type']}: {told['message']}", code="update_refused")
            if at.token.ended:
                raise _run_ended()
            return None
        found = await self._recorded(event)
        if found is None and at.token.ended:
            raise _run_ended()
        return found

    async def _recorded(self, event: Event) -> Answered | None:
        """Reads the answer from the update's record, or, if the handler awaited, a later one. None: it goes on."""
        run_id, token, slot = event.consumed_by.split("|")
        after, has_begun = int(slot) - 1, False
        while read := await self._ports.log.read_log(run_id, token, after, _READ if has_begun else 1):
            after = read[-1].slot
            for record in [one for saved in read for one in decode_records(await fetch(saved.body, self._ports.blobs))]:
                resumption, answers = record.resumption, record.answers or {}
                if event.id in answers:
                    return Answered(**answers[event.id])
                if resumption is not None and resumption.event_id == event.id and resumption.has_answer:
                    return Answered(resumption.payload.get("output"), resumption.payload.get("error"))
            has_begun = True
        if not has_begun:
            raise EngineFault(f"{event.consumed_by} holds no update {event.id}", code="broken_log")
        return None

    # -- the worker's side

    async def handle(self, update: Update, budget: Budget = UNLIMITED) -> None:
        """Runs the update's handler and records it. Raises PortError if a port fails: then it is redelivered.

        If others move the function meanwhile, it tries again: so many updates may come at once.
        """
        slot: int | None = None
        for _ in range(_RACES):
            at = await self._logbook.load(update.run_id, ROOT)
            if at is None:
                return
            if at.token.slot == slot:
                break  # nobody has moved it
            if await self._is_handled(at, update, budget):
                return
            slot = at.token.slot
        await self._put_off(update)

    async def _is_handled(self, at: Standing, update: Update, budget: Budget) -> bool:
        """Makes the update, unless that was done before. Returns False if the function takes none now."""
        event = await self._ports.mailbox.get_event(topic_of(update.run_id), update.event_id)
        if event is None:
            return True
        if pushes(at.token, update.id):
            await self._advance.push(at, update.id, budget, again=True)  # by an earlier delivery, or for another call
            return True
        if await self._is_over(at, event):
            return True
        match await self._made(at, event, update.id):
            case None:
                return False
            case Stuck(failure):
                if update.times == 0:
                    _log_stuck(at, event, failure)
                await self._put_off(update)
            case Failure() as failure:
                refused = Event(_refused(at.run_id), event.id, told_failure(failure), event.at_ms, event.expires_ms)
                await self._ports.mailbox.put_event(refused)
            case written:
                await self._advance.push(await self._logbook.save_if_due(written), update.id)
        return True

    async def _is_over(self, at: Standing, event: Event) -> bool:
        """Tells whether the update was made or refused, or can no longer be made."""
        if event.consumed_by or at.token.ended or event.expires_ms <= self._ports.clock.now_ms():
            return True
        return await self._refusal(at.run_id, event.id) is not None

    async def _made(self, at: Standing, event: Event, by: str) -> Updated:
        """Runs the handler. Returns the token after its record, or why it refuses; None if it cannot run now."""
        payload = {"input": event.payload["input"]}
        given = UpdateAsked(Resumption(UPDATE, name=event.payload["name"], payload=payload, event_id=event.id))
        asked = self._door.decide(at, given, by)
        if not isinstance(asked, Write):
            return None
        write = partial(self._write, at, event.topic, by)
        return await self._steps.updated(at, self._logbook, asked.record, write)

    async def _write(self, at: Standing, topic: Topic, by: str, record: Record) -> bool:
        """Writes the record and marks the event. Returns False if another one took the slot or the event."""
        return (await self._door.put(at, UpdateMade(record, topic), by)).is_new

    async def _refusal(self, run_id: str, update_id: str) -> Event | None:
        """Returns the refusal of the update; None if it is not refused. It is an event nobody awaits, no record."""
        return await self._ports.mailbox.get_event(_refused(run_id), update_id)

    async def _put_off(self, update: Update) -> None:
        """Sends the message again after 1 s, 2 s, 4 s, … a minute, until it is made, the run ends, or it expires."""
        at_ms = self._ports.clock.now_ms() + min(1_000 * 2 ** min(update.times, 10), MINUTE_MS)
        await self._ports.queue.send(Lane.WORK, to_json(replace(update, times=update.times + 1)), at_ms)


def topic_of(run_id: str) -> Topic:
    """Returns the topic of a run's updates. Nobody else may send events of this name."""
    return run_topic(EVENTS[0], run_id)


def _log_stuck(at: Standing, event: Event, failure: Failure) -> None:
    """Logs why an update has to wait. The run's own view does not tell: nothing of it was written."""
    name, ids = event.payload["name"], {"run_id": at.run_id, "step": at.graph.start}
    message = "%s cannot take the update %s until its code fits again: %s: %s"
    _logger.warning(message, at.run_id, name, failure.type, failure.message, extra=ids)


def _refused(run_id: str) -> Topic:
    return run_topic(EVENTS[1], run_id)


def _run_ended() -> Conflict:
    return Conflict("the run has ended; no update can reach it", code="run_ended")
