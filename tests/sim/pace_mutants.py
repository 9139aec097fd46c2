"""Mutants of rate limits: turns that are given back to two claimants, or to nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from typing import Any
from unittest import mock

from stepwell.engine.actions import Pace
from stepwell.runtime.waits import paces
from stepwell.runtime.waits.paces import Paces

_give_back, _turn = Paces.give_back, Paces.turn


@contextmanager
def turn_given_back_by_each() -> Iterator[None]:
    """Each of those who end a run gives its turn back, whoever has deleted its note, also if it is free."""

    async def give_back(self: Paces, pace: Pace, who: str, now_ms: int, *, is_used: bool) -> None:
        at_ms = await self.kept(pace, who)
        if at_ms is not None:
            await self._notes.drop_note(paces._kind(pace), paces._TURN + who)
            await self._free(pace, at_ms, now_ms)

    with mock.patch.object(Paces, "give_back", give_back):
        yield


@contextmanager
def turn_taken_together() -> Iterator[None]:
    """Copies of a message that ask at once write the same and have one turn, which each gives back."""

    async def turn(self: Paces, pace: Pace, who: str, *given: Any, **named: Any) -> int:
        other = copy(self)
        with mock.patch.object(other, "_mark", return_value=who):
            return await _turn(other, pace, who, *given, **named)

    with mock.patch.object(Paces, "turn", turn):
        yield


@contextmanager
def turn_given_back_first() -> Iterator[None]:
    """A turn is for others before its claimant's note is deleted: two may have it."""

    async def give_back(self: Paces, pace: Pace, who: str, now_ms: int, *, is_used: bool) -> None:
        at_ms = await self.kept(pace, who)
        if at_ms is not None:
            await self._free(pace, at_ms, now_ms)
            await self._notes.drop_note(paces._kind(pace), paces._TURN + who)

    with mock.patch.object(Paces, "give_back", give_back):
        yield


@contextmanager
def turn_never_given_back() -> Iterator[None]:
    """The turn of a run that ends before it begins passes unused."""

    async def give_back(self: Paces, pace: Pace, who: str, now_ms: int, *, is_used: bool) -> None:
        await self.drop(pace.name, who)

    with mock.patch.object(Paces, "give_back", give_back):
        yield


@contextmanager
def turn_of_a_copy_lost() -> Iterator[None]:
    """Of two copies that ask at once each takes a turn, and the one that is not stored passes unused."""

    async def turn(self: Paces, *given: Any, **named: Any) -> int:
        other = copy(self)
        with mock.patch.object(other, "_free", mock.AsyncMock()):
            return await _turn(other, *given, **named)

    with mock.patch.object(Paces, "turn", turn):
        yield


@contextmanager
def turn_of_a_late_copy_lost() -> Iterator[None]:
    """A run that has begun leaves no turn to others, though a copy of its message stored a later one meanwhile."""

    async def give_back(self: Paces, pace: Pace, who: str, now_ms: int, *, is_used: bool) -> None:
        await (self.drop(pace.name, who) if is_used else _give_back(self, pace, who, now_ms, is_used=False))

    with mock.patch.object(Paces, "give_back", give_back):
        yield


OF_PACES: tuple[Callable[[], AbstractContextManager[None]], ...] = (
    turn_given_back_by_each,
    turn_given_back_first,
    turn_never_given_back,
    turn_of_a_copy_lost,
    turn_of_a_late_copy_lost,
    turn_taken_together,
)
