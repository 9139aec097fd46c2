"""Runs that are undone as the API shows them: while it happens, when all is undone, and when it stops in the middle."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.definition.graph import Json
from stepwell.engine.actions import Outcome
from stepwell.engine.records import Failure
from stepwell.runtime.calls import survey
from tests.api.kit import World

TRIP = """
workflow: trip
failure_policy: compensate
compensate_on: [cancel]
timeline:
  - {name: flight, run: python:m.done, compensate: {run: python:m.unflight}}
  - {name: hotel, run: python:m.done, compensate: {run: python:m.unhotel, retry: {max_retries: 2, initial_delay: 10s}}}
  - {name: ask, wait: {for: approval}}
  - {name: pay, run: python:m.pay}
"""
DAG = """
workflow: dag
steps:
  - {name: account, run: python:m.done, compensate: {run: python:m.unflight}}
  - {name: pay, run: python:m.pay, depends_on: [account], on_failure: compensate}
"""
FORKED = """
workflow: forked
failure_policy: compensate
nodes:
  begin: {transitions: [{to: book, foreach: "{{ input.names }}"}]}
  book: {run: python:m.done, compensate: {run: python:m.unflight}, transitions: [{to: all_in}]}
  all_in: {fan_in: {policy: all}, run: python:m.pay}
"""
LEFT = """
workflow: left
compensate_on: [cancel]
nodes:
  begin: {transitions: [{to: ask, foreach: "{{ [1, 2] }}"}]}
  ask: {wait: {for: approval}, transitions: [{to: one_in}]}
  one_in: {fan_in: {policy: any, on_early_complete: abandon}, transitions: [{to: again}]}
  again: {wait: {for: approval}}
