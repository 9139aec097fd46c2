"""For mutants: what a worker does right before it appends a record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from stepwell.engine.actions import Write
from stepwell.engine.inputs import StepEnded, Woken
from stepwell.runtime.log.door import Answer, Door
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.advance import Advance

OF_WORKERS = (Woken, StepEnded)
_put, _settle = Door.put, Advance.settle


@contextmanager
def before_append(act: Callable[[Advance, Standing, str], Awaitable[None]]) -> Iterator[None]:
    """`act` is called with the token as the record would leave it, before a worker appends that record."""
    of_door: dict[Door, Advance] = {}

    async def settle(self: Advance, *given: Any, **options: Any) -> Standing | None:
        of_door[self._door] = self
        return await _settle(self, *given, **options)

    async def put(self: Door, at: Standing, given: Any, by: str, *rest: Any, **options: Any) -> Answer:
        action = self.decide(at, given, by)
        if isinstance(given, OF_WORKERS) and isinstance(action, Write):
            await act(of_door[self], at.after(action.record), by)
        return await _put(self, at, given, by, *rest, **options)

    with mock.patch.object(Advance, "settle", settle), mock.patch.object(Door, "put", put):
        yield
