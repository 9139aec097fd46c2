"""Months pass in milliseconds: workflows of days are tested as quickly as workflows of seconds."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest

from stepwell.testing.kit import Stepwell

MONTHS = """
workflow: months
timeline:
  - {name: begin, run: python:months.begin}
  - {name: nap, sleep: 30d}
  - {name: first, wait: {for: approval, timeout: 30d}}
  - {name: second, wait: {for: approval, timeout: 30d}}
  - {name: third, wait: {for: approval, timeout: 30d}}
  - {name: finish, run: python:months.finish}
"""


def through(stepwell: Stepwell) -> float:
    began = process_time()
    run = stepwell.start("months")
    stepwell.advance("30d")
    for person in ("ana", "leo", "kim"):
        stepwell.advance("29d")
        run.approve(by=person)
    assert run.status == "completed"
    return process_time() - began


def test_thirty_days_of_sleep_and_three_approvals_take_less_than_fifty_milliseconds(stepwell: Stepwell) -> None:
    stepwell.define(MONTHS)
    for name in ("begin", "finish"):
        stepwell.mock(name, returns=1)
    assert min(through(stepwell) for _ in range(3)) < 0.050  # of this process: others may be at work beside it


@pytest.mark.parametrize(("nap", "wakes"), [("1s", 1), ("15m", 1), ("16m", 1), ("30d", 1), ("364d", 1)])
def test_a_sleep_is_exact_however_long_it_is(stepwell: Stepwell, nap: str, wakes: int) -> None:
    stepwell.define(f"workflow: nap\ntimeline: [{{name: nap, sleep: {nap}}}]")
    run = stepwell.start("nap")
    assert run.phase == "sleeping"
    until = run.view["waiting_until"]
    stepwell.advance(nap)
    assert run.status == "completed"
    assert run.view["ended_at"] == until
    assert sum(entry["type"] == "timer.fired" for entry in run.history) == wakes


def test_nothing_wakes_before_its_time(stepwell: Stepwell) -> None:
    stepwell.define("workflow: nap\ntimeline: [{name: nap, sleep: 30d}]")
    run = stepwell.start("nap")
    stepwell.advance(30 * 86_400 - 0.001)
    assert run.status == "waiting"
    stepwell.advance(0.001)
    assert run.status == "completed"


def test_of_two_deadlines_the_earlier_one_counts(stepwell: Stepwell) -> None:
    stepwell.define("workflow: w\ntimeout: 2h\ntimeline: [{name: hold, wait: {for: approval, timeout: 3h}}]")
    run = stepwell.start("w")
    stepwell.advance("2h")
    assert run.error is not None
    assert (run.status, run.error["type"]) == ("timed_out", "workflow_timeout")


def test_a_wait_that_comes_due_at_the_moment_of_its_event_has_one_outcome(stepwell: Stepwell) -> None:
    stepwell.define("workflow: w\ntimeline: [{name: hold, wait: {for: event, name: paid, timeout: 1h}}]")
    run = stepwell.start("w")
    stepwell.settle()
    stepwell.event("paid", {"n": 1})
    stepwell.advance("1h")
    ended: list[Any] = [entry for entry in run.history if entry["type"] in {"timer.fired", "event.received"}]
    assert len(ended) == 1
    assert run.status == "completed"


def test_retries_take_the_time_of_their_backoff(stepwell: Stepwell) -> None:
    stepwell.define(
        "workflow: w\ntimeline: [{name: a, run: python:m.a, "
        "retry: {max_retries: 2, backoff: linear, initial_delay: 5s, on: [step]}}]"
    )
    stepwell.mock("a", raises=ValueError)
    run = stepwell.start("w")
    attempts = []
    for _ in range(4):
        attempts.append(run.steps["a"].attempts)
        stepwell.advance("5s")
    assert attempts == [1, 2, 2, 3]
    assert run.status == "failed"
