"""Redrives amid a function's tasks under random crashes hold their laws; one without one of them is caught."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

import pytest

from stepwell.engine import effects, redriving
from stepwell.engine.durable import finished, operations, task_records
from stepwell.engine.effect_kinds import Close
from stepwell.engine.fold import fold
from stepwell.engine.records import ROOT, Kind, Record, Status
from stepwell.engine.token import Token
from stepwell.runtime.calls import keeping
from stepwell.runtime.forks import forking
from stepwell.runtime.starts.ids import redriven_id
from tests.lifecycle import task_schedules
from tests.lifecycle.schedules import breaks, left_here

ENDED_AS_TASKS_DID = [1_413, 383]  # terminated when the tasks' last operation had ended
SCHEDULES = [*range(14), *ENDED_AS_TASKS_DID]
LOOKED_AT = [0, 1, 7, 33, *ENDED_AS_TASKS_DID, *range(2, 200)]  # of one mutant; the rarest first
_is, _opening, _after = keeping._is, effects.opening, finished.after


def test_a_redrive_amid_tasks_keeps_its_laws_whoever_dies_on_the_way() -> None:
    met: Counter[str] = Counter()
    real = task_schedules.broken_laws

    def laws(world: Any, old: Any, program: Any) -> Iterator[str]:
        root = task_schedules.logs_of(world, redriven_id(task_schedules.RUN)).get(ROOT, [])
        for mark in (record.slot for record in root if record.kind is Kind.REDRIVEN):
            token = fold(root[:mark], Token())
            met.update(amid=token.has_open_tasks, kept=bool(task_schedules.kept_branches(root[:mark], old)))
        return real(world, old, program)

    with mock.patch.object(task_schedules, "broken_laws", laws):
        found = {seed: why for seed in SCHEDULES if (why := task_schedules.run_schedule(seed)) is not None}
    assert found == {}
    assert met["amid"] > len(SCHEDULES) // 4
    assert met["kept"] > len(SCHEDULES) // 8


@contextmanager
def nothing_kept() -> Iterator[None]:
    """An operation that completed and was not heard of runs again."""

    def is_(token: Any, status: Any) -> bool:
        return status is not Status.COMPLETED and _is(token, status)

    with mock.patch.object(keeping, "_is", is_):
        yield


@contextmanager
def held_for_ever() -> Iterator[None]:
    """Nobody lets on what was open."""

    def opening(slot: int, begun: Any) -> Any:
        made = _opening(slot, begun)
        return Close(slot, (1_000_000,)) if begun.let_on_slot >= 0 else made

    with mock.patch.object(effects, "opening", opening):
        yield


@contextmanager
def let_on_once() -> Iterator[None]:
    """Who dies before it has let on what was open does not come back to that, once others have written."""

    async def again(self: Any, at: Any, by: Any, writers: Any, sent_for: int = -1) -> None:
        pass

    with mock.patch.object(forking.Forking, "again", again):
        yield


@contextmanager
def nothing_taken() -> Iterator[None]:
    """What other tasks completed after the failure runs again."""
    with (
        mock.patch.object(operations, "taken_by", return_value=""),
        mock.patch.object(task_records, "taken_by", return_value=""),
    ):
        yield


@contextmanager
def taken_for_ever() -> Iterator[None]:
    """A result that was taken is there for the task's next operation too."""

    def after(token: Token, record: Record) -> Mapping[str, Any]:
        left = _after(token, record)
        return token.finished if token.finished and left and record.kind is not Kind.REDRIVEN else left

    with mock.patch.object(finished, "after", after):
        yield


@contextmanager
def lost_where_it_thought() -> Iterator[None]:
    """A function that ended before it looked at what its tasks had done goes on from an earlier operation."""
    with mock.patch.object(redriving, "is_asked_by_tasks", return_value=False):
        yield


MUTANTS = [nothing_kept, held_for_ever, let_on_once, nothing_taken, taken_for_ever, lost_where_it_thought]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of a world that a law has stopped
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_redrive_amid_tasks_without_one_of_its_laws_is_caught(
    mutant: Callable[[], AbstractContextManager[None]],
) -> None:
    with left_here(), mutant():
        found = next((seed for seed in LOOKED_AT if breaks(task_schedules.run_schedule, seed)), None)
    assert found is not None
    assert task_schedules.run_schedule(found) is None
