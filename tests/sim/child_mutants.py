"""Mutants of child runs: each takes one law of the protocol away, and the simulator must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import count
from typing import Any
from unittest import mock

from typing_extensions import override

from stepwell.engine.actions import Outcome, RunStep
from stepwell.engine.children import child_id
from stepwell.engine.records import Parked
from stepwell.runtime.forks import children
from stepwell.runtime.forks.children import Children
from stepwell.runtime.log.door import FoundInput
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.advance import Advance
from stepwell.runtime.ports import Joined
from stepwell.runtime.ports.headers import Header
from stepwell.runtime.starts.starting import Caller
from tests.sim.doors import before_append

_came, _end, _start, _tell = Children._came, Children.end, Children.start, Children.tell
_start_detached = Children.start_detached


@contextmanager
def told_before_end() -> Iterator[None]:
    """A child tells its parent before its end is recorded."""

    async def before(advance: Advance, at: Standing, by: str) -> None:
        for found in await advance._performer.children.tell(at):
            if found.given is not None and (await advance._door.put(found.at, found.given, found.by)).is_mine:
                await advance.wake(found.at)

    with before_append(before):
        yield


@contextmanager
def told_once() -> Iterator[None]:
    """A child is told of by the first who comes to it, whether or not that one gets to the end."""
    tried: set[object] = set()

    async def tell(self: Children, child: Standing) -> list[FoundInput]:
        if not child.token.ended or (self, child.run_id) in tried:
            return []
        tried.add((self, child.run_id))
        return await _tell(self, child)

    with mock.patch.object(Children, "tell", tell):
        yield


@contextmanager
def told_to_any_wait() -> Iterator[None]:
    """A child's end ends the wait at which its parent stands, whichever that is."""

    async def tell(self: Children, child: Standing) -> list[FoundInput]:
        caller = Caller.of(child.header)
        parent = caller and await self._logbook.load(caller.run_id, caller.token)
        if caller and parent and caller.index >= 0 and parent.token.slot > caller.slot + 1:
            here = replace(caller, slot=parent.token.slot)
            child = replace(child, header=replace(child.header, parent=str(here)))
        return await _tell(self, child)

    with mock.patch.object(Children, "tell", tell):
        yield


class _Counting:
    """A store whose sets count: a member that is added twice is two."""

    def __init__(self, store: Any) -> None:
        self._store = store

    async def arrive(self, run_id: str, join: str, member: str) -> Joined:
        members: set[str] = self._store._inner._joins[run_id, join]
        again = sum(one.strip() == member for one in members)
        found: Joined = await self._store.arrive(run_id, join, " " * again + member)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@contextmanager
def ends_counted() -> Iterator[None]:
    """The children that have ended are counted: one that is told of twice is two."""

    async def came(self: Children, *told: Any) -> list[FoundInput]:
        log: Any = _Counting(self._ports.log)
        return await _came(Children(replace(self._ports, log=log), self._logbook, self._starter), *told)

    with mock.patch.object(Children, "_came", came):
        yield


@contextmanager
def same_child_again() -> Iterator[None]:
    """A child's id follows from its token and its place among its siblings alone: a retry meets the old one."""

    def of_token(run_id: str, token: str, slot: int, index: int) -> str:
        return child_id(run_id, token, 0, index)

    with mock.patch.object(children, "child_id", of_token):
        yield


@contextmanager
def left_running() -> Iterator[None]:
    """The children of a wait that is over run on."""

    async def end(self: Children, *place: object) -> None:
        return None

    with mock.patch.object(Children, "end", end):
        yield


@contextmanager
def started_after_end() -> Iterator[None]:
    """A child that is not there yet when the wait for it is over is not made, and a zombie starts it later."""

    async def end(self: Children, at: Standing, parked: Parked, slot: int) -> None:
        await _end(_NotMade(self._ports, self._logbook, self._starter), at, parked, slot)

    with mock.patch.object(Children, "end", end):
        yield


class _NotMade(Children):
    @override
    async def _create(self, at: Standing, *child: Any) -> Header:
        return at.header


@contextmanager
def children_started_once() -> Iterator[None]:
    """Children are started by the first who comes to it, whether or not that one gets to the end."""
    tried: set[object] = set()

    async def start(self: Children, at: Standing, parked: Parked, slot: int) -> list[FoundInput]:
        place = (self, at.run_id, at.token.id, slot)
        if place in tried:
            return []
        tried.add(place)
        return await _start(self, at, parked, slot)

    with mock.patch.object(Children, "start", start):
        yield


@contextmanager
def another_run_each_try() -> Iterator[None]:
    """A run that nobody waits for is another one in each try of its step."""
    tries = count()

    async def start_detached(self: Children, at: Standing, action: RunStep) -> Outcome:
        return await _start_detached(self, at, replace(action, key=f"{action.key}:{next(tries)}"))

    with mock.patch.object(Children, "start_detached", start_detached):
        yield


OF_CHILDREN: tuple[Callable[[], AbstractContextManager[None]], ...] = (
    told_before_end,
    told_once,
    told_to_any_wait,
    ends_counted,
    same_child_again,
    left_running,
    started_after_end,
    children_started_once,
    another_run_each_try,
)
