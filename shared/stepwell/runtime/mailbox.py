"""The mailbox: events and the waits that want them meet under a topic. One of the two sides sees the other.

    publisher:  put event ────────────────▶ read waits ──▶ consume
    waiter:     put its record, its waits ──▶ read events ──▶ consume

An event that is consumed is taken by one wait, in the transaction that writes it into the token's log. One that is not
stays for others, and the token remembers that it has had it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from stepwell.definition.graph import Expression
from stepwell.engine.codec import encode_record
from stepwell.engine.names import Names
from stepwell.engine.parts import as_part
from stepwell.engine.records import Parked, Resumption
from stepwell.engine.table import Message as Received
from stepwell.engine.table import Verdict, receive
from stepwell.engine.waits import run_of
from stepwell.errors import ExpressionError
from stepwell.limits import SEEN_EVENTS
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.logbook import Logbook, Standing, stow
from stepwell.runtime.ports import Consumed, Event, Ports, Waiter

Compile = Callable[[str], Expression]


class Mailbox:
    """Waits and events, seen from both sides. Everything here may be done twice."""

    def __init__(self, ports: Ports, logbook: Logbook, catalog: Catalog, compile_expression: Compile) -> None:
        self._ports, self._logbook, self._catalog, self._compile = ports, logbook, catalog, compile_expression

    async def register(self, at: Standing, parked: Parked, slot: int) -> None:
        for waiter in registered(at, parked, slot):
            await self._ports.store.put_waiter(waiter)

    async def forget(self, at: Standing, parked: Parked, slot: int) -> None:
        for waiter in registered(at, parked, slot):
            await self._ports.store.forget_waiter(waiter)

    async def take_pending(self, at: Standing, parked: Parked, slot: int, by: str) -> Standing | None:
        """The waiter's half: record and waits are down, so what it does not read now will see them.

        The standing to go on from, where an event was there.
        """
        first, now_ms = at, self._ports.clock.now_ms()
        for waiter in waiters_of(at, parked, slot):
            for event in await self._ports.store.pending_events(waiter.topic, now_ms):
                done = await self.offer(at, waiter, event, by)
                if done is Consumed.SLOT_TAKEN:
                    return None
                if isinstance(done, Standing):
                    at = done
                if at.token.resumption is not None:
                    return at
        return None if at is first else at

    async def offer(self, at: Standing, waiter: Waiter, event: Event, by: str) -> Standing | Consumed | None:
        """The wait after it took the event, or why it cannot; None: it does not want this event.

        SLOT_TAKEN: the wait is over. A part of what it is for may have come meanwhile: then it is tried anew.
        """
        token_id = at.token.id
        while at.token.waiting_slot == waiter.slot and receive(at.token.phase, Received.EVENT) is Verdict.TAKE:
            came = self._came(at, waiter, event)
            if came is None:
                return None
            done = await self._take(at, event, came, by)
            if done is not Consumed.SLOT_TAKEN:
                return done
            found = await self._logbook.load(at.run_id, token_id)
            if found is None:
                break
            at = found
        return Consumed.SLOT_TAKEN

    async def _take(self, at: Standing, event: Event, came: Resumption, by: str) -> Standing | Consumed:
        record = self._logbook.resumed(at, by, came)
        if came.seen:
            winner = await self._logbook.append(at, record)
            return at.after(winner or record) if winner is None or winner.by == by else Consumed.SLOT_TAKEN
        body = await stow(encode_record(record), self._ports.blobs)
        await self._logbook.expose(at, record)
        done = await self._ports.store.consume(event.topic, event.id, at.run_id, at.token.id, record.slot, body)
        return at.after(record) if done is Consumed.DONE else done

    def _came(self, at: Standing, waiter: Waiter, event: Event) -> Resumption | None:
        """The event as what the wait is for; None where it is not."""
        if not self._matches(at, waiter, event):
            return None
        came = Resumption("event", waiter.arm, event.topic.name, event.payload, event.id)
        if not self._catalog.event_settings(event.topic.name).consume_on_read:
            topic, place = str(event.topic), f"{event.at_ms:015d}:{event.id}"
            had = at.token.seen.get(topic, ())
            if place in had or (len(had) >= SEEN_EVENTS and place < had[0]):
                return None
            came = replace(came, seen=f"{topic}\n{place}")
        return as_part(at.token, came)

    def _matches(self, at: Standing, waiter: Waiter, event: Event) -> bool:
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
