"""Mutants of counts: what is sent more often than it need be changes no run, and costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest import mock

from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.advance import Advance

_wake = Advance.wake


@contextmanager
def wakes_sent_twice() -> Iterator[None]:
    """Each wake is sent twice: the second is stale, or a copy."""

    async def wake(self: Advance, at: Standing, hops: int = 0) -> None:
        await _wake(self, at, hops)
        await _wake(self, at, hops)

    with mock.patch.object(Advance, "wake", wake):
        yield


OF_COUNTS: tuple[Callable[[], AbstractContextManager[None]], ...] = (wakes_sent_twice,)
