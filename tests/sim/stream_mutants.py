"""Mutants of live output, and of child runs that tasks await: pieces that hide or are lost, children that run on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from stepwell.engine.records import TASKS
from stepwell.runtime.forks.children import Children
from stepwell.runtime.loop.outputs import Outputs
from stepwell.runtime.ports import Event

_put, _end, _tell = Outputs.put, Children.end, Children.tell


class _Other:
    """A mailbox that stores events otherwise."""

    def __init__(self, inner: Any, put_event: Any) -> None:
        self._inner, self.put_event = inner, put_event

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@contextmanager
def numbered_by_the_clock() -> Iterator[None]:
    """A piece goes where the clock of its writer says, and not behind those that are there."""

    async def put(self: Outputs, run_id: str, told: Any) -> None:
        inner: Any = self._mailbox

        async def put_event(event: Event, *most: Any) -> bool:
            number = event.at_ms % 10**9 * 1_000 + len(inner._world.stored) % 1_000
            await inner.put_event(replace(event, id=f"{number:012d}"), *most)
            return True

        with mock.patch.object(self, "_mailbox", _Other(inner, put_event)):
            await _put(self, run_id, told)
        self._ends.clear()

    with mock.patch.object(Outputs, "put", put):
        yield


@contextmanager
def place_taken_for_ones_own() -> Iterator[None]:
    """Whoever finds the place of a piece taken believes that it has put it there."""

    async def put(self: Outputs, run_id: str, told: Any) -> None:
        inner: Any = self._mailbox

        async def put_event(event: Event, *most: Any) -> bool:
            await inner.put_event(event, *most)
            return True

        with mock.patch.object(self, "_mailbox", _Other(inner, put_event)):
            await _put(self, run_id, told)

    with mock.patch.object(Outputs, "put", put):
        yield


@contextmanager
def children_of_tasks_run_on() -> Iterator[None]:
    """A child run goes on, although the task that waited for it was cancelled."""

    async def end(self: Children, at: Any, *rest: Any) -> None:
        if at.token.branch is None or at.token.branch.join != TASKS:
            await _end(self, at, *rest)

    with mock.patch.object(Children, "end", end):
        yield


@contextmanager
def children_of_tasks_untold() -> Iterator[None]:
    """The end of a child run reaches a function, and none of its tasks."""

    async def tell(self: Children, child: Any) -> Any:
        found = await _tell(self, child)
        return [one for one in found if one.at.token.branch is None or one.at.token.branch.join != TASKS]

    with mock.patch.object(Children, "tell", tell):
        yield


OF_STREAMS = (
    numbered_by_the_clock,
    place_taken_for_ones_own,
    children_of_tasks_run_on,
    children_of_tasks_untold,
)
