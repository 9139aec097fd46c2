"""Mutants of permits that are given back during waits: each takes one law away, and the simulator must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from stepwell.engine.limits import shares
from stepwell.engine.records import Record
from stepwell.engine.token import Permit, Token
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.waits.throttling import Throttling

_after, _give_back = shares.after, Throttling.give_back


@contextmanager
def goes_on_without_a_permit() -> Iterator[None]:
    """A run whose wait is over does not ask for a permit again."""
    with mock.patch.object(shares, "lacks", return_value=False):
        yield


@contextmanager
def first_permit_kept() -> Iterator[None]:
    """A run that waits says that it has given back the permit of its beginning, and does not."""

    async def give_back(self: Throttling, at: Standing, permit: Permit) -> None:
        if permit.slot >= 0:
            await _give_back(self, at, permit)

    with mock.patch.object(Throttling, "give_back", give_back):
        yield


@contextmanager
def later_permit_kept() -> Iterator[None]:
    """Only the first wait of a run gives back its permit."""

    def after(token: Token, record: Record, returned: tuple[Permit, ...]) -> dict[str, Any]:
        changes = _after(token, record, returned)
        held = tuple(one for one in changes.get("returned", ()) if one.slot < 0)
        return changes | ({"returned": held} if changes else {})

    with mock.patch.object(shares, "after", after):
        yield


OF_RELEASED: tuple[Callable[[], AbstractContextManager[None]], ...] = (
    goes_on_without_a_permit,
    first_permit_kept,
    later_permit_kept,
)
