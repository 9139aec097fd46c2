"""Pauses under random crashes and duplicates hold their laws; a pause without one of them is caught."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

import pytest

from stepwell.engine import decide
from stepwell.engine.actions import Refuse
from stepwell.engine.inputs import Unpaused
from stepwell.memory.store import MemoryStore
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.messages import GoOn
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop import worker
from stepwell.runtime.loop.pausing import Pausing
from tests.lifecycle import pauses

SCHEDULES = 60
LOOKED_AT = [821, 106, 95, *range(900)]  # of one mutant; the rarest first


def test_a_paused_run_keeps_its_laws_whoever_dies_on_the_way() -> None:
    """Nobody begins a step but who was about to, nothing that ends meanwhile is lost, and it goes on to its end."""
    found = {seed: pauses.run_schedule(seed) for seed in range(SCHEDULES)}
    assert {seed: why for seed, (why, _) in found.items() if why is not None} == {}
    assert sum(held for _, held in found.values()) > SCHEDULES // 4  # the others had ended, or had not begun


@contextmanager
def goes_on() -> Iterator[None]:
    """A worker that meets the mark looks at the header, and goes on all the same."""
    held = lambda run, token: False  # noqa: E731 - it is the mutant
    with mock.patch.object(decide, "is_held", held), mock.patch.object(worker, "is_held", held):
        yield


@contextmanager
def no_marks() -> Iterator[None]:
    """The header says paused, and nobody who is at work hears of it."""

    async def mark(self: Logbook, at: Standing) -> Standing:
        return at

    with mock.patch.object(Logbook, "mark", mark):
        yield


@contextmanager
def no_wakes() -> Iterator[None]:
    """The run goes on in its header alone."""

    async def push(self: Pausing, at: Standing, after_ms: int) -> None:
        return None

    with mock.patch.object(Pausing, "_push", push):
        yield


@contextmanager
def no_message() -> Iterator[None]:
    """Whoever has it go on dies between the header and the wakes, and nobody is there in its place."""

    async def unpause(self: Pausing, at: Standing) -> Any:
        action = self._door.decide(at, Unpaused(), "")
        if isinstance(action, Refuse):
            return action
        await self.go_on(GoOn(at.run_id, at.header.paused_ms))
        return None

    with mock.patch.object(Pausing, "unpause", unpause):
        yield


@contextmanager
def result_dropped() -> Iterator[None]:
    """What a step returns while its run is paused is lost: the mark stands for a record of another's."""
    append = MemoryStore.append

    async def dropped(self: MemoryStore, run_id: str, token: str, slot: int, body: str, **named: Any) -> Any:
        log = self._logs.get((run_id, token))
        if log is not None and slot - 1 in log.records and self._runs[run_id].paused_ms and '"kind":"step"' in body:
            return log.records[slot - 1].body
        return await append(self, run_id, token, slot, body, **named)

    with mock.patch.object(MemoryStore, "append", dropped):
        yield


@pytest.mark.parametrize("mutant", [goes_on, no_marks, no_wakes, no_message, result_dropped])
def test_a_pause_without_one_of_its_laws_is_caught(mutant: Callable[[], AbstractContextManager[None]]) -> None:
    with mutant():
        found = next((seed for seed in LOOKED_AT if _breaks(seed)), None)
    assert found is not None
    assert pauses.run_schedule(found)[0] is None


def _breaks(seed: int) -> bool:
    try:
        return pauses.run_schedule(seed)[0] is not None
    except Exception as fault:  # a mutant may leave a log that cannot be read
        return bool(str(fault))
