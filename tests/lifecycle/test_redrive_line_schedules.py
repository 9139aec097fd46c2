"""Redriven runs in the line of a limit hold the laws of limits, also if they are paused there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest import mock

import pytest

from stepwell.runtime.loop.pausing import Pausing
from stepwell.runtime.waits.permits import Permits
from tests.lifecycle import line_schedules

SCHEDULES = 30


def test_a_redriven_run_that_is_paused_in_line_leaves_it_and_comes_to_its_end() -> None:
    assert {seed: why for seed in range(SCHEDULES) if (why := line_schedules.run_schedule(seed)) is not None} == {}


@contextmanager
def stays_in_line() -> Iterator[None]:
    """A redriven run that is paused is let in when its turn comes, and rests with its permit."""
    with mock.patch.object(Pausing, "_leave_line"):
        yield


@contextmanager
def rests_in_line() -> Iterator[None]:
    """It rests, and its place is still there."""
    with mock.patch.object(Permits, "leave_line"):
        yield


@pytest.mark.parametrize("mutant", [stays_in_line, rests_in_line])
def test_a_line_that_a_paused_run_does_not_leave_is_noticed(
    mutant: Callable[[], AbstractContextManager[None]],
) -> None:
    with mutant():
        assert any(line_schedules.run_schedule(seed) for seed in range(SCHEDULES))
