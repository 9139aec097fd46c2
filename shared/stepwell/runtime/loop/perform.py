"""Performs effects: idempotent sends and registrations."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.engine.effect_kinds import (
    Announce,
    Arrive,
    Close,
    Effect,
    EndChildren,
    Forget,
    GiveBackPermits,
    LeaveChildren,
    LeaveGathering,
    Open,
    Register,
    ReleaseLocks,
    SetDeadline,
    SetTimer,
    ShowStatus,
    StartChildren,
    TakeLocks,
    TakePending,
    TakePermit,
)
from stepwell.engine.effects import effects
from stepwell.engine.limits.permits import ReturnPermit
from stepwell.engine.pushing import is_stale
from stepwell.engine.token import Locks as HeldLocks
from stepwell.engine.token import Permit
from stepwell.engine.waits import event_topic
from stepwell.limits import EVENT_KEPT_MS
from stepwell.runtime.forks.children import Children
from stepwell.runtime.forks.forking import Forking
from stepwell.runtime.forks.rollback import Rollback
from stepwell.runtime.log.alarms import Alarms
from stepwell.runtime.log.door import Door, FoundInput
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.messages import Deadline, Publish, Timer, to_json
from stepwell.runtime.log.standing import Forks, Standing
from stepwell.runtime.ports import Event, Lane, Ports
from stepwell.runtime.starts.places import leave
from stepwell.runtime.starts.starting import Starter
from stepwell.runtime.waits.locks import Locks
from stepwell.runtime.waits.mailbox import Mailbox
from stepwell.runtime.waits.permits import Permits
from stepwell.runtime.waits.sending import Sending
from stepwell.runtime.waits.throttling import Throttling


class Performer:
    """Performs the effects of tokens' last records, and appends nothing. Every operation may be repeated."""

    def __init__(self, ports: Ports, logbook: Logbook, starter: Starter, mailbox: Mailbox, door: Door) -> None:
        self._ports, self.mailbox = ports, mailbox
        self.alarms = Alarms(ports)
        self.children = Children(ports, logbook, starter)
        self.locks, self.permits = Locks(ports, logbook), Permits(ports, logbook)
        self.throttling = Throttling(ports, logbook)
        self.sending = Sending(ports, logbook, starter)
        self.forking = Forking(ports, logbook, self.children, self.locks, self.throttling, door)
        self.rollback = Rollback(logbook, self.forking)

    async def perform(self, at: Standing, by: str, known: Forks | None = None) -> Sequence[FoundInput]:
        """Performs all effects of the last record, in order. Returns the inputs found, for the caller to put."""
        found: list[FoundInput] = []
        for effect in effects(at.graph, at.token):
            if isinstance(effect, Open | Arrive | Close):
                found += await self.forking.perform(at, effect, by, known)
            elif isinstance(effect, StartChildren | EndChildren | LeaveChildren):
                found += await self.children.perform(at, effect)
            elif isinstance(effect, TakeLocks | TakePermit):
                found += await self._take(at, effect)
            elif isinstance(effect, TakePending):
                found += await self.mailbox.pending(at)
            else:
                await self._perform(at, effect)
        return found if at.header.parent is None else found + await self.children.tell(at)

    async def _perform(self, at: Standing, effect: Effect) -> None:
        match effect:
            case ShowStatus():
                await self._show(at, effect)
            case Register(parked, slot):
                await self.mailbox.register(at, parked, slot)
            case SetTimer(slot, at_ms):
                await self.alarms.arm(Lane.RESUME, Timer(at.run_id, slot, at.token.id), at_ms, at.header.created_ms)
            case SetDeadline(at_ms):
                await self.alarms.arm(Lane.RESUME, Deadline(at.run_id), at_ms, at.header.created_ms)
            case ReleaseLocks() | GiveBackPermits() | ReturnPermit() | LeaveGathering():
                await self._leave(at, effect)
            case Forget(parked, slot):
                await self.mailbox.forget(at, parked, slot)
            case Announce():
                await self._announce(at, effect)

    async def _leave(
        self, at: Standing, effect: ReleaseLocks | GiveBackPermits | ReturnPermit | LeaveGathering
    ) -> None:
        """Gives back locks, permits or a place that others may want."""
        match effect:
            case ReleaseLocks():
                await self.locks.release(at, effect)
            case GiveBackPermits():
                await self.throttling.give_back_all(at, effect)
            case ReturnPermit():
                await self.permits.give_back(at)
            case LeaveGathering():
                await leave(self._ports.notes, at.header)

    async def mend(self, at: Standing, slot: int, by: str, *also: str, is_again: bool = True) -> None:
        """Finishes what the worker of a wake for this slot may have left undone when it died.

        `also`: another name of the wake. `is_again`: it was delivered before.
        """
        if is_again:
            await self.mend_late(at, slot)
        if at.token.tasks:  # it may have died before it began what it had written; others have written since
            await self.forking.again(at, by, (by,) if is_again else (), slot)
        if is_stale(at.token, slot, by, *also):
            await self.give_back(at)

    async def mend_late(self, at: Standing, slot: int) -> None:
        """Undoes what the worker of a redelivered message may have done after another's record, before it died.

        It may have taken a permit that nobody wants any more, or shown a wait that was over.
        """
        await self.throttling.give_back_late(at, slot)
        await self.forking.showing.show_again(at)

    async def give_back(self, at: Standing) -> None:
        """Gives back what the last record gives back, whatever else it does: at a pause, or once more.

        The worker of a stale message may have taken a permit after that record.
        """
        for effect in effects(at.graph, at.token):
            if isinstance(effect, ReleaseLocks | GiveBackPermits | ReturnPermit):
                await self._leave(at, effect)

    async def let_go(self, at: Standing, granted: HeldLocks | Permit) -> None:
        """Gives back what the token was granted and no longer wants."""
        if isinstance(granted, Permit):
            await self.throttling.give_back(at, granted)
        else:
            await self.locks.release(at, ReleaseLocks((granted,)))

    async def _take(self, at: Standing, effect: TakeLocks | TakePermit) -> list[FoundInput]:
        """Takes locks or a permit, and shows the wait unless that is over at once."""
        if isinstance(effect, TakeLocks):
            found = await self.locks.take(at, effect)
        else:
            found = await self.throttling.take(at, effect)
        if not found:
            await self._show(at, effect.shown)
        return found

    async def _show(self, at: Standing, effect: ShowStatus) -> None:
        if at.token.branch is None:
            await self.forking.showing.show_root(at, effect)
        else:
            await self.forking.showing.show(at)

    async def _announce(self, at: Standing, effect: Announce) -> None:
        now_ms = self._ports.clock.now_ms()
        topic = event_topic(effect.name, at.run_id if effect.is_keyed else "")
        payload = {**effect.payload, "run_id": at.run_id}
        event = Event(topic, f"{at.run_id}:{effect.event_id}", payload, now_ms, now_ms + EVENT_KEPT_MS)
        await self._ports.queue.send(Lane.RESUME, to_json(Publish(event)))
