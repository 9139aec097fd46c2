"""The bell that senders ring to wake idle workers, so that a message is handled at once.

    worker:  seen = bell.count ── receive: none ── wait(seen, due) ──▶ returns at once if the count has moved on
    sender:                 send ── ring: count + 1, wake one

One idle worker at a time, the watcher, sleeps until the next message is due; the others sleep until they are rung. Who
fell asleep last is rung first, and the watcher last: few threads do all work, and theirs is what the process has warm.
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
        self._lock = threading.Lock()
        self._asleep: list[threading.Lock] = []  # each of an idle worker, which sleeps until it is released
        self._watching: list[threading.Lock] = []  # the same, of those who sleep until a message is due
        self._count = 0
        self._watched_ms = _NOBODY

    @property
    def count(self) -> int:
        return self._count

    def ring(self) -> None:
        """Wakes one idle worker after a send."""
        with self._lock:
            self._count += 1
            self._wake_one()

    def ring_all(self) -> None:
        """Wakes all workers: the server stops, or has released leases."""
        with self._lock:
            self._count += 1
            while self._wake_one():
                pass

    def wait(self, seen: int, due_ms: int | None, now_ms: int) -> None:
        """Blocks until it rings, at most until `due_ms`; not at all if it rang since `seen`."""
        rung = threading.Lock()
        rung.acquire()
        with self._lock:
            if self._count != seen:
                return
            until_ms = min(due_ms if due_ms is not None else _NOBODY, now_ms + WATCH_MS)
            watches = until_ms < self._watched_ms
            (self._watching if watches else self._asleep).append(rung)
            if watches:
                self._watched_ms = until_ms
        if not watches:
            rung.acquire()
            return
        rung.acquire(timeout=max(until_ms - now_ms, 0) / 1_000)
        with self._lock:
            if rung in self._watching:
                self._watching.remove(rung)
            if self._watched_ms == until_ms:
                self._watched_ms = _NOBODY

    def sleeps(self, count: int) -> bool:
        """Whether so many sleep."""
        with self._lock:
            return len(self._asleep) + len(self._watching) == count

    def busy(self) -> None:
        """Tells the bell that the caller is busy; if it was the watcher, another idle worker takes over."""
        with self._lock:
            if self._watched_ms == _NOBODY:
                self._wake_one()

    def _wake_one(self) -> bool:
        """Whether anybody slept."""
        idle = self._asleep or self._watching
        if not idle:
            return False
        idle.pop().release()
        return True


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
