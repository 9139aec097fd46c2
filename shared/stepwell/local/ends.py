"""The ends of runs, for calls of this process that wait for one: their pauses are over at once, without polling."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Protocol
from weakref import WeakValueDictionary


class Sleeper(Protocol):
    """A clock whose sleep can be cut short."""

    async def sleep_ms(self, duration_ms: int, until: Future[None] | None = None) -> None: ...


class Ends:
    """A future for each run that somebody waits for; it is gone when nobody does."""

    def __init__(self, clock: Sleeper) -> None:
        self._clock = clock
        self._awaited: WeakValueDictionary[str, Future[None]] = WeakValueDictionary()
        self._lock = threading.Lock()

    def pause_until(self, run_id: str) -> Callable[[int], Coroutine[Any, Any, None]]:
        """Returns a pause of so many ms, which is over once the run has ended. Ask before looking at the run."""
        with self._lock:
            ended = self._awaited.setdefault(run_id, Future())

        async def pause(duration_ms: int) -> None:
            await self._clock.sleep_ms(duration_ms, None if ended.done() else ended)

        return pause

    def ended(self, run_id: str) -> None:
        """Ends the pauses of those who wait for this run."""
        with self._lock:
            ended = self._awaited.pop(run_id, None)
        if ended is not None:
            ended.set_result(None)
