"""Mutants of named limits: each takes one law of their permits away, and the simulator must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from unittest import mock

from stepwell.engine.actions import Share
from stepwell.engine.token import Permit
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.waits.claimants import Claims
from stepwell.runtime.waits.lines import Lines
from stepwell.runtime.waits.throttling import Throttling

_disband, _give_back = Lines.disband, Throttling.give_back


@contextmanager
def claim_taken_for_dead() -> Iterator[None]:
    """Whoever finds the limit taken takes out a holder that still has its step under way."""

    async def lives(self: Claims, who: str) -> bool:
        return False

    with mock.patch.object(Claims, "lives", lives):
        yield


@contextmanager
def claim_granted_untold() -> Iterator[None]:
    """A step that is given its permit by another is not woken."""

    async def tell(self: Claims, who: str) -> bool:
        return await self.lives(who)

    with mock.patch.object(Claims, "tell", tell):
        yield


@contextmanager
def claim_kept_by_failure() -> Iterator[None]:
    """Only an attempt that succeeds gives its permit back."""

    async def give_back(self: Throttling, at: Standing, permit: Permit) -> None:
        if at.token.last is not None and at.token.last.error is None:
            await _give_back(self, at, permit)

    with mock.patch.object(Throttling, "give_back", give_back):
        yield


@contextmanager
def claim_kept_by_tasks() -> Iterator[None]:
    """A step of a function's task, whose limit is that of the block around it, keeps its permit."""

    async def give_back(self: Throttling, at: Standing, permit: Permit) -> None:
        if at.token.branch is None:
            await _give_back(self, at, permit)

    with mock.patch.object(Throttling, "give_back", give_back):
        yield


@contextmanager
def line_not_disbanded() -> Iterator[None]:
    """Who waits in the line of a limit that was removed hears nothing of it."""
    with mock.patch.object(Lines, "disband"):
        yield


@contextmanager
def granted_left_to_the_dead() -> Iterator[None]:
    """Who removes the line of a limit leaves those who were just let in to whoever did that, who may have died."""

    async def disband(self: Lines, share: Share, who: str, own: str = "") -> None:
        other = copy(self)
        other._remind = mock.AsyncMock(return_value=True)  # type: ignore[method-assign]  # of this one
        await _disband(other, share, who, own)

    with mock.patch.object(Lines, "disband", disband):
        yield


OF_DISBANDED: tuple[Callable[[], AbstractContextManager[None]], ...] = (line_not_disbanded, granted_left_to_the_dead)
OF_PERMITTED: tuple[Callable[[], AbstractContextManager[None]], ...] = (claim_kept_by_tasks,)
OF_THROTTLES: tuple[Callable[[], AbstractContextManager[None]], ...] = (
    claim_taken_for_dead,
    claim_granted_untold,
    claim_kept_by_failure,
)
