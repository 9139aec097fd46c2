"""Which deliveries of a message a worker has begun: SQS counts those too for which the function was throttled.

    delivery   1, 2       3, 4                         5, the last
    a worker   nothing    leaves a note, and then      without a note, it does not count as the last:
                          drops it, unless it dies     its message is sent again if this worker dies

So a step fails as `worker_lost` after two workers at least have died of it, and not after one that comes behind four
that were never begun. The first two deliveries leave no note, because nearly all messages end with them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from stepwell.aws.batches import Delivery
from stepwell.errors import PortError
from stepwell.limits import DELIVERIES
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Notes

NOTED_FROM = 3


class Tries:
    """The notes of begun deliveries, by the text of their message, which the dead-letter queue keeps."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    @contextmanager
    def counted(self, delivery: Delivery) -> Iterator[int]:
        """Yields the number of the delivery as it counts. A service that does not answer is no worker's death."""
        if delivery.count < NOTED_FROM:
            yield delivery.count
            return
        number = self._begin(delivery)
        try:
            yield number
        except PortError:
            self.forget(delivery)
            raise
        self.forget(delivery)

    def forget(self, delivery: Delivery) -> None:
        """Drops the message's note. One that stays may have a message counted as begun."""
        with suppress(PortError):
            run_now(self._notes.drop_note(*_place(delivery)))

    def _begin(self, delivery: Delivery) -> int:
        if delivery.count < DELIVERIES:
            run_now(self._notes.put_note(*_place(delivery), "", None))
            return delivery.count
        is_known = run_now(self._notes.get_note(*_place(delivery))) is not None
        return delivery.count if is_known else DELIVERIES - 1


def _place(delivery: Delivery) -> tuple[str, str]:
    """Returns the kind and the name of the note. Each kind is a partition of its own: thousands may come at once."""
    text = delivery.body.encode(errors="surrogatepass")
    return f"begun {hashlib.sha256(text).hexdigest()[:32]}", "worker"
