"""The bell that senders ring to wake idle workers, so that a message is handled at once.

    worker:  seen = bell.count ── receive: none ── wait(seen, due) ──▶ returns at once if the count has moved on
    sender:                 send ── ring: count + 1, wake one

One idle worker at a time, the watcher, sleeps until the next message is due; the others sleep until they are rung.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from stepwell.definition.graph import Json
from stepwell.limits import SECOND_MS
from stepwell.runtime.ports import Lane, Queue, Timers

WATCH_MS = 5 * SECOND_MS  # the watcher wakes this often, because the machine's clock may have been set, or slept
_NOBODY = 2**63


class Bell:
    """A bell that rings for each sent message."""

    def __init__(self) -> None:
        self._rung = threading.Condition()
        self._count = 0
        self._watched_ms = _NOBODY

    @property
    def count(self) -> int:
        return self._count

    def ring(self) -> None:
        """Wakes one idle worker after a send."""
        with self._rung:
            self._count += 1
            self._rung.notify()

    def ring_all(self) -> None:
        """Wakes all workers: the server stops, or has released leases."""
        with self._rung:
            self._count += 1
            self._rung.notify_all()

    def wait(self, seen: int, due_ms: int | None, now_ms: int) -> None:
        """Returns when it rings or at `due_ms`, or at once if it rang since `seen`."""
        with self._rung:
            if self._count != seen:
                return
            until_ms = min(due_ms if due_ms is not None else _NOBODY, now_ms + WATCH_MS)
            if until_ms >= self._watched_ms:
                self._rung.wait()
                return
            self._watched_ms = until_ms
            self._rung.wait(max(until_ms - now_ms, 0) / 1_000)
            if self._watched_ms == until_ms:
                self._watched_ms = _NOBODY

    def busy(self) -> None:
        """Tells the bell that the caller is busy; if it was the watcher, another idle worker takes over."""
        with self._rung:
            if self._watched_ms == _NOBODY:
                self._rung.notify()


class RingingQueue:
    """The Queue and Timers ports of this process, which send and then ring."""

    def __init__(self, queue: Queue, timers: Timers, bell: Bell) -> None:
        self._queue, self._timers, self._bell = queue, timers, bell

    async def send(self, lane: Lane, message: Mapping[str, Json], at_ms: int = 0) -> None:
        await self._queue.send(lane, message, at_ms)
        self._bell.ring()

    async def send_all(self, lane: Lane, messages: Sequence[Mapping[str, Json]]) -> None:
        await self._queue.send_all(lane, messages)
        for _ in messages:
            self._bell.ring()

    async def set(self, name: str, lane: Lane, message: Mapping[str, Json], at_ms: int) -> None:
        await self._timers.set(name, lane, message, at_ms)
        self._bell.ring()
