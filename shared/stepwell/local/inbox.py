"""The receiving side of the local queues, which on AWS is Lambda's own: what the dev server's workers call.

These are plain calls, not part of the ports: the engine sends, and never receives.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from stepwell import limits
from stepwell.definition.graph import Json
from stepwell.runtime.ports import Lane

ALL_LANES: tuple[Lane, ...] = tuple(Lane)

# How long the name of a fired timer is kept. The effects of a record may be performed again after it fired, and a
# second firing, though harmless, would be for nothing.
TIMER_NAME_KEPT_MS = limits.DAY_MS


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery of a message. `id` stays the same over redeliveries, `receipt` is this delivery's own."""

    id: str
    lane: Lane
    message: Mapping[str, Json]
    deliveries: int  # how often the message was delivered, this time included
    receipt: str


class Inbox(Protocol):
    """Messages are leased, not taken: one whose lease runs out comes again."""

    def receive(self, lanes: Collection[Lane], now_ms: int, lease_ms: int) -> Delivery | None:
        """Leases the message of these lanes that has been due the longest; None when none is due."""

    def delete(self, delivery: Delivery) -> None:
        """The message is done with. Does nothing when it has since been delivered again: that one decides."""

    def extend(self, delivery: Delivery, now_ms: int, lease_ms: int) -> bool:
        """The lease now ends `lease_ms` from now. False when it is no longer this delivery's."""

    def release(self, delivery: Delivery, at_ms: int) -> None:
        """Ends the lease; the message comes again, not before `at_ms`."""

    def next_due_ms(self, lanes: Collection[Lane] = ALL_LANES) -> int | None:
        """When the next message becomes due, or the next lease runs out; None when there is no message."""

    def pending(self) -> int:
        """How many messages there are: due, delayed and leased."""

    def reclaim(self) -> int:
        """Ends every lease, for a start after a crash: their holders are gone. Returns how many there were."""

    def purge(self, now_ms: int) -> int:
        """Forgets the names of timers that fired long ago. Returns how many."""
