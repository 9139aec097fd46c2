"""What a branch's wait had comes to that branch alone, whoever is held up, or dies, as it is sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

import pytest

from stepwell.engine.left_parts import left_parts
from stepwell.engine.records import Resumption
from stepwell.engine.waits import run_topic
from stepwell.runtime.calls import resending
from stepwell.runtime.waits import mailbox
from tests.lifecycle import branch_part_schedules
from tests.lifecycle.resending_mutants import sent_once_it_goes_on
from tests.lifecycle.schedules import breaks

SCHEDULES = 40
MOST_SCHEDULES = 400  # of one mutant


def test_redriven_branches_get_each_part_once_whoever_dies_on_the_way() -> None:
    sent: Counter[bool] = Counter()

    def left(*given: Any) -> list[tuple[int, Resumption]]:
        found = left_parts(*given)
        sent[bool(found)] += 1
        return found

    with mock.patch.object(resending, "left_parts", left):
        seeds = range(SCHEDULES)
        found = {seed: why for seed in seeds if (why := branch_part_schedules.run_schedule(seed)) is not None}
    assert found == {}
    assert sent[True] > SCHEDULES


@contextmanager
def sent_to_the_run() -> Iterator[None]:
    """Any of its branches may take it."""
    with mock.patch.object(resending, "_topic", lambda name, run_id, _: run_topic(name, run_id)):
        yield


@contextmanager
def not_looked_for() -> Iterator[None]:
    """A branch looks among the events for the run and for anybody alone."""
    with mock.patch.object(mailbox, "own_topics", return_value=[]):
        yield


@pytest.mark.parametrize("mutant", [sent_to_the_run, not_looked_for, sent_once_it_goes_on])
def test_a_redrive_that_sends_otherwise_is_caught(mutant: Callable[[], AbstractContextManager[None]]) -> None:
    with mutant():
        seeds = range(MOST_SCHEDULES)
        found = next((seed for seed in seeds if breaks(branch_part_schedules.run_schedule, seed)), None)
    assert found is not None
    assert branch_part_schedules.run_schedule(found) is None
