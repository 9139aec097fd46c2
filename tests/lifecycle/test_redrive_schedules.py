"""Redrives under random crashes and duplicates hold their laws; a redrive without one of them is caught."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from stepwell.engine import attempts
from stepwell.engine.redriving import Kept, kept_of
from stepwell.runtime.calls import redriving
from stepwell.runtime.calls.redriving import Redriver
from stepwell.runtime.starts.ids import redriven_id
from tests.lifecycle import schedules

SCHEDULES = 120
MOST_SCHEDULES = 400  # of one mutant
_push, _kept_of, _redrive = Redriver.push, kept_of, Redriver._redrive

pytestmark = [  # a world that a law has stopped leaves coroutines behind
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
]


def test_a_redriven_run_keeps_its_laws_whoever_dies_on_the_way() -> None:
    """What it keeps is what the failed run had, nothing of that runs again, and it comes to its end."""
    made: Counter[bool] = Counter()
    real = schedules.broken_laws

    def laws(world: Any, old: Any) -> Iterator[str]:
        made[redriven_id(schedules.RUN) in world.memory._runs] += 1
        return real(world, old)

    with mock.patch.object(schedules, "broken_laws", laws):
        found = {seed: why for seed in range(SCHEDULES) if (why := schedules.run_schedule(seed)) is not None}
    assert found == {}
    assert made[True] > SCHEDULES // 3  # the others completed, or cannot be redriven


@contextmanager
def no_push_again() -> Iterator[None]:
    """Only the call that made the run has it going: one that died before is not made good."""

    async def made(self: Redriver, *given: Any) -> Any:
        at, dropped = await _redrive(self, *given)
        await _push(self, at, f"redrive:{schedules.RUN}")
        return at, dropped

    with mock.patch.object(Redriver, "_redrive", made), mock.patch.object(Redriver, "push", mock.AsyncMock()):
        yield


@contextmanager
def own_key() -> Iterator[None]:
    """The step that failed gets a new idempotency key."""
    key = lambda run, token, slot: f"{run.run_id}:{token.id}:{slot}"  # noqa: E731 - it is the mutant
    with mock.patch.object(attempts, "visit_key", key):
        yield


@contextmanager
def one_record_less() -> Iterator[None]:
    """The step before the one that failed is not kept."""

    def kept_of(run_id: str, records: Any, since: str = "") -> Kept:
        kept = _kept_of(run_id, records, since)
        if not kept.records:
            return kept
        before = _kept_of(run_id, records, kept.records[-1].node) if kept.records[-1].node else kept
        return replace(before, keyed_by=kept.keyed_by)

    with mock.patch.object(redriving, "kept_of", kept_of):
        yield


@contextmanager
def mark_first() -> Iterator[None]:
    """What is kept is written after the record that says that all of it is there."""

    async def write(self: Redriver, run_id: str, token: str, record: Any) -> None:
        left.append((run_id, token, record))

    async def made(self: Redriver, *given: Any) -> Any:
        left.clear()
        at = await _redrive(self, *given)
        for one in left:
            await _write(self, *one)
        return at

    left: list[tuple[str, str, Any]] = []
    _write = Redriver._write
    with mock.patch.object(Redriver, "_write", write), mock.patch.object(Redriver, "_redrive", made):
        yield


@pytest.mark.parametrize("mutant", [no_push_again, own_key, one_record_less, mark_first])
def test_a_redrive_without_one_of_its_laws_is_caught(mutant: Callable[[], AbstractContextManager[None]]) -> None:
    with mutant():
        found = next((seed for seed in range(MOST_SCHEDULES) if schedules.breaks(schedules.run_schedule, seed)), None)
    assert found is not None
    assert schedules.run_schedule(found) is None
