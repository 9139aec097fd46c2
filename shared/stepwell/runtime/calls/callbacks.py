"""Callbacks: an outside system posts to a wait's own URL and ends that wait, once. Each answer is definite.

    post ──▶ event under the callback's own topic (one id: the second is refused) ──▶ offered to the wait, here and now

A callback that is posted before its wait is kept: the wait reads it when it registers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from stepwell.definition.graph import Json
from stepwell.engine.actions import Refuse
from stepwell.engine.entering import key_slot
from stepwell.engine.inputs import HeartBeat
from stepwell.engine.parts import open_arm
from stepwell.engine.records import Topic
from stepwell.engine.table import Message as Received
from stepwell.engine.table import Verdict, receive
from stepwell.engine.token import Token
from stepwell.engine.waits.callback import CALLBACK, heartbeat_of, last_beat_ms
from stepwell.engine.waits.topics import callback_topic
from stepwell.errors import Conflict
from stepwell.limits import BEATS, CALL_MS, EVENT_KEPT_MS
from stepwell.runtime.calls.approvals import refused
from stepwell.runtime.calls.links import CallbackLink
from stepwell.runtime.log.door import Door
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.messages import Publish, to_json
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.coordinator import Coordinator
from stepwell.runtime.ports import Event, Lane, Ports
from stepwell.runtime.starts.admission import check_json

EVENT_ID = "callback"  # each callback's topic holds this event alone


class Place(NamedTuple):
    """Where a callback is awaited.

    `kind` is `s` for a callback that the step entered in this slot asks for, or will ask for; `w` for one of the wait
    that began in this slot; `f` for the durable function's callback of this number.
    """

    run_id: str
    token: str
    kind: str
    slot: int


def step_callback(run_id: str, token: str, key: str) -> str | None:
    """Returns the callback of a step's directive, from the step's idempotency key, which may be that of another run.

    None for a call of a compensation or of a time-out's action, which can ask for no callback.
    """
    *place, entered = key.split(":")
    return f"{run_id}|{token}|s{entered}" if len(place) == 2 and entered.isdecimal() else None


def wait_callback(run_id: str, token: Token) -> str | None:
    """Returns the callback that the token waits for now; None if it waits for none."""
    arm = open_arm(token, CALLBACK.name)
    topics = token.parked.arms[arm].topics if token.parked is not None and arm is not None else ()
    return next((topic.key.removeprefix("!") for topic in topics), None)


class Callbacks:
    """Completes, fails and heartbeats callbacks for whoever holds their links."""

    def __init__(self, ports: Ports, logbook: Logbook, coordinator: Coordinator, door: Door) -> None:
        self._ports, self._logbook = ports, logbook
        self._coordinator, self._door = coordinator, door

    async def complete(self, link: CallbackLink, body: Json) -> None:
        """Ends the wait with a result. Raises InvalidInput, Conflict (`callback_used`, `callback_over`)."""
        check_json(body, "body")
        await self._take(link, {"body": body})

    async def fail(self, link: CallbackLink, error: Mapping[str, Json]) -> None:
        """Ends the wait with an `external` error: {type, message, data}. Raises as `complete` does."""
        check_json(error, "body")
        await self._take(link, {"body": None, "error": error})

    async def beat(self, link: CallbackLink) -> None:
        """Extends the wait's heartbeat timeout. Raises Conflict: `callback_used`, `callback_over`.

        Only the record is written, since nothing follows from it. The wait's timer is set anew when it fires.
        """
        topic = callback_topic(link.callback)
        await self._check_unused(topic)
        at = await self._open(link)
        if at is None:
            raise _over()
        given = _beat(at.token, topic, self._ports.clock.now_ms())
        if given is not None:
            answer = await self._door.put(at, given, f"heartbeat:{given.slot}:{given.until_ms}")
            if isinstance(answer.action, Refuse):
                raise _over() if answer.action.code == "not_waiting" else refused(answer.action)

    async def _take(self, link: CallbackLink, payload: Json) -> None:
        mailbox, now_ms, topic = self._ports.mailbox, self._ports.clock.now_ms(), callback_topic(link.callback)
        await self._check_unused(topic)
        if await self._open(link) is None:
            raise _over()
        event = Event(topic, EVENT_ID, payload, now_ms, max(link.expires_ms, now_ms + EVENT_KEPT_MS))
        is_new = await mailbox.put_event(event)
        publish = Publish(event, kept=True)
        # This process may die before the run goes on. The message comes once it is done, or dead: handled before, it
        # would find no wait yet, or wake a second worker.
        await self._ports.queue.send(Lane.RESUME, to_json(publish), now_ms + CALL_MS)
        await self._coordinator.publish(publish)
        if not is_new:
            raise _used()
        if not await self._is_taken(topic) and await self._open(link) is None and not await self._is_taken(topic):
            raise _over()  # asked again, since the wait may have taken it between the first two

    async def _is_taken(self, topic: Topic) -> bool:
        """Whether a wait has the event, or nothing is left of it."""
        event = await self._ports.mailbox.get_event(topic, EVENT_ID)
        return event is None or bool(event.consumed_by)

    async def _check_unused(self, topic: Topic) -> None:
        event = await self._ports.mailbox.get_event(topic, EVENT_ID)
        if event is not None and event.consumed_by:
            raise _used()

    async def _open(self, link: CallbackLink) -> Standing | None:
        """Returns the token that waits for the callback, or may yet; None if that is over."""
        place = _place_of(link.callback)
        header = await self._ports.runs.get_run(place.run_id)
        if header is None or header.status.terminal:
            return None
        at = await self._logbook.load(place.run_id, place.token)
        return at if at is not None and _is_open(at.token, place, callback_topic(link.callback)) else None


def _is_open(token: Token, place: Place, topic: Topic) -> bool:
    if token.ended or token.undoing is not None:
        return False
    is_there = token.parked is not None and any(topic in arm.topics for arm in token.parked.arms)
    if is_there and token.resumption is None:
        return receive(token.phase, Received.EVENT) is Verdict.TAKE
    if place.kind == "f":  # a durable function may still await it
        return not is_there
    entered = (token.entered_slot, key_slot(token, -1))  # or what a function awaits, which has no record yet
    if place.kind != "s" or place.slot not in entered or is_there:
        return False
    return token.parked is None or token.resumption is not None  # the step runs, and may ask for it


def _beat(token: Token, topic: Topic, now_ms: int) -> HeartBeat | None:
    """Returns the heartbeat to record; None if it would change nothing.

    Each lasts a little longer than it should, so that a client that beats too often leaves a bounded number of records.
    """
    parked = token.parked
    if parked is None or parked.heartbeat_ms is None:
        return None
    arm = next((index for index, one in enumerate(parked.arms) if topic in one.topics), None)
    beat_ms = None if arm is None else heartbeat_of(parked, arm)
    if arm is None or beat_ms is None or now_ms <= last_beat_ms(parked, arm, token.received):
        return None
    return HeartBeat(token.waiting_slot, arm, now_ms + beat_ms // BEATS)


def _place_of(callback: str) -> Place:
    run_id, token, place = callback.split("|")
    return Place(run_id, token, place[0], int(place[1:]))


def _used() -> Conflict:
    return Conflict("this callback was used already", code="callback_used", hint="a callback's URL works once")


def _over() -> Conflict:
    return Conflict("nobody waits for this callback any more", code="callback_over")
