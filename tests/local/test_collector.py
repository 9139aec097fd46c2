"""The garbage collector leaves alone what a serving process has set up."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwell.collector import relax_collector
from stepwell.testing.kit import Stepwell

FORK = """
workflow: fan
nodes:
  fork: {fan_out: all, transitions: [{to: work, foreach: "{{ input.items }}", as: item}]}
  work: {run: python:steps.work, input: {item: "{{ branch.item }}"}, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all, target: outs}}
"""


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def walks(work: Callable[[], object]) -> list[int]:
    """Returns the generations that were collected during the work: 2 is all values of the process."""
    found: list[int] = []

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            found.append(info["generation"])

    gc.callbacks.append(note)
    try:
        work()
    finally:
        gc.callbacks.remove(note)
    return found


def test_a_fork_of_a_thousand_has_the_collector_walk_through_nothing_that_was_set_up(tmp_path: Path) -> None:
    (tmp_path / "fan.yaml").write_text(FORK)
    (tmp_path / "steps.py").write_text("def work(item):\n    return item\n")
    stepwell = Stepwell(tmp_path)
    relax_collector()
    assert gc.get_freeze_count() > 0

    def fork() -> None:
        run = stepwell.start("fan", {"items": list(range(1_000))})
        assert run.status == "completed"

    found = walks(fork)
    assert len(found) <= 5  # 37 by Python's own thresholds
    assert 2 not in found
    stepwell.close()
