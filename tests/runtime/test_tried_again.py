"""The worker's log says after the failure of an attempt when the step is tried again; nothing where it is not."""

from __future__ import annotations

import logging

import pytest

from tests.runtime.kit import World, fails

RETRIED = """
workflow: flow
timeline:
  - {name: work, run: python:m.work, retry: {max_retries: 2, backoff: constant, initial_delay: 3s}}
  - {name: last, run: python:m.last}
"""
UNDONE = """
workflow: flow
failure_policy: compensate
timeline:
  - {name: book, run: python:m.book, compensate: {run: python:m.undo, retry: {max_retries: 1, initial_delay: 90s}}}
  - {name: work, run: python:m.work}
"""


def said(world: World, caplog: pytest.LogCaptureFixture, delay_ms: int) -> list[str]:
    """What is said of one run in this time, without its id."""
    with caplog.at_level(logging.INFO, "stepwell.worker"):
        run_id = world.start()
        world.pass_time(delay_ms)
    return [record.getMessage().removeprefix(f"{run_id} ") for record in caplog.records]


def test_each_retry_is_announced_and_the_last_attempt_announces_none(caplog: pytest.LogCaptureFixture) -> None:
    world = World(RETRIED)
    world.steps.of["work"] = lambda call: fails("E", "transient")
    assert said(world, caplog, 60_000) == [
        "work is tried again in 3.0 s (attempt 2 of 3)",
        "work is tried again in 3.0 s (attempt 3 of 3)",
    ]


def test_a_failure_that_is_not_retried_announces_nothing(caplog: pytest.LogCaptureFixture) -> None:
    world = World(RETRIED)
    world.steps.of["work"] = lambda call: fails("E", "validation")
    assert said(world, caplog, 60_000) == []


def test_the_retry_of_a_compensation_is_announced(caplog: pytest.LogCaptureFixture) -> None:
    world = World(UNDONE)
    world.steps.of["work"] = lambda call: fails("E", "validation")
    world.steps.of["book.compensate"] = lambda call: fails("E", "transient")
    assert said(world, caplog, 300_000) == ["book.compensate is tried again in 90.0 s (attempt 2 of 2)"]
