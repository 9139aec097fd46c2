"""Months pass in milliseconds: workflows of days are tested as quickly as workflows of seconds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from stepwell import External, Invalid, Transient
from stepwell.runtime.dispatch import dispatch
from stepwell.testing import driver
from stepwell.testing.backend import in_memory
from stepwell.testing.kit import Stepwell
from tests.runtime.kit import CountingStore

MONTHS = """
workflow: months
timeline:
  - {name: begin, run: python:months.begin}
  - {name: nap, sleep: 30UNIT}
  - {name: first, wait: {for: approval, timeout: 30UNIT}}
  - {name: second, wait: {for: approval, timeout: 30UNIT}}
  - {name: third, wait: {for: approval, timeout: 30UNIT}}
  - {name: finish, run: python:months.finish}
"""


def through(folder: Path, unit: str) -> tuple[Counter[str], int]:
    """What a run takes whose times are in this unit: calls of the store, and messages."""
    backend = in_memory()
    store = CountingStore(backend.ports.log)
    ports = replace(backend.ports, log=store, mailbox=store, runs=store, notes=store)
    stepwell = Stepwell(folder, replace(backend, ports=ports))
    stepwell.define(MONTHS.replace("UNIT", unit))
    for name in ("begin", "finish"):
        stepwell.mock(name, returns=1)
    with mock.patch.object(driver, "dispatch", wraps=dispatch) as dispatched:
        run = stepwell.start("months")
        stepwell.advance(f"30{unit}")
        for person in ("ana", "leo", "kim"):
            stepwell.advance(f"29{unit}")
            run.approve(by=person)
        assert run.status == "completed"
    return store.calls, dispatched.call_count


def test_thirty_days_of_sleep_and_three_approvals_take_no_more_work_than_as_many_seconds(tmp_path: Path) -> None:
    calls, messages = through(tmp_path, "s")
    assert through(tmp_path, "d") == (calls, messages)
    assert messages < 15
    assert calls.total() < 100


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


def test_a_wait_for_a_sleep_lasts_up_to_a_year_alone_and_beside_an_event(stepwell: Stepwell) -> None:
    event, sleep = "{for: event, name: paid}", "{for: sleep, timeout: 365d}"
    stepwell.define(
        f"workflow: nap\ntimeline:\n  - {{name: a, wait: {sleep}}}\n  - {{name: b, wait: {{any: [{event}, {sleep}]}}}}"
    )
    run = stepwell.start("nap")
    assert (run.phase, run.waiting_for) == ("sleeping", "sleep")
    stepwell.advance("365d")
    assert run.phase == "waiting_for_event"
    stepwell.advance("365d")
    assert run.result == {"index": 1, "for": "sleep", "name": "sleep", "result": None}


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


def test_an_attempt_that_asks_for_a_later_one_gets_it_then(stepwell: Stepwell) -> None:
    stepwell.define("workflow: w\ntimeline: [{name: a, run: python:m.a, retry: {max_retries: 1}}]")
    busy = stepwell.mock("a", raises=Transient("busy", retry_after=20))
    run = stepwell.start("w")
    stepwell.advance(19.9)
    assert len(busy.calls) == 1
    stepwell.advance(0.1)
    assert (len(busy.calls), run.status) == (2, "failed")


def test_without_a_policy_an_attempt_that_asks_for_a_later_one_is_the_last(stepwell: Stepwell) -> None:
    stepwell.define("workflow: w\ntimeline: [{name: a, run: python:m.a}]")
    stepwell.mock("a", raises=Transient("busy", retry_after=20))
    assert stepwell.start("w").status == "failed"


ONCE_MORE = "retry: {max_retries: 1, backoff: constant, initial_delay: 5s, on: [ON]}"


@pytest.mark.parametrize(
    ("on", "raises", "attempts"),
    [
        ("OSError", FileNotFoundError, 2),
        ("FileNotFoundError", FileNotFoundError, 2),
        ("FileNotFoundError", OSError, 1),
        ("LookupError", KeyError, 2),
        ("Exception", KeyError, 2),
        ("StepError", External, 2),
        ("StepError", Invalid, 1),  # whatever `on` says
        ("object", KeyError, 1),
    ],
)
def test_a_policy_that_names_a_class_takes_its_subclasses(
    stepwell: Stepwell, on: str, raises: type[Exception], attempts: int
) -> None:
    stepwell.define(f"workflow: w\ntimeline: [{{name: a, run: python:m.a, {ONCE_MORE.replace('ON', on)}}}]")
    mock = stepwell.mock("a", raises=raises("no"))
    run = stepwell.start("w")
    stepwell.advance("5s")
    assert (run.status, len(mock.calls)) == ("failed", attempts)
    assert run.error is not None
    assert run.error["type"] == raises.__name__


def test_a_policy_that_names_exception_takes_no_time_out(stepwell: Stepwell) -> None:
    """The type of its error is a code, and no class."""
    stepwell.define(f"workflow: w\ntimeline: [{{name: a, run: python:m.a, {ONCE_MORE.replace('ON', 'Exception')}}}]")
    mock = stepwell.mock("a", times_out=True)
    run = stepwell.start("w")
    stepwell.advance("1h")
    assert (run.status, len(mock.calls)) == ("failed", 1)


def test_a_compensation_is_tried_again_after_an_error_of_a_subclass(stepwell: Stepwell) -> None:
    undo = f"compensate: {{run: python:m.undo, {ONCE_MORE.replace('ON', 'OSError')}}}"
    stepwell.define(f"""
        workflow: w
        failure_policy: compensate
        timeline: [{{name: a, run: python:m.a, {undo}}}, {{name: b, run: python:m.b}}]
    """)
    stepwell.mock("a", returns=1)
    stepwell.mock("b", raises=KeyError("no"))
    undone = stepwell.mock("undo", raises=FileNotFoundError("no"), times=1)
    run = stepwell.start("w")
    assert (run.status, len(undone.calls)) == ("compensating", 1)
    stepwell.mock("undo", returns=1)
    stepwell.advance("5s")
    assert run.status == "compensated"
