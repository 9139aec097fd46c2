"""Mutants of counts: what is sent more often than it need be changes no run, and costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest import mock

from stepwell.engine.effect_kinds import ShowStatus
from stepwell.runtime.forks.showing import Showing
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.advance import Advance

_wake = Advance.wake


@contextmanager
def wakes_sent_twice() -> Iterator[None]:
    """Each wake is sent twice: the second is stale, or a copy."""

    async def wake(self: Advance, at: Standing, hops: int = 0, *, yields: bool = False) -> None:
        for _ in range(2):
            await _wake(self, at, hops, yields=yields)

    with mock.patch.object(Advance, "wake", wake):
        yield


@contextmanager
def shown_again() -> Iterator[None]:
    """Who shows a run as running does so twice: the second write changes nothing."""
    show = Showing.show_root

    async def show_root(self: Showing, at: Standing, effect: ShowStatus) -> bool:
        shown = await show(self, at, effect)
        if effect.picked_up:
            await show(self, at, effect)
        return shown

    with mock.patch.object(Showing, "show_root", show_root):
        yield


OF_COUNTS: tuple[Callable[[], AbstractContextManager[None]], ...] = (wakes_sent_twice,)
