"""Handles messages in virtual time: steps that take time run beside each other, and the clock goes from end to end."""

from __future__ import annotations

from collections.abc import Coroutine
from heapq import heappop, heappush
from itertools import count
from typing import Any

from stepwell.limits import MINUTE_MS, YEAR_MS
from stepwell.local.ticker import Ticker
from stepwell.memory.clocks import VirtualClock
from stepwell.memory.inbox import Delivery, Inbox
from stepwell.runtime.assembly import Assembly
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.loop.driving import Pause, run_to_pause
from stepwell.runtime.ports import Lane

MOST_MESSAGES = 100_000  # in one settling; more mean an endless loop
_LEASE_MS = 10 * YEAR_MS  # longer than any step takes


class Driver:
    """The only worker of a test. A message whose step takes time is put aside until then."""

    def __init__(self, parts: Assembly, inbox: Inbox, clock: VirtualClock) -> None:
        self._parts, self._inbox, self._clock = parts, inbox, clock
        self.ticker = Ticker(parts)
        self._under_way: list[tuple[int, int, Coroutine[Any, Any, None], Delivery]] = []  # by their ends
        self._numbers = count()

    def settle(self) -> None:
        """Handles every due message, until no step is under way. Raises an EngineFault instead of retrying."""
        for _ in range(MOST_MESSAGES):
            delivery = self._inbox.receive(tuple(Lane), self._clock.now_ms(), _LEASE_MS)
            if delivery is not None:
                budget = Unlimited(delivery.deliveries)
                self._go_on(dispatch(self._parts, delivery.lane, delivery.message, budget), delivery)
            elif self._under_way:
                self._pass_time()
            else:
                return
        raise AssertionError(f"{MOST_MESSAGES} messages did not settle: does a workflow loop forever?")

    def advance(self, duration_ms: int) -> None:
        """Moves the clock; timers and schedules on the way fire at their own times."""
        self.settle()
        until_ms = self._clock.now_ms() + duration_ms
        while (due_ms := self._next_due_ms()) is not None and due_ms <= until_ms:
            self._tick(due_ms)
            self.settle()
        self._move_to(until_ms)  # a step may have taken longer

    def _go_on(self, work: Coroutine[Any, Any, None], delivery: Delivery) -> None:
        """Handles a message to its end, or until its step takes time. If that fails, it is redelivered in a minute."""
        try:
            found = run_to_pause(work)
        except Exception:
            self._inbox.release(delivery, self._clock.now_ms() + MINUTE_MS)
            raise
        if isinstance(found, Pause):
            until_ms = self._clock.now_ms() + found.duration_ms
            heappush(self._under_way, (until_ms, next(self._numbers), work, delivery))
        else:
            self._inbox.delete(delivery)

    def _pass_time(self) -> None:
        """Moves the clock to the first end of a step, or to what is due before."""
        until_ms, _, work, delivery = self._under_way[0]
        due_ms = self._next_due_ms()
        if due_ms is not None and due_ms < until_ms:
            self._tick(due_ms)
            return
        self._move_to(until_ms)
        heappop(self._under_way)
        self._go_on(work, delivery)

    def _next_due_ms(self) -> int | None:
        times = (self._inbox.next_due_ms(), self.ticker.next_due_ms())
        return min((time_ms for time_ms in times if time_ms is not None), default=None)

    def _tick(self, due_ms: int) -> None:
        self._move_to(due_ms)
        self.ticker.tick()

    def _move_to(self, time_ms: int) -> None:
        self._clock.set(max(time_ms, self._clock.now_ms()))
