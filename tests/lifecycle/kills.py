"""Kills whoever acts on a run at each of the calls that it makes, one world after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from stepwell.errors import PortError
from tests.runtime.kit import World

Act = Callable[[World, str], object]


class Killer:
    """A store whose n-th call of all does not answer: before it happened, or after."""

    def __init__(self, world: World, at: int, done: bool) -> None:
        self._at, self._done, self._calls, self.has_killed = at, done, 0, False
        self._inner: Any = world.store.inner
        world.store.inner = self

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._inner, name)

        async def call(*args: Any, **named: Any) -> Any:
            self._calls += 1
            dies = self._calls == self._at
            self.has_killed |= dies
            if dies and not self._done:
                raise PortError("away")
            made = await method(*args, **named)
            if dies:
                raise PortError("no answer")
            return made

        return call


def killed(
    prepare: Callable[[], tuple[World, str]], act: Act, *, done: bool, least: int = 3
) -> Iterator[tuple[World, str]]:
    """A world for each call that `act` makes, at least so many, in which that call kills whoever acts."""
    at, is_killed = 1, True
    while is_killed:
        world, run_id = prepare()
        killer = Killer(world, at, done)
        try:
            act(world, run_id)
        except PortError:
            assert killer.has_killed
        is_killed = killer.has_killed
        if is_killed:
            yield world, run_id
        at += 1
    assert at > least
