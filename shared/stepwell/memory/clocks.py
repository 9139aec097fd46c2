"""A clock that moves only on request."""

from __future__ import annotations


class VirtualClock:
    """A clock for tests and simulation, where a year's sleep takes no time."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def set(self, now_ms: int) -> None:
        """Sets the time, earlier or later."""
        self._now_ms = now_ms

    def advance(self, duration_ms: int) -> None:
        """Moves the time forward."""
        self._now_ms += duration_ms

    async def sleep_ms(self, duration_ms: int) -> None:
        self.advance(max(duration_ms, 0))
