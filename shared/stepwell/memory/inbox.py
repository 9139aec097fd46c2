"""The receiving side of the local queues, which on AWS is Lambda's own, for the dev server's workers.

It is not part of the ports, because the engine only sends.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from stepwell import limits
from stepwell.definition.graph import Json
from stepwell.runtime.ports import Lane
from stepwell.values import dataclass

ALL_LANES: tuple[Lane, ...] = tuple(Lane)

# How long the name of a fired timer is kept. Effects may be performed again after it fired, and a second firing is
# harmless but useless.
TIMER_NAME_KEPT_MS = limits.DAY_MS


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery of a message. `id` is the same in redeliveries, `receipt` is unique to this one."""

    id: str
    lane: Lane
    message: Mapping[str, Json]
    deliveries: int  # the number of deliveries, including this one
    receipt: str


class Inbox(Protocol):
    """A queue of leased messages; a message whose lease expires is delivered again."""

    def receive(self, lanes: Collection[Lane], now_ms: int, lease_ms: int) -> Delivery | None:
        """Leases the message of these lanes that is due longest; None if none is due."""

    def delete(self, delivery: Delivery) -> None:
        """Deletes the message, unless it has been delivered again since: the later delivery decides."""

    def extend(self, delivery: Delivery, now_ms: int, lease_ms: int) -> bool:
        """Extends the lease to `lease_ms` from now. Returns False if it has passed to another delivery."""

    def release(self, delivery: Delivery, at_ms: int) -> None:
        """Ends the lease; the message is delivered again at `at_ms` or later."""

    def forgive(self, delivery: Delivery) -> None:
        """Does not count the delivery, which somebody ended and not its message.

        The first one counts: who gets the message next has to know that it has been delivered.
        """

    def next_due_ms(self, lanes: Collection[Lane] = ALL_LANES) -> int | None:
        """Returns when the next message is due or the next lease expires; None without messages."""

    def pending(self) -> int:
        """Returns the number of messages: due, delayed and leased."""

    def reclaim(self) -> int:
        """Ends every lease at a start after a crash, when their holders are gone. Returns their number."""

    def purge(self, now_ms: int) -> int:
        """Deletes the names of timers that fired long ago. Returns their number."""
