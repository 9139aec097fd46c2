"""Mutants of gathering: each takes one law of starts that become one run away, and the simulator must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from dataclasses import replace
from typing import Any
from unittest import mock

from stepwell.definition.graph import Graph, Json
from stepwell.engine import decide, gathering
from stepwell.engine.actions import Action, Write
from stepwell.engine.names import Moment
from stepwell.engine.pushing import pushes
from stepwell.engine.records import Kind
from stepwell.engine.starts import is_open
from stepwell.engine.token import Token
from stepwell.engine.writing import record
from stepwell.runtime.calls.gathering import Gatherer
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.ports.headers import Header


@contextmanager
def start_without_home() -> Iterator[None]:
    """A start that is repeated does not look where it was put before."""

    async def homes(self: Gatherer, given: Header) -> Sequence[str]:
        return ()

    async def moved_in(self: Gatherer, *args: Any) -> bool:
        return True

    with mock.patch.object(Gatherer, "_homes", homes), mock.patch.object(Gatherer, "_moved_in", moved_in):
        yield


@contextmanager
def start_taken_late() -> Iterator[None]:
    """A run takes starts though it is due, or full."""

    def taken(moment: Moment, token: Token, given: Json) -> Action:
        if not is_open(moment.run, token):
            return _taken(moment, token, given)
        rules = gathering._rules(moment.graph)
        return Write(record(moment, token, Kind.GATHERED, "", rules=(rules.mode,), output=given))

    with mock.patch.object(gathering, "taken", taken):
        yield


@contextmanager
def start_makes_wake_stale() -> Iterator[None]:
    """The wake of the first start is dropped once another has come."""

    def is_stale(token: Token, slot: int, *names: str) -> bool:
        return not pushes(token, *names, sent_for=slot)

    with mock.patch.object(decide, "is_stale", is_stale), mock.patch("stepwell.runtime.loop.worker.is_stale", is_stale):
        yield


@contextmanager
def run_as_old_as_its_call() -> Iterator[None]:
    """A caller that was held up makes a run that is due before its start is in it, and then another, and so on."""

    async def open_run(self: Gatherer, graph: Graph, given: Header, *where: str) -> Standing:
        async def create(graph: Graph, header: Header) -> Header | None:
            return await starter.create(graph, replace(header, created_ms=given.created_ms))

        starter, other = self._starter, copy(self)
        other._starter = mock.Mock(wraps=starter, create=create)
        return await _open_run(other, graph, given, *where)

    with mock.patch.object(Gatherer, "_open_run", open_run):
        yield


_taken, _open_run = gathering.taken, Gatherer._open_run

OF_STALLS: tuple[Callable[[], AbstractContextManager[None]], ...] = (run_as_old_as_its_call,)
OF_GATHERING: tuple[Callable[[], AbstractContextManager[None]], ...] = (
    start_without_home,
    start_taken_late,
    start_makes_wake_stale,
)
