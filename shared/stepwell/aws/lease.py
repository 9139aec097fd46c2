"""The lease of a message in progress: its visibility timeout, so that a dead worker is replaced within a minute.

    received                       1 s        20 s later …                  done: Lambda deletes it
    |- the queue's own visibility -|- 60 s ---|- 60 s, or the time left ----|
                                                                            failed: 1 s, 2 s, 8 s, 32 s, 60 s

The queue's own visibility timeout is the function's timeout. The first second makes no request, so that a chain of
quick steps costs only receive and delete; a worker that dies within that second is replaced after the function's
timeout. A redelivered message may have killed its worker, so its lease is short from the start.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from stepwell.aws.batches import Delivery
from stepwell.aws.calls import Retry
from stepwell.aws.protocols import SqsClient
from stepwell.limits import SECOND_MS

_logger = logging.getLogger("stepwell.lease")

LEASE_SECONDS = 60
EXTEND_EVERY_SECONDS = 20.0
QUIET_SECONDS = 1.0  # before the first request
FIRST_DELAY_SECONDS = 0.5  # the backoff after an exception, times four after each further one
LONGEST_DELAY_SECONDS = 60


class Stop(Protocol):
    """The signal that a lease's thread waits for: threading.Event, or a test's own."""

    def set(self) -> None: ...

    def wait(self, timeout: float | None = None) -> bool: ...


class Lease:
    """How long a delivery belongs to this worker, by the process's clock; a process that was suspended must check."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._until = math.inf  # the queue's own visibility is no shorter than the invocation

    def extend(self, since: float, seconds: float) -> None:
        """Notes that the lease was set to `seconds`, at `since` at the earliest."""
        self._until = since + seconds

    def holds(self) -> bool:
        return self._now() < self._until


class Leases:
    """The visibility timeouts of one queue's messages."""

    def __init__(
        self,
        queue_url: str,
        client: Callable[[], SqsClient],
        retry: Retry | None = None,
        new_stop: Callable[[], Stop] = threading.Event,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now = now
        self._queue_url, self._client, self._retry, self._new_stop = queue_url, client, retry or Retry(), new_stop

    @contextmanager
    def kept(self, delivery: Delivery, left_ms: Callable[[], int]) -> Iterator[Lease]:
        """Keeps the message invisible during the block. `left_ms` is the invocation's remaining time."""
        stop, lease = self._new_stop(), Lease(self._now)
        work = (delivery, left_ms, stop, lease)
        keeper = threading.Thread(target=self._keep, args=work, name="stepwell-lease", daemon=True)
        keeper.start()
        try:
            yield lease
        finally:
            stop.set()
            keeper.join()  # its last request must not follow the next request about the message

    def release(self, delivery: Delivery) -> None:
        """Releases a failed message with a backoff that grows with its failures."""
        seconds = min(FIRST_DELAY_SECONDS * 4 ** min(delivery.count - 1, 8), LONGEST_DELAY_SECONDS)
        self._change(delivery, max(round(seconds), 1))

    def _keep(self, delivery: Delivery, left_ms: Callable[[], int], stop: Stop, lease: Lease) -> None:
        pause_seconds = QUIET_SECONDS if delivery.count == 1 else 0.0
        while not stop.wait(pause_seconds):
            seconds = min(LEASE_SECONDS, left_ms() // SECOND_MS)
            if seconds <= 0:
                return
            since = self._now()
            if self._change(delivery, seconds):
                lease.extend(since, seconds)
            pause_seconds = EXTEND_EVERY_SECONDS

    def _change(self, delivery: Delivery, seconds: int) -> bool:
        """Sets the visibility. Returns False on an error, which only makes the message return earlier or later."""
        try:
            self._retry.call("ChangeMessageVisibility", lambda: self._client().change_message_visibility(
                QueueUrl=self._queue_url, ReceiptHandle=delivery.receipt, VisibilityTimeout=seconds))  # fmt: skip
        except Exception:
            _logger.exception("the lease of message %s could not be set to %d s", delivery.id, seconds)
            return False
        return True