"""


def fails(kind: str = "Broken", category: str = "step") -> Any:
    return lambda call: Outcome(failure=Failure(kind, category, "no luck", call.node, call.attempt))


@pytest.fixture
def world() -> World:
    made = World(TRIP, DAG, FORKED, LEFT)
    for name in ("done", "unflight", "unhotel"):
        made.steps.functions[f"python:m.{name}"] = lambda call: Outcome("ok")
    made.steps.functions["python:m.pay"] = fails()
    return made


def undone(world: World, *names: str) -> None:
    """These compensations fail."""
    for name in names:
        world.steps.functions[f"python:m.{name}"] = fails("Stuck")


def trip(world: World) -> str:
    """A trip whose payment has failed."""
    run_id = world.start("trip")
    assert world.post(f"/runs/{run_id}/approve").status == 200
    world.drain()
    return run_id


def run_of(world: World, run_id: str, **query: str) -> dict[str, Json]:
    shown: dict[str, Json] = world.get(f"/runs/{run_id}", **query).json
    return shown


def test_a_run_that_was_undone_tells_what_and_why(world: World) -> None:
    run = run_of(world, trip(world))
    assert (run["status"], run["outcome"], run["result_type"], run["result"]) == (
        "compensated", "rollback", "rolled_back", None)  # fmt: skip
    assert run["rollback"] == {
        "status": "failed", "reason": "no luck", "not_undone": [], "error": None,
        "undone": [{"step": "hotel", "token": "0", "slot": 1}, {"step": "flight", "token": "0", "slot": 0}],
    }  # fmt: skip
    assert run["result_summary"] == "failed at pay: no luck; rolled back, 2 steps undone"
    assert (run["error"]["type"], run["steps"]["flight"]["status"]) == ("Broken", "compensated")


def test_a_rollback_that_stops_in_the_middle_tells_what_was_not_undone(world: World) -> None:
    undone(world, "unflight")
    run = run_of(world, trip(world))
    assert (run["status"], run["outcome"], run["result_type"]) == ("failed", "partial_rollback", "failure")
    rollback = run["rollback"]
    assert [one["step"] for one in rollback["undone"]] == ["hotel"]
    assert rollback["not_undone"] == [{"step": "flight", "token": "0", "slot": 0}]
    assert (rollback["error"]["type"], run["error"]["type"]) == ("Stuck", "Broken")
    assert run["result_summary"] == (
        "failed at pay: no luck; rolled back in part, 1 step undone, then the compensation of flight failed: no luck"
    )
    states = world.get(f"/runs/{run['run_id']}/graph", format="json").json["states"]
    assert (states["flight"], states["hotel"], states["pay"]) == ("failed", "compensated", "failed")
    assert "not undone" in world.get(f"/runs/{run['run_id']}/graph", format="mermaid").text


def test_while_a_run_is_undone_it_waits_for_nothing_and_is_at_what_comes_next(world: World) -> None:
    world.steps.functions["python:m.unhotel"] = fails("Busy", "transient")
    run = run_of(world, trip(world))
    assert (run["status"], run["phase"], run["outcome"], run["current_steps"]) == (
        "compensating", "compensating", None, ["hotel"])  # fmt: skip
    assert (run["waiting_for"], run["waiting_until"], run["ended_at"]) == (None, None, None)
    assert ([one["step"] for one in run["rollback"]["not_undone"]], run["rollback"]["undone"]) == (
        ["hotel", "flight"],
        [],
    )


def test_when_a_compensation_is_tried_again_is_explained(world: World) -> None:
    world.steps.functions["python:m.unhotel"] = fails("Busy", "transient")
    run_id = trip(world)
    told = world.get(f"/runs/{run_id}/explain").json
    assert told["why"] == (
        f"It is being undone (failed at pay: no luck): 0 of 2 done. Attempt 2 of the compensation of hotel is due at "
        f"{told['next_retry_at']} after Busy: no luck.")  # fmt: skip
    assert [waker["what"] for waker in told["wakers"]] == ["timer"]
    assert told["last_entry"]["type"] == "compensation.retry_scheduled"


def test_who_cancelled_a_run_is_told_while_it_is_undone_and_after(world: World) -> None:
    run_id = world.start("trip")
    world.post(f"/runs/{run_id}/cancel", {"reason": "too late", "by": "ana"})
    run = run_of(world, run_id)
    assert (run["status"], run["cancelled_by"], run["cancel_reason"]) == ("compensating", "ana", "too late")
    assert world.get(f"/runs/{run_id}/explain").json["why"] == (
        "It is being undone (cancelled by ana: too late): 0 of 2 done. Next is the compensation of hotel."
    )
    refused = world.post(f"/runs/{run_id}/cancel", {})
    assert (refused.status, refused.json["code"]) == (409, "compensating")
    world.drain()
    run = run_of(world, run_id)
    assert (run["status"], run["cancelled_by"], run["error"]) == ("compensated", "ana", None)
    assert (run["rollback"]["status"], run["rollback"]["reason"]) == ("cancelled", "too late")
    assert run["result_summary"] == "cancelled by ana: too late; rolled back, 2 steps undone"


def test_a_rollback_that_was_terminated_is_partial(world: World) -> None:
    world.steps.functions["python:m.unhotel"] = fails("Busy", "transient")
    run_id = trip(world)
    world.post(f"/runs/{run_id}/terminate", {"reason": "enough"})
    run = run_of(world, run_id)
    assert (run["status"], run["outcome"], run["error"]["type"]) == ("failed", "partial_rollback", "terminated")
    assert [one["step"] for one in run["rollback"]["not_undone"]] == ["hotel", "flight"]
    assert run["result_summary"] == (
        "failed at pay: no luck; rolled back in part, 0 steps undone when it was terminated: enough"
    )


def test_a_step_of_a_dag_that_was_undone_is_compensated(world: World) -> None:
    run = run_of(world, world.start("dag"))
    assert {name: step["status"] for name, step in run["steps"].items()} == {"account": "compensated", "pay": "failed"}
    assert (run["status"], run["rollback"]["undone"]) == (
        "compensated", [{"step": "account", "token": "0/0.0", "slot": 0}])  # fmt: skip


def test_what_branches_did_is_told_by_branch(world: World) -> None:
    undone(world, "unflight")
    rollback = run_of(world, world.start("forked", input={"names": ["a", "b"]}))["rollback"]
    assert ([one["token"] for one in rollback["not_undone"]], rollback["undone"]) == (["0/0.1", "0/0.0"], [])


def test_the_steps_of_a_branch_that_were_undone_are_compensated(world: World) -> None:
    run_id = world.start("forked", input={"names": ["a", "b"]})
    branches = world.get(f"/runs/{run_id}/branches", fork="0/0").json["items"]
    assert [branch["steps"]["book"]["status"] for branch in branches] == ["compensated", "compensated"]
    states = world.get(f"/runs/{run_id}/graph", format="json").json["states"]
    assert (states["book"], states["all_in"]) == ("compensated", "failed")


def test_to_look_at_a_rollback_ends_no_branch_that_still_runs(world: World) -> None:
    run_id = world.start("left")
    world.post(f"/runs/{run_id}/approve", {"wait": "0/0.0"})
    world.drain()
    world.post(f"/runs/{run_id}/cancel", {})
    assert run_of(world, run_id)["status"] == "compensating"
    statuses = [one["status"] for one in world.get(f"/runs/{run_id}/branches", fork="0/0").json["items"]]
    assert statuses == ["completed", "waiting"]
    world.drain()
    statuses = [one["status"] for one in world.get(f"/runs/{run_id}/branches", fork="0/0").json["items"]]
    assert statuses == ["completed", "cancelled"]


def test_a_rollback_over_more_pages_than_a_look_may_read_does_not_say_what_is_left(world: World) -> None:
    undone(world, "unflight")
    run = run_of(world, world.start("forked", input={"names": [*range(1001)]}))
    assert (run["outcome"], run["rollback"]["not_undone"], run["rollback"]["undone"]) == ("partial_rollback", None, [])


@pytest.mark.parametrize(("words", "at_work", "whole", "partial", "outcome"), [
    ("timeline", "executing_step", "failed", "failed", "partial_rollback"),
    ("agent", "RUNNING", "FAILED", "FAILED", "partial_rollback"),
    ("session", "Running", "Failed", "Failed", "partial_rollback"),
    ("dag", "compensating", "completed", "failed", "partial"),
])  # fmt: skip
def test_a_rollback_in_each_vocabulary(
    world: World, words: str, at_work: str, whole: str, partial: str, outcome: str
) -> None:
    done = run_of(world, trip(world), **{"as": words})
    assert (done["status"], done["outcome"]) == (whole, "rollback")
    undone(world, "unflight")
    failed = run_of(world, trip(world), **{"as": words})
    assert (failed["status"], failed["outcome"]) == (partial, outcome)
    world.steps.functions["python:m.unhotel"] = fails("Busy", "transient")
    assert run_of(world, trip(world), **{"as": words})["status"] == at_work


def test_what_was_undone_is_drawn_in_a_colour_of_its_own(world: World) -> None:
    run_id = trip(world)
    graph = world.get(f"/runs/{run_id}/graph", format="json").json
    assert graph["states"] == {"flight": "compensated", "hotel": "compensated", "ask": "completed", "pay": "failed"}
    assert graph["nodes"][0]["compensate"] == "python:m.unflight"
    assert "↺ compensated" in world.get(f"/runs/{run_id}/graph").text
    assert "classDef compensated" in world.get(f"/runs/{run_id}/graph", format="mermaid").text


@pytest.mark.parametrize("width", [3, 150])
def test_a_step_whose_branches_were_undone_is_compensated(world: World, width: int) -> None:
    run_id = world.start("forked", input={"names": [*range(width)]})
    run = world.get(f"/runs/{run_id}").json
    assert run["status"] == "compensated"
    assert run["steps"]["book"]["status"] == "compensated"
    assert run["steps"]["book"]["branches"] == {"total": width, "compensated": width}


def test_the_undone_branches_of_a_fork_that_is_only_counted_are_compensated_too(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "SURVEY_WIDTH", 1)
    monkeypatch.setattr(survey, "HISTORY_BRANCHES", 1)
    run_id = world.start("forked", input={"names": [*range(3)]})
    run = world.get(f"/runs/{run_id}").json
    assert run["steps"]["book"]["branches"] == {"total": 3, "compensated": 3}
    assert world.get(f"/runs/{run_id}/graph", format="json").json["taken"]["book.transitions[0]"] == 3
