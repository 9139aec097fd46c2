"""A token bucket: limits the calls per second, and allows short bursts."""

from __future__ import annotations

from collections.abc import Callable


class TokenBucket:
    """Holds up to `burst` tokens and gains `rate_per_second` tokens; each call takes one. For one thread."""

    def __init__(self, rate_per_second: float, burst: int, seconds: Callable[[], float]) -> None:
        self._rate_per_second, self._burst, self._seconds = rate_per_second, burst, seconds
        self._tokens, self._then = float(burst), seconds()

    def take(self) -> float:
        """Returns 0 if the call may continue, else the seconds until the next call may."""
        now = self._seconds()
        self._tokens = min(self._burst, self._tokens + (now - self._then) * self._rate_per_second)
        self._then = now
        if self._tokens < 1:
            return (1 - self._tokens) / self._rate_per_second
        self._tokens -= 1
        return 0.0
