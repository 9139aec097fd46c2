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
        """Returns a pause of so many ms, which is over once the run has ended. Ask before looking at the run.

        The first one after the end is over at once: the last look may have been before it. Later ones take their time.
        """
        with self._lock:
            ended = self._awaited.setdefault(run_id, Future())
        is_told = False

        async def pause(duration_ms: int) -> None:
            nonlocal is_told
            await self._clock.sleep_ms(duration_ms, None if is_told else ended)
            is_told = ended.done()

        return pause

    def ended(self, run_id: str) -> None:
        """Ends the pauses of those who wait for this run."""
        with self._lock:
            ended = self._awaited.pop(run_id, None)
        if ended is not None:
            ended.set_result(None)
