"""What a test runs on: the ports, the receiving side of their queue, and a clock that it moves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from stepwell.memory.blobs import MemoryBlobs
from stepwell.memory.clocks import VirtualClock
from stepwell.memory.inbox import Inbox
from stepwell.memory.queue import MemoryQueue
from stepwell.memory.store import MemoryStore
from stepwell.runtime.ports import Blobs, Clock, Ports, Timers
from stepwell.runtime.steps.calls import Calls

START = datetime(2030, 1, 1, 9, 0, tzinfo=UTC)  # a Tuesday morning; tests do not depend on today
START_MS = int(START.timestamp() * 1000)


@dataclass(frozen=True, slots=True)
class Backend:
    """The ports of a test, the receiving side of their queue, and their clock."""

    ports: Ports
    inbox: Inbox
    clock: VirtualClock
    calls: Calls | None = None  # the systems that steps may call; None: each such step fails, unless it is mocked


def in_memory() -> Backend:
    """Builds the fastest backend; all backends pass the same contract tests."""
    clock = VirtualClock(START_MS)
    store, queue = MemoryStore(), MemoryQueue(clock)
    return Backend(ports_of(store, queue, clock), queue, clock)


def ports_of(
    store: Any, queue: Any, clock: Clock, *, blobs: Blobs | None = None, timers: Timers | None = None
) -> Ports:
    """Returns the ports of a store that is all six of them, and of a queue that has timers unless others are given.

    Without `blobs`, large values are in memory.
    """
    kept = MemoryBlobs() if blobs is None else blobs
    return Ports(store, store, store, store, store, store, queue, queue if timers is None else timers, kept, clock)
