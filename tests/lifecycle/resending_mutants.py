"""A redrive that sends too late what the failed run's waits had: the schedules of runs and of branches catch it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from stepwell.runtime.calls.redriving import Redriver
from stepwell.runtime.calls.resending import Resender

_redrive, _send = Redriver._redrive, Resender.send


@contextmanager
def sent_once_it_goes_on() -> Iterator[None]:
    """What the waits had is sent after the record that says that the run goes on."""

    async def send(self: Resender, *given: Any) -> None:
        left.append(given)

    async def made(self: Redriver, *given: Any) -> Any:
        left.clear()
        at = await _redrive(self, *given)
        for one in [*left]:
            await _send(self._resender, *one)
        return at

    left: list[tuple[Any, ...]] = []
    with mock.patch.object(Resender, "send", send), mock.patch.object(Redriver, "_redrive", made):
        yield
