"""What was read lately, kept for the next message to this process: bounded by count, by size and by time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Lately(Generic[K, V]):
    """Values that do not change, by their keys; the one that was asked for longest ago goes first. For any thread."""

    def __init__(self, count: int, size_bytes: int, kept_ms: int) -> None:
        """At most so many values, of so many bytes together; 0 of either: none. None is given after `kept_ms`."""
        self._count, self._size_bytes, self._kept_ms = count, size_bytes, kept_ms
        self._held: OrderedDict[K, tuple[V, int, int]] = OrderedDict()  # value, bytes, until when
        self._held_bytes = 0
        self._lock = Lock()

    def get(self, key: K, now_ms: int) -> V | None:
        with self._lock:
            found = self._held.get(key)
            if found is None:
                return None
            if not found[2] - self._kept_ms <= now_ms < found[2]:  # a clock that was set back makes nothing last longer
                self._drop(key)
                return None
            self._held.move_to_end(key)
            return found[0]

    def keep(self, key: K, value: V, size_bytes: int, now_ms: int) -> None:
        """Unless it is larger than all that may be held."""
        with self._lock:
            self._drop(key)
            if size_bytes > self._size_bytes or not self._count:
                return
            while self._held and (len(self._held) >= self._count or self._held_bytes + size_bytes > self._size_bytes):
                self._drop(next(iter(self._held)))
            self._held[key] = value, size_bytes, now_ms + self._kept_ms
            self._held_bytes += size_bytes

    def _drop(self, key: K) -> None:
        gone = self._held.pop(key, None)
        self._held_bytes -= gone[1] if gone else 0
