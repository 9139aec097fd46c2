"""What is redriven and forked in memory is so over SQLite and AWS; there the ledger agrees with what AWS counted."""

from __future__ import annotations

from pathlib import Path

from stepwell.testing.kit import Stepwell
from tests.engine.golden_logs import WORKFLOWS
from tests.scenarios.conftest import stepwell

__all__ = ["stepwell"]  # the fixture
FOLDER: Path = WORKFLOWS
FLOW = """
workflow: flow
nodes:
  begin: {run: python:golden.note, transitions: [{to: pick, foreach: "{{ input.items }}", max_concurrency: 20}]}
  pick: {run: python:golden.note, transitions: [{to: pack}]}
  pack: {run: python:golden.note, transitions: [{to: join}]}
  join: {fan_in: {merge: append}, transitions: [{to: ship}]}
  ship: {run: python:golden.note}
"""
DAG = """
workflow: flow
steps:
  - {name: a, run: python:golden.note}
  - {name: b, run: python:golden.note, depends_on: [a]}
  - {name: c, run: python:golden.note, depends_on: [a]}
  - {name: d, run: python:golden.note, depends_on: [b, c]}
"""


def test_a_fork_goes_on_with_what_is_left(stepwell: Stepwell) -> None:
    stepwell.define(FLOW)
    begun, picked = stepwell.mock("begin", returns={}), stepwell.mock("pick", returns={})
    packed = stepwell.mock("pack", raises=ValueError("torn"), times=1)
    stepwell.mock("ship", returns="shipped")
    run = stepwell.start("flow", {"items": list(range(60))})
    assert run.status == "failed"
    again = run.redrive()
    assert (again.status, again.result) == ("completed", "shipped")
    assert (len(begun.calls), len(picked.calls)) == (1, 60)
    assert len(packed.calls) == 1
    assert len(again.state["join"]) == 60


def test_a_dag_goes_on_with_what_is_left(stepwell: Stepwell) -> None:
    stepwell.define(DAG)
    mocks = [stepwell.mock(name, returns=name) for name in "abd"]
    stepwell.mock("c", raises=ValueError("torn"), times=1)
    run = stepwell.start("flow", {})
    assert run.status == "failed"
    again = run.redrive()
    assert again.status == "completed"
    assert [len(mock.calls) for mock in mocks] == [1, 1, 1]
    assert {name: step.status for name, step in again.steps.items()} == dict.fromkeys("abcd", "completed")


def test_a_run_is_forked_behind_its_join(stepwell: Stepwell) -> None:
    stepwell.define(FLOW)
    mocks = [stepwell.mock(name, returns={}) for name in ("begin", "pick", "pack")]
    shipped = stepwell.mock("ship", returns="shipped")
    run = stepwell.start("flow", {"items": [1, 2, 3]})
    again = run.fork(3, state={"address": "Rome"}, result="lost")
    assert (again.status, again.result, again.state["address"]) == ("completed", "lost", "Rome")
    assert ([len(mock.calls) for mock in mocks], len(shipped.calls)) == ([1, 3, 3], 1)
