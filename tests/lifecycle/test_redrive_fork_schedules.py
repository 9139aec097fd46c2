"""Redrives in forks under random crashes and duplicates hold their laws; one without one of them is caught."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

import pytest

from stepwell.engine.records import ROOT, Status
from stepwell.runtime.calls import keeping
from stepwell.runtime.calls.redriving import Redriver
from stepwell.runtime.forks.forking import Forking
from tests.lifecycle import fork_schedules
from tests.lifecycle.schedules import breaks, left_here

SCHEDULES = 60
LOOKED_AT = [1, 6, 42, 16, *range(300)]  # of one mutant; the rarest first
_redrive, _write, _is = Redriver._redrive, Redriver._write, keeping._is


def test_a_redrive_in_a_fork_keeps_its_laws_whoever_dies_on_the_way() -> None:
    met: Counter[str] = Counter()
    real = fork_schedules.broken_laws

    def laws(world: Any, old: Any, called: Any) -> Iterator[str]:
        logs = fork_schedules.logs_of(world, fork_schedules.redriven_id(fork_schedules.RUN))
        for token, log in logs.items():
            kept = [record.reopens for record in log if record.reopens is not None]
            met.update(nested=bool(kept) and token != ROOT, reopened=bool(kept), kept=any(one.kept for one in kept))
        return real(world, old, called)

    with mock.patch.object(fork_schedules, "broken_laws", laws):
        found = {seed: why for seed in range(SCHEDULES) if (why := fork_schedules.run_schedule(seed)) is not None}
    assert found == {}
    assert met["reopened"] > SCHEDULES // 4
    assert met["kept"] > SCHEDULES // 8
    assert met["nested"]


@contextmanager
def nothing_kept() -> Iterator[None]:
    """A branch that completed runs again."""

    def is_(token: Any, status: Any) -> bool:
        return status is not Status.COMPLETED and _is(token, status)

    with mock.patch.object(keeping, "_is", is_):
        yield


@contextmanager
def no_arrival() -> Iterator[None]:
    """The branches that are kept are not in the join."""

    async def arrive(self: Redriver, *given: Any) -> None:
        pass

    with mock.patch.object(Redriver, "_arrive", arrive):
        yield


@contextmanager
def late_logs() -> Iterator[None]:
    """The logs of branches are written when the run goes on already."""
    left: list[tuple[str, str, Any]] = []

    async def write(self: Redriver, run_id: str, token: str, record: Any) -> None:
        if token == ROOT:
            await _write(self, run_id, token, record)
        else:
            left.append((run_id, token, record))

    async def made(self: Redriver, *given: Any) -> Any:
        left.clear()
        at = await _redrive(self, *given)
        for one in left:
            await _write(self, *one)
        return at

    with mock.patch.object(Redriver, "_write", write), mock.patch.object(Redriver, "_redrive", made):
        yield


@contextmanager
def open_branches() -> Iterator[None]:
    """The branches of the failed run may still move while they are read."""

    async def end_page(self: Any, *given: Any) -> None:
        pass

    with mock.patch.object(Forking, "end_page", end_page):
        yield


MUTANTS = [nothing_kept, no_arrival, late_logs, open_branches]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of a world that a law has stopped
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_redrive_in_a_fork_without_one_of_its_laws_is_caught(
    mutant: Callable[[], AbstractContextManager[None]],
) -> None:
    with left_here(), mutant():
        found = next((seed for seed in LOOKED_AT if breaks(fork_schedules.run_schedule, seed)), None)
    assert found is not None
    assert fork_schedules.run_schedule(found) is None
