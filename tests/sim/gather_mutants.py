"""Mutants of gathering: each takes one law of starts that become one run away, and the simulator must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from stepwell.definition.graph import Json
from stepwell.engine import decide, gathering
from stepwell.engine.actions import Action, Write
from stepwell.engine.names import Moment
from stepwell.engine.pushing import pushes
from stepwell.engine.records import Kind
from stepwell.engine.starts import is_open
from stepwell.engine.token import Token
from stepwell.engine.writing import record
from stepwell.runtime.calls.gathering import Gatherer
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


_taken = gathering.taken

OF_GATHERING: tuple[Callable[[], AbstractContextManager[None]], ...] = (
    start_without_home,
    start_taken_late,
    start_makes_wake_stale,
)
