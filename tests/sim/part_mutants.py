"""Mutants of waits for several things."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from stepwell.engine import fold as engine_fold
from stepwell.engine.records import Kind, Record, Resumption
from stepwell.runtime import approvals
from stepwell.runtime.coordinator import Coordinator
from stepwell.runtime.logbook import Standing
from stepwell.runtime.mailbox import Mailbox
from stepwell.runtime.messages import Timer
from stepwell.runtime.ports import Event, Waiter

_fire = Coordinator.fire
_resume = Coordinator.resume
_take = Mailbox._take


@contextmanager
def part_gives_up_its_slot() -> Iterator[None]:
    """Who finds the slot taken by another part does not take the next."""

    async def offer(self: Mailbox, at: Standing, waiter: Waiter, event: Event, by: str) -> Any:
        came = self._came(at, waiter, event) if at.token.waiting_slot == waiter.slot and at.token.parked else None
        return None if came is None else await _take(self, at, event, came, by)

    with mock.patch.object(Mailbox, "offer", offer):
        yield


@contextmanager
def timer_of_one_slot() -> Iterator[None]:
    """A timer is good for the slot that it was set for alone."""

    async def fire(self: Coordinator, timer: Timer) -> None:
        at = await self._logbook.load(timer.run_id, timer.token)
        if at is not None and at.token.slot == timer.slot:
            await _fire(self, timer)

    with mock.patch.object(Coordinator, "fire", fire):
        yield


@contextmanager
def timer_sticks_to_its_word() -> Iterator[None]:
    """A timer that finds a part in its slot does not look whether what it came for is still due."""

    async def resume(self: Coordinator, at: Standing, by: str, came: Resumption, *_: Any) -> Record | None:
        return await _resume(self, at, by, came)

    with mock.patch.object(Coordinator, "resume", resume):
        yield


@contextmanager
def part_pushes_nothing() -> Iterator[None]:
    """Who writes a part does not look for more: it leaves that to whoever read before."""

    async def push(self: Coordinator, at: Standing, by: str) -> None:
        if at.token.last is not None and at.token.last.kind is not Kind.RECEIVED:
            await self.wake(at.wake())

    with mock.patch.object(Coordinator, "push", push):
        yield


@contextmanager
def seen_is_forgotten() -> Iterator[None]:
    """A token does not remember the events that it had and that stay."""
    with mock.patch.object(engine_fold, "_seen", return_value={}):
        yield


@contextmanager
def votes_are_counted() -> Iterator[None]:
    """Nobody looks whether this approver has voted already."""
    with mock.patch.object(approvals, "answer_of", return_value=None):
        yield


OF_PARTS = (
    part_gives_up_its_slot,
    timer_of_one_slot,
    timer_sticks_to_its_word,
    part_pushes_nothing,
    seen_is_forgotten,
    votes_are_counted,
)
