"""A cache of recent reads for the next messages to this process, bounded by count, size and time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Lately(Generic[K, V]):
    """A thread-safe cache of immutable values. It evicts the least recently used first."""

    def __init__(self, count: int, size_bytes: int, kept_ms: int) -> None:
        """Holds `count` values of `size_bytes` in all, each for `kept_ms`; nothing if count or size is 0."""
        self._count, self._size_bytes, self._kept_ms = count, size_bytes, kept_ms
        self._held: OrderedDict[K, tuple[V, int, int]] = OrderedDict()  # value, bytes, until when
        self._held_bytes = 0
        self._lock = Lock()

    def get(self, key: K, now_ms: int) -> V | None:
        with self._lock:
            found = self._held.get(key)
            if found is None:
                return None
            if not found[2] - self._kept_ms <= now_ms < found[2]:  # also if the clock was set back
                self._drop(key)
                return None
            self._held.move_to_end(key)
            return found[0]

    def keep(self, key: K, value: V, size_bytes: int, now_ms: int) -> None:
        """Adds the value, unless it is larger than the whole cache."""
        with self._lock:
            self._drop(key)
            if size_bytes > self._size_bytes or not self._count:
                return
            while self._held and (len(self._held) >= self._count or self._held_bytes + size_bytes > self._size_bytes):
                self._drop(next(iter(self._held)))
            self._held[key] = value, size_bytes, now_ms + self._kept_ms
            self._held_bytes += size_bytes

    def size_bytes(self, key: K) -> int:
        """Returns the size of a value; 0 if it is not held."""
        with self._lock:
            return self._held[key][1] if key in self._held else 0

    def _drop(self, key: K) -> None:
        gone = self._held.pop(key, None)
        self._held_bytes -= gone[1] if gone else 0
