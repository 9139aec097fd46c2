"""Mutants of pauses: each leaves a token behind when a pause is over, and the simulator must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest import mock

from stepwell.definition.graph import Graph
from stepwell.engine import holding
from stepwell.engine.holding import can_be_held
from stepwell.engine.records import RunInfo
from stepwell.engine.token import Token
from stepwell.runtime.forks import running
from stepwell.runtime.log.messages import GoOn
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.advance import can_move
from stepwell.runtime.loop.pausing import Pausing
from stepwell.runtime.loop.worker import Worker, _Turn
from stepwell.runtime.waits.permits import Permits


@contextmanager
def gathering_rests() -> Iterator[None]:
    """A run that gathers starts rests in a pause, though starts move it past the mark where it rests."""

    def may_rest(run: RunInfo, token: Token) -> bool:
        return can_be_held(token)

    with mock.patch.object(holding, "may_rest", may_rest):
        yield


@contextmanager
def abandoned_left_at_rest() -> Iterator[None]:
    """The branches that a join abandoned rest in a pause, and nobody wakes them."""

    def may_abandon(graph: Graph, token: Token) -> bool:
        return False

    with mock.patch.object(running, "may_abandon", may_abandon):
        yield


@contextmanager
def rests_before_it_opens() -> Iterator[None]:
    """A function rests before its operations are let begin. Its wake is for the record that others wrote meanwhile."""
    settled = Worker._settled

    async def rests(self: Worker, at: Standing, turn: _Turn) -> Standing | None:
        is_to_rest = holding.is_held(at.run, at.token) and can_move(at.token)
        return await (self._rests(at) if is_to_rest else settled(self, at, turn))

    with mock.patch.object(Worker, "_settled", rests):
        yield


@contextmanager
def woken_before_the_next_pause() -> Iterator[None]:
    """A message that notes a token as woken, and dies, does nothing when it comes again amid the next pause."""

    async def go_on(self: Pausing, given: GoOn) -> None:
        at = await self._over(given)
        if at is not None and not at.run.is_paused:
            await self._push(at, given.paused_ms)

    with mock.patch.object(Pausing, "go_on", go_on):
        yield


@contextmanager
def paused_in_line() -> Iterator[None]:
    """A run that is paused before it has begun keeps its permit, or its place in line."""

    async def step_back(self: Permits, at: Standing) -> Standing:
        return at

    with mock.patch.object(Permits, "step_back", step_back):
        yield


OF_PAUSES: tuple[Callable[[], AbstractContextManager[None]], ...] = (
    gathering_rests,
    woken_before_the_next_pause,
    paused_in_line,
)
