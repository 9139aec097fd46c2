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


TIMED_OUT = "work is not tried again after a time-out: `on` of its retry policy lacks `timeout`; "


def test_a_time_out_that_the_policy_leaves_out_is_told_with_what_to_write(caplog: pytest.LogCaptureFixture) -> None:
    world = World(RETRIED)
    world.steps.of["work"] = lambda call: fails("step_timeout", "timeout")
    said_of_it = 'write on: [timeout], or on=["timeout"] in Python, if it may run twice'
    assert said(world, caplog, 60_000) == [TIMED_OUT + said_of_it]


def test_what_the_policy_names_already_is_kept_in_the_advice(caplog: pytest.LogCaptureFixture) -> None:
    world = World(RETRIED.replace("max_retries: 2", "max_retries: 2, on: [Declined]"))
    world.steps.of["work"] = lambda call: fails("step_timeout", "timeout")
    (told,) = said(world, caplog, 60_000)
    assert 'on: [Declined, timeout], or on=["Declined", "timeout"]' in told


@pytest.mark.parametrize(
    "retry",
    [", retry: {max_retries: 1, backoff: constant, initial_delay: 3s, on: [timeout]}", ", retry: {max_retries: 0}", ""],
)
def test_a_time_out_without_attempts_left_or_without_a_policy_is_told_nothing(
    retry: str, caplog: pytest.LogCaptureFixture
) -> None:
    written = ", retry: {max_retries: 2, backoff: constant, initial_delay: 3s}"
    world = World(RETRIED.replace(written, retry))
    world.steps.of["work"] = lambda call: fails("step_timeout", "timeout")
    assert not [line for line in said(world, caplog, 60_000) if "not tried again" in line]
