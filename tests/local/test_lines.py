"""The dev server's lines: of the changes of runs that a developer waits for, each once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from stepwell.engine.records import Status
from stepwell.local.lines import RunLines
from stepwell.runtime.calls.service import Service
from stepwell.runtime.ports.headers import Header
from tests.api.kit import World

RUNNING = Header("run_1", "order", "v1", None, 1_000, Status.RUNNING)

TRIP = """
workflow: trip
compensate_on: [cancel]
timeline:
  - {name: book, run: "python:shop.charge", timeout: 10s, compensate: {run: "python:shop.ship"}}
  - {name: nap, sleep: 1d}
"""


def waiting(what: str, since_ms: int) -> Header:
    return replace(
        RUNNING, status=Status.WAITING, waiting_for=what, waiting_node="pay", waiting_since_ms=since_ms,
        waiting_until_ms=None,
    )  # fmt: skip


def lines(caplog: pytest.LogCaptureFixture, *headers: Header) -> list[str]:
    """The lines of these states of a run, which runs between them."""
    caplog.set_level("INFO", "stepwell.runs")
    told = RunLines(cast("Service", cast("Any", None)))
    for header in headers:
        told(RUNNING, header)
    return caplog.messages


def test_a_wait_for_code_is_told_once_where_the_last_deploy_ends_it_at_once(caplog: pytest.LogCaptureFixture) -> None:
    again = lines(caplog, waiting("code", 5_000), waiting("code", 5_020), waiting("code", 65_000))
    assert again == ["run_1 order: waits at pay for code"] * 2


def test_a_wait_for_a_permit_has_no_end_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    """Its time is that of the run, weeks away; the permit comes in a second."""
    (told,) = lines(caplog, replace(waiting("limit", 5_000), waiting_until_ms=2_592_000_000))
    assert told == "run_1 order: waits at pay for limit"


def test_a_sleep_without_a_name_is_told_without_a_place(caplog: pytest.LogCaptureFixture) -> None:
    (told,) = lines(caplog, replace(waiting("sleep", 5_000), waiting_node="sleep"))
    assert told == "run_1 order: waits for sleep"


def test_a_function_that_waits_until_something_holds_is_told_so(caplog: pytest.LogCaptureFixture) -> None:
    (told,) = lines(caplog, replace(waiting("tasks", 5_000), waiting_node="tasks"))
    assert told == "run_1 order: waits for a condition"


def test_the_branches_of_a_throttled_fork_tell_once_that_they_wait_for_permits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each branch takes a permit of its own: a line for each would hide what else happens."""
    later = replace(waiting("limit", 9_000), waiting_node="ship")
    told = lines(caplog, *(waiting("limit", 5_000 + n) for n in range(40)), later)
    assert told == ["run_1 order: waits at pay for limit", "run_1 order: waits at ship for limit"]


def test_each_other_wait_is_told(caplog: pytest.LogCaptureFixture) -> None:
    assert len(lines(caplog, waiting("event", 5_000), waiting("event", 5_020))) == 2


@pytest.mark.parametrize(("body", "why"), [({"reason": "they left"}, ": they left"), ({}, "")])
def test_a_cancelled_run_that_undoes_its_steps_has_not_failed(
    body: dict[str, str], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(TRIP)
    run_id = world.start("trip")
    assert world.post(f"/runs/{run_id}/cancel", body).json["status"] == "compensating"
    caplog.set_level("INFO", "stepwell.runs")
    begins = replace(RUNNING, run_id=run_id, workflow="trip", status=Status.COMPENSATING)
    RunLines(world.parts.service)(replace(begins, status=Status.WAITING), begins)
    assert caplog.messages[-1].endswith(f" trip: cancelled, and takes its steps back{why}")
