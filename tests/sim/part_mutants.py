"""Mutants of waits for several things."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from stepwell.engine import approvals
from stepwell.engine import fold as engine_fold
from stepwell.engine.actions import Write
from stepwell.engine.inputs import TimerFired
from stepwell.engine.records import Kind
from stepwell.runtime import dispatch
from stepwell.runtime.assembly import Assembly
from stepwell.runtime.log.door import Answer, Budget, Door
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.messages import Timer
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.advance import Advance

_append = Logbook.append
_fire = dispatch._fire
_put = Door.put


@contextmanager
def timer_of_one_slot() -> Iterator[None]:
    """A timer is good for the slot that it was set for alone."""

    async def fire(parts: Assembly, timer: Timer, budget: Budget) -> None:
        at = await parts.logbook.load(timer.run_id, timer.token)
        if at is not None and at.token.slot == timer.slot:
            await _fire(parts, timer, budget)

    with mock.patch.object(dispatch, "_fire", fire):
        yield


@contextmanager
def timer_sticks_to_its_word() -> Iterator[None]:
    """A timer that finds a part in its slot does not look whether what it came for is still due."""

    async def put(self: Door, at: Standing, given: Any, by: str, *rest: Any, **options: Any) -> Answer:
        action = self.decide(at, given, by)
        if not isinstance(given, TimerFired) or not isinstance(action, Write):
            return await _put(self, at, given, by, *rest, **options)
        while True:
            winner = await self._logbook.append(at, action, (action.record,))
            if winner is None:
                return Answer(at.after(action.record), action, is_mine=True, is_new=True)
            if not isinstance(winner, Sequence) or winner[0].by == by or winner[0].kind is not Kind.RECEIVED:
                return await _put(self, at, given, by, *rest, **options)
            at, action = at.after(winner[0]), replace(action, record=replace(action.record, slot=winner[0].slot + 1))

    with mock.patch.object(Door, "put", put):
        yield


@contextmanager
def part_pushes_nothing() -> Iterator[None]:
    """Who writes a part does not look for more: it leaves that to whoever read before."""

    async def push(self: Advance, at: Standing, by: str, *rest: Any, again: bool = False) -> None:
        if at.token.last is not None and at.token.last.kind is not Kind.RECEIVED:
            await self.wake(at)

    with mock.patch.object(Advance, "push", push):
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
    timer_of_one_slot,
    timer_sticks_to_its_word,
    part_pushes_nothing,
    seen_is_forgotten,
    votes_are_counted,
)
