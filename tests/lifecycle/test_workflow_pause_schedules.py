"""Pauses of workflows under random crashes and duplicates hold their laws; one without a part of it is caught."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest import mock

import pytest

from stepwell.runtime.log.messages import GoOnAll
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.pauses import Pauses, WorkflowPause
from stepwell.runtime.loop.pausing import Pausing
from stepwell.runtime.loop.stopping import Stopping
from tests.lifecycle import workflow_pauses

SCHEDULES = 60
MOST_SCHEDULES = 300  # of one mutant


def test_paused_workflows_keep_their_laws_whoever_dies_on_the_way() -> None:
    """Nobody begins a step but who was about to, and every run that was stopped goes on."""
    found = {seed: workflow_pauses.run_schedule(seed) for seed in range(SCHEDULES)}
    assert {seed: why for seed, (why, _) in found.items() if why is not None} == {}
    assert sum(held > 0 for _, held in found.values()) > SCHEDULES // 4


@contextmanager
def not_stopped() -> Iterator[None]:
    """A worker looks at what it has read at its beginning alone."""

    async def lately(self: Pauses, workflow: str) -> None:
        return None

    with mock.patch.object(Pauses, "lately", lately):
        yield


@contextmanager
def no_message() -> Iterator[None]:
    """Whoever ends the pause dies before the runs go on, and nobody is there in its place."""

    async def unpause(self: Stopping, pause: WorkflowPause) -> None:
        await self._pauses.end(pause.workflow, pause.note)
        await self.handle(GoOnAll(pause.workflow, pause.note))

    with mock.patch.object(Stopping, "unpause", unpause):
        yield


@contextmanager
def header_alone() -> Iterator[None]:
    """Runs go on in their headers, and none of their tokens is woken."""

    async def push(self: Pausing, at: Standing, after_ms: int) -> None:
        return None

    with mock.patch.object(Pausing, "_push", push):
        yield


@pytest.mark.parametrize("mutant", [not_stopped, no_message, header_alone])
def test_a_pause_without_one_of_its_parts_is_caught(mutant: Callable[[], AbstractContextManager[None]]) -> None:
    with mutant():
        found = next((seed for seed in range(MOST_SCHEDULES) if _breaks(seed)), None)
    assert found is not None
    assert workflow_pauses.run_schedule(found)[0] is None


def _breaks(seed: int) -> bool:
    return workflow_pauses.run_schedule(seed)[0] is not None
