"""Performing effects: idempotent sends and registrations. Also the mailbox, seen from the waiter's side."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stepwell.definition.graph import Expression, Json
from stepwell.engine.codec import encode_record
from stepwell.engine.effects import (
    Arrive,
    Close,
    Effect,
    EndChildren,
    Escalate,
    Forget,
    LeaveChildren,
    Open,
    Register,
    SetTimer,
    ShowStatus,
    StartChildren,
    TakePending,
    effects,
)
from stepwell.engine.names import Names
from stepwell.engine.records import Parked, Record, Resumption
from stepwell.engine.waits import event_topic, run_of
from stepwell.errors import ExpressionError
from stepwell.limits import EVENT_KEPT_MS
from stepwell.runtime.alarms import Alarms
from stepwell.runtime.children import Children
from stepwell.runtime.forking import Forking
from stepwell.runtime.logbook import Forks, Logbook, Standing, stow
from stepwell.runtime.messages import Publish, Timer, to_json
from stepwell.runtime.ports import Consumed, Event, Lane, Ports, StatusChange, Waiter
from stepwell.runtime.rollback import Rollback
from stepwell.runtime.starting import Starter

Compile = Callable[[str], Expression]


class Performer:
    """Makes the world agree with a token's last record. Everything here may be done twice."""

    def __init__(self, ports: Ports, logbook: Logbook, starter: Starter, compile_expression: Compile) -> None:
        self._ports, self._logbook, self._compile = ports, logbook, compile_expression
        self.alarms = Alarms(ports)
        self.children = Children(ports, logbook, starter)
        self.forking = Forking(ports, logbook, self.children)
        self.rollback = Rollback(logbook, self.forking)

    async def perform(self, at: Standing, by: str, known: Forks | None = None) -> Standing | None:
        """All effects of the last record, in order. A standing to go on from, where one of them moved a token on:

        an event that came before its wait ended it, or a branch's arrival completed its parent's join.
        """
        moved: Standing | None = None
        for effect in effects(at.graph, at.token):
            if isinstance(effect, Open | Arrive | Close):
                moved = await self.forking.perform(at, effect, by, known)
            elif isinstance(effect, StartChildren | EndChildren | LeaveChildren):
                moved = await self.children.perform(at, effect, by)
            else:
                moved = await self._perform(at, effect, by)
        await self.children.tell(at)
        return moved

    async def _perform(self, at: Standing, effect: Effect, by: str) -> Standing | None:
        match effect:
            case ShowStatus():
                await self.show(at.run_id, effect)
            case Register(parked, slot):
                for waiter in registered(at, parked, slot):
                    await self._ports.store.put_waiter(waiter)
            case SetTimer(slot, at_ms):
                await self.alarms.arm(Lane.RESUME, Timer(at.run_id, slot, at.token.id), at_ms, at.run_id)
            case TakePending(parked, slot):
                resumed = await self._take_pending(at, parked, slot, by)
                return None if resumed is None else at.after(resumed)
            case Forget(parked, slot):
                for waiter in registered(at, parked, slot):
                    await self._ports.store.forget_waiter(waiter)
            case Escalate(name, payload, event_id):
                await self._escalate(at, name, {**payload, "run_id": at.run_id}, event_id)
        return None

    async def show(self, run_id: str, effect: ShowStatus) -> bool:
        """The header says what the log says; an older change never undoes a newer one."""
        parked = effect.parked
        change = StatusChange(
            run_id,
            effect.rev,
            effect.status,
            effect.at_ms,
            started_ms=effect.at_ms if effect.picked_up else None,
            ended_ms=effect.at_ms if effect.status.terminal else 0,
            waiting_for=parked.kind if parked else "",
            waiting_node=effect.node,
            waiting_since_ms=parked.since_ms if parked else 0,
            waiting_until_ms=parked.until_ms if parked else None,
            expires_ms=effect.expires_ms,
        )
        return await self._ports.store.change_status(change)

    async def _escalate(self, at: Standing, name: str, payload: Json, event_id: str) -> None:
        now_ms = self._ports.clock.now_ms()
        event = Event(event_topic(name, ""), f"{at.run_id}:{event_id}", payload, now_ms, now_ms + EVENT_KEPT_MS)
        await self._ports.queue.send(Lane.RESUME, to_json(Publish(event)))

    async def _take_pending(self, at: Standing, parked: Parked, slot: int, by: str) -> Record | None:
        """The waiter's half of the mailbox: record and waits are down, so what it does not read now will see them."""
        now_ms = self._ports.clock.now_ms()
        for waiter in waiters_of(at, parked, slot):
            for event in await self._ports.store.pending_events(waiter.topic, now_ms):
                record = await self.consume(at, waiter, event, by)
                if isinstance(record, Record):
                    return record
                if record is Consumed.SLOT_TAKEN:
                    return None
        return None

    async def consume(self, at: Standing, waiter: Waiter, event: Event, by: str) -> Record | Consumed | None:
        """`resumed` and the event's mark in one transaction. None: the wait does not want this event."""
        if not self._wants(at, waiter, event):
            return None
        record = self._logbook.resumed(at, by, Resumption(
            "event", waiter.arm, event.topic.name, event.payload, event.id))  # fmt: skip
        body = await stow(encode_record(record), self._ports.blobs)
        done = await self._ports.store.consume(event.topic, event.id, at.run_id, at.token.id, record.slot, body)
        return record if done is Consumed.DONE else done

    def _wants(self, at: Standing, waiter: Waiter, event: Event) -> bool:
        """An event whose `match` cannot be evaluated is not the one that is waited for; it stays for others."""
        if not waiter.match:
            return True
        moment = self._logbook.moment(at, "")
        try:
            return self._compile(waiter.match).evaluate(Names(moment, at.token, event=event.payload)) is True
        except ExpressionError:
            return False


def waiters_of(at: Standing, parked: Parked, slot: int) -> Iterator[Waiter]:
    """One wait for each topic of each arm."""
    for index, arm in enumerate(parked.arms):
        for topic in arm.topics:
            yield Waiter(topic, at.run_id, at.token.id, slot, parked.since_ms, index, arm.match)


def registered(at: Standing, parked: Parked, slot: int) -> Iterator[Waiter]:
    """The waits that are put down. Who publishes to the run itself looks into its root's log: that saves two writes."""
    is_branch = at.token.branch is not None
    return (waiter for waiter in waiters_of(at, parked, slot) if is_branch or run_of(waiter.topic) is None)
