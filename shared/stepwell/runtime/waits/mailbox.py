"""The mailbox: events and the waits that want them meet under a topic. One of the two sides sees the other.

     publisher:  put event ────────────────▶ read waits ──▶ consume
     waiter:     put its record, its waits ──▶ read events ──▶ consume

A consumed event is taken by one wait, in the transaction that writes it into the token's log. Any other event stays for
others, and the token remembers that it has had it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from stepwell.definition.compiled import Expression
from stepwell.engine.inputs import EventOffered
from stepwell.engine.names import Names
from stepwell.engine.records import Parked, Topic
from stepwell.engine.waits import branch_of, run_of
from stepwell.engine.waits.topics import own_topics
from stepwell.errors import ExpressionError
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.log.door import FoundInput
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.ports import Event, Ports, Waiter

Compile = Callable[[str], Expression]


class Mailbox:
    """Waits and events, from both sides. Every operation may be repeated."""

    def __init__(self, ports: Ports, logbook: Logbook, catalog: Catalog, compile_expression: Compile) -> None:
        self._ports, self._logbook, self._catalog, self._compile = ports, logbook, catalog, compile_expression

    async def register(self, at: Standing, parked: Parked, slot: int) -> None:
        for waiter in registered(at, parked, slot):
            await self._ports.mailbox.put_waiter(waiter)

    async def forget(self, at: Standing, parked: Parked, slot: int) -> None:
        for waiter in registered(at, parked, slot):
            await self._ports.mailbox.forget_waiter(waiter)

    async def pending(self, at: Standing) -> list[FoundInput]:
        """Returns the pending events that the wait may take, oldest first: the waiter's half.

        Its record and its waits are written, so an event that is not read now will find them. These are events that
        came before the wait, or whose messages were lost. Arms with the same topic find the same events.
        """
        parked, found, now_ms = at.token.parked, [], self._ports.clock.now_ms()
        if parked is None:
            return []
        events: dict[Topic, Sequence[Event]] = {}
        for waiter in waiters_of(at, parked, at.token.waiting_slot):
            if waiter.topic not in events:
                events[waiter.topic] = await self._ports.mailbox.pending_events(waiter.topic, now_ms)
            found += [(event.at_ms, event.id, waiter, event) for event in events[waiter.topic]]
        found.sort(key=lambda one: one[:2])
        offers = (self.offer(at, waiter, event) for _, _, waiter, event in found)
        return [FoundInput(at, given) for given in offers if given is not None]

    def offer(self, at: Standing, waiter: Waiter, event: Event) -> EventOffered | None:
        """Returns the event as an input for the wait; None if the wait is not for it."""
        if not self._matches(at, waiter, event):
            return None
        is_consumed = self._catalog.event_settings(event.topic.name).consume_on_read
        return EventOffered(
            waiter.slot, waiter.arm, event.topic, event.id, event.payload, event.at_ms, is_consumed=is_consumed
        )

    def _matches(self, at: Standing, waiter: Waiter, event: Event) -> bool:
        """Tells whether the wait is for the event. If `match` cannot be evaluated it is not, and others may take it."""
        if not waiter.match:
            return True
        moment = self._logbook.moment(at, "")
        try:
            return self._compile(waiter.match).evaluate(Names(moment, at.token, event=event.payload)) is True
        except ExpressionError:
            return False


def waiters_of(at: Standing, parked: Parked, slot: int) -> Iterator[Waiter]:
    """Yields one wait for each topic of each arm; and for what a redrive has sent to the branch alone."""
    for index, arm in enumerate(parked.arms):
        for topic in (*arm.topics, *own_topics(at.token, arm)):
            yield Waiter(topic, at.run_id, at.token.id, slot, parked.since_ms, index, arm.match)


def registered(at: Standing, parked: Parked, slot: int) -> Iterator[Waiter]:
    """Returns the waits to register. Senders to the run itself read its root's log: that saves two writes.

    What is for one branch alone is sent before that goes on, so nobody looks for its wait.
    """
    is_branch = at.token.branch is not None
    waiters = (one for one in waiters_of(at, parked, slot) if not branch_of(one.topic))
    return (one for one in waiters if is_branch or run_of(one.topic) is None)
