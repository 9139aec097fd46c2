"""Plain asyncio on a clock that only a program moves: what durable functions are held to."""

from __future__ import annotations

import asyncio
import heapq
from asyncio.base_events import BaseEventLoop
from collections.abc import Callable, Coroutine
from itertools import count
from types import SimpleNamespace
from typing import Any, TypeVar

T = TypeVar("T")


class PlainLoop(BaseEventLoop):
    """asyncio's own loop. Operations end one by one, each when nothing else is ready, as the log has them."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self._numbers = 0.0, count()
        self._operations: list[tuple[float, int, Callable[[], None]]] = []
        self._selector = SimpleNamespace(select=self._select, close=lambda: None)

    def time(self) -> float:
        return self.now

    def ends(self, at: float, end: Callable[[], None]) -> None:
        heapq.heappush(self._operations, (at, next(self._numbers), end))

    def _select(self, seconds: float | None) -> list[Any]:
        if seconds == 0:
            return []
        operations = self._operations
        if operations and (seconds is None or operations[0][0] <= self.now + seconds):
            at, _, end = heapq.heappop(operations)
            self.now = max(at, self.now)
            end()
        elif seconds is None:
            raise AssertionError("the program waits for nothing")
        else:
            self.now += seconds
        return []

    def _process_events(self, events: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody else has this loop."""


class PlainContext:
    """The operations of a durable function, as coroutines over the loop."""

    def __init__(self, loop: PlainLoop, events: dict[str, tuple[float, Any]]) -> None:
        self._loop, self._events = loop, events

    async def step(self, function: Any, value: Any, seconds: float, fails: bool) -> Any:
        await self._until(self._loop.now + seconds)
        if fails:
            raise ValueError(value)
        return value

    async def event(self, name: str, timeout: str) -> Any:
        at, payload = self._events[name]
        await self._until(max(at, self._loop.now))
        return payload

    async def _until(self, at: float) -> None:
        future = self._loop.create_future()
        self._loop.ends(at, lambda: None if future.done() else future.set_result(None))
        await future


def run_plainly(program: Callable[[PlainContext], Coroutine[Any, Any, T]], events: dict[str, tuple[float, Any]]) -> T:
    """What the program comes to. `events`: when each comes, and with what."""
    loop = PlainLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(program(PlainContext(loop, events)))
