"""A wait kind is one file: one that only a test knows runs through every part of Stepwell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell.errors import EngineFault, UserError
from stepwell.testing.kit import Stepwell
from tests.testing.gauge_wait import gauge_waits

TANK = """
workflow: tank
timeline:
  - {name: read, wait: {for: gauge, key: "{{ input.tank }}"}}
  - {name: fill, run: python:tank.fill, input: {level: "{{ state.level }}"}}
"""
EITHER = "workflow: either\ntimeline: [{name: read, wait: {any: [{for: gauge, key: t1}, {for: delay, timeout: 1h}]}}]"


@pytest.fixture
def stepwell(tmp_path: Path) -> Iterator[Stepwell]:
    with gauge_waits():
        kit = Stepwell(tmp_path)
        kit.define(TANK)
        kit.define(EITHER)
        yield kit


def read(stepwell: Stepwell, sensor: str, level: int) -> None:
    stepwell.event("GAUGE_READ", {"sensor": sensor, "level": level}, key="t1")


def test_a_new_kind_of_wait_collects_its_parts_and_sets_its_names(stepwell: Stepwell) -> None:
    fill = stepwell.mock("fill", returns="full")
    run = stepwell.start("tank", {"tank": "t1"})
    assert (run.waiting_for, run.phase) == ("gauge", "waiting_for_event")
    for sensor, level in (("a", 10), ("a", 20), ("b", 30), ("c", 60)):
        assert run.status == "waiting"
        read(stepwell, sensor, level)
    assert run.status == "completed"
    assert run.state["read"] == {"mean": 30, "sensors": ["a", "a", "b", "c"]}
    assert fill.calls[0]["level"] == 30
    told = [entry["type"] for entry in run.history]
    assert (told.count("event.awaited"), told.count("part.received"), told.count("event.received")) == (1, 3, 1)


def test_a_new_kind_of_wait_has_a_failure_of_its_own(stepwell: Stepwell) -> None:
    run = stepwell.start("tank", {"tank": "t1"})
    read(stepwell, "a", 10)
    stepwell.event("GAUGE_READ", {"sensor": "b", "broken": True}, key="t1")
    assert run.status == "failed"
    assert run.error is not None
    assert run.error["type"] == "sensor_broken"


def test_a_new_kind_of_wait_times_out_after_the_default_of_its_schema(stepwell: Stepwell) -> None:
    run = stepwell.start("tank", {"tank": "t1"})
    stepwell.advance("59m")
    assert run.status == "waiting"
    stepwell.advance("1m")
    assert run.error is not None
    assert (run.status, run.error["type"]) == ("timed_out", "gauge_timeout")


def test_a_new_kind_of_wait_can_be_one_of_several(stepwell: Stepwell) -> None:
    run = stepwell.start("either")
    for sensor in ("a", "b", "c"):
        read(stepwell, sensor, 6)
    assert run.state["read"]["for"] == "gauge"
    assert run.state["level"] == 6


def test_a_definition_may_use_no_key_that_the_schema_of_the_kind_does_not_have(stepwell: Stepwell) -> None:
    with pytest.raises(UserError) as refused:
        stepwell.define("workflow: w\ntimeline: [{name: read, wait: {for: gauge, heartbeat: 5m}}]")
    assert "`heartbeat` means nothing to a wait for `gauge`" in str(refused.value)


def test_a_record_with_a_kind_that_this_code_does_not_have_is_a_fault_of_its_run_alone(tmp_path: Path) -> None:
    with gauge_waits():
        kit = Stepwell(tmp_path)
        kit.define(TANK)
        run = kit.start("tank", {"tank": "t1"})
    with pytest.raises(EngineFault) as fault:
        _ = run.view
    assert fault.value.code == "unknown_wait"
