"""Mutants of short invocations and of the sweeper's messages: each does a step twice, cuts one off, or loses a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from unittest import mock

from stepwell.engine.copying import changed
from stepwell.engine.records import Record
from stepwell.runtime.log.door import Answer, Budget
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop import worker
from stepwell.runtime.loop.sweeper import Sweeper
from stepwell.runtime.loop.worker import Worker, _Turn


@contextmanager
def spare_as_any() -> Iterator[None]:
    """A spare message does a step beside the worker that has the run."""
    with mock.patch.object(worker, "_yields", return_value=False):
        yield


@contextmanager
def spare_for_nothing() -> Iterator[None]:
    """A spare message is dropped, also where nobody has the run."""

    async def untaken(self: Worker, at: Standing) -> Standing | None:
        return None

    with mock.patch.object(Worker, "_untaken", untaken):
        yield


@contextmanager
def spare_again() -> Iterator[None]:
    """A spare message whose worker took the run up and died leaves the run to that worker when it comes again."""

    def yields(turn: _Turn) -> bool:
        return turn.wake.yields

    with mock.patch.object(worker, "_yields", yields):
        yield


@contextmanager
def spare_by_its_header() -> Iterator[None]:
    """A spare message goes by the header that it read before another took the run up, whatever the log says."""

    async def untaken(self: Worker, at: Standing) -> Standing | None:
        return None if at.header.started_ms else at

    with mock.patch.object(Worker, "_untaken", untaken):
        yield


@contextmanager
def spare_after_another() -> Iterator[None]:
    """A spare message whose record another has written goes on from there, beside it."""

    async def after(self: Worker, answer: Answer, turn: _Turn) -> Standing | None:
        return await (self._logbook.save_if_due(answer.at) if answer.is_new else self._load(turn))

    with mock.patch.object(Worker, "_after", after):
        yield


@contextmanager
def budget_ignored() -> Iterator[None]:
    """A step is begun in an invocation that ends before it, and cuts it off."""

    def needed_ms(budget: Budget, limit_ms: int) -> int:
        return 0

    with mock.patch.object(worker, "needed_ms", needed_ms):
        yield


@contextmanager
def waiting_counted_as_work() -> Iterator[None]:
    """What a run waited before it was taken up counts as time of its first step: the sweeper wakes it amid that."""
    due_ms = Sweeper._due_ms

    def by_its_record(self: Sweeper, at: Standing, last: Record | None, begins_ms: int = 0) -> int:
        early = changed(at, header=replace(at.header, started_ms=min(at.header.started_ms, 1)))
        return due_ms(self, early, last, begins_ms)

    with mock.patch.object(Sweeper, "_due_ms", by_its_record):
        yield


OF_BACKLOGS: tuple[Callable[[], AbstractContextManager[None]], ...] = (
    spare_as_any,
    spare_for_nothing,
    spare_again,
    budget_ignored,
    waiting_counted_as_work,
)
