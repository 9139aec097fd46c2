"""Histories, lists and states have the states of a machine as written, and nothing that its compiler added."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwell.definition.compiler import compile_document
from stepwell.definition.graph import PART
from stepwell.testing.kit import Run
from tests.machines.conftest import Begin, Machine, advance, machine, task

TRIED = [{"ErrorEquals": ["Busy"], "IntervalSeconds": 5, "BackoffRate": 1}]
CAUGHT = [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Nap"}]
EVERY = machine(
    Pick={"Type": "Choice", "Choices": [{"Variable": "$.a", "IsPresent": True, "Next": "Look", "Assign": {"x": 1}}]},
    Look={"Type": "Parallel", "Branches": [machine(B=task("fail", Parameters={"times": 1, "name": "Busy"}))],
          "Retry": TRIED, "ResultPath": "$.look", "Next": "Each"},
    Each={"Type": "Map", "ItemsPath": "$.items", "ItemProcessor": machine(I={"Type": "Pass", "End": True}),
          "ResultPath": "$.each", "Next": "Boom"},
    Boom=task("fail", Parameters={}, Catch=CAUGHT),
    Nap={"Type": "Wait", "Seconds": 60, "End": True},
)  # fmt: skip
GIVEN = {"a": 1, "items": ["x", "y"]}
STATES = {"Pick", "Look", "B", "Each", "I", "Boom", "Nap"}


def got(run: Run, path: str) -> Any:
    with run._kit.client() as client:
        return client._http.get(path).json()


def history(run: Run) -> list[Any]:
    found: list[Any] = got(run, f"/runs/{run.id}/history?limit=500")["items"]
    return found


def test_a_history_names_the_states_as_written(begin: Begin) -> None:
    run = advance(begin(EVERY, GIVEN), "5s")
    entries = history(run)
    assert {one["step"] for one in entries} - {None} == STATES
    told = [(one["type"], one["step"], one["data"].get("next")) for one in entries if "next" in (one["data"] or {})]
    assert ("node.passed", "Pick", "Look") in told
    assert ("node.passed", "Boom", "Nap") in told, "its catcher has made its output"
    assert not {following for _, _, following in told} - STATES - {None}
    forked = [(one["step"], one["data"]["groups"]) for one in entries if one["type"] == "fork.opened"]
    assert forked[-1] == ("Each", [{"node": "I", "count": 2}])


def test_the_end_of_a_branch_has_its_output(begin: Begin) -> None:
    entries = history(advance(begin(EVERY, GIVEN), "5s"))
    outputs = [one["data"]["output"] for one in entries if one["type"] == "branch.completed"]
    assert outputs == [{"tries": 2}, "x", "y"]


def test_a_run_shows_its_variables_and_nothing_that_its_nodes_need(begin: Begin) -> None:
    run = advance(begin(EVERY, GIVEN), "5s")
    assert got(run, f"/runs/{run.id}")["state"] == {"$variables": {"x": 1}}
    shown = [got(run, f"/runs/{run.id}{more}") for more in ("", "/history?limit=500", "/state")]
    assert not any(name in json.dumps(shown) for name in ("$made", "$item", "$retries"))


def test_a_function_sees_no_more_in_its_context(begin: Begin) -> None:
    inner = machine(I=task("state", Parameters={}))
    states = machine(
        P={"Type": "Pass", "Assign": {"x": 1}, "Next": "M"},
        M={"Type": "Map", "ItemsPath": "$.items", "ItemProcessor": inner, "End": True},
    )
    seen = json.dumps(begin(states, {"items": [1]}).result)
    assert "$variables" in seen
    assert not any(name in seen for name in ("$made", "$item", "$retries"))


def test_a_run_that_pauses_before_a_retry_is_at_the_state(begin: Begin) -> None:
    run = begin(EVERY, GIVEN)
    (listed,) = got(run, "/runs?workflow=m")["items"]
    shown = got(run, f"/runs/{run.id}")
    assert (listed["current_steps"], shown["current_steps"]) == (["Look"], ["Look"])
    assert [token["step"] for token in shown["tokens"]] == ["Look"]


def test_a_map_whose_items_wait_lists_the_state_where_they_wait(begin: Begin) -> None:
    inner: Machine = {"Type": "Map", "ItemsPath": "$.b", "ItemProcessor": machine(N={"Type": "Wait", "Seconds": 60,
                      "End": True})}  # fmt: skip
    run = begin(machine(A={**inner, "End": True}), {"b": [1, 2]})
    found = got(run, f"/runs/{run.id}/branches?fork=0/0")["items"]
    assert [(one["current_step"], one["output"]) for one in found] == [("N", 1), ("N", 2)]


def test_each_added_node_is_part_of_a_state_and_its_name_says_so() -> None:
    graph = compile_document({"workflow": "m", "resources": {"fail": "python:work.fail"}, **EVERY})
    added = [node for node in graph.nodes.values() if node.is_made]
    assert len(added) >= 7
    assert all(node.name.startswith(f"{node.part_of}{PART}") for node in added)


@pytest.mark.parametrize("output", [None, {}, [1]])
def test_a_branch_may_come_to_any_output(begin: Begin, output: Any) -> None:
    branch = machine(B={"Type": "Pass", "Result": output, "End": True})
    run = begin(machine(A={"Type": "Parallel", "Branches": [branch], "End": True}), {})
    (ended,) = [one for one in history(run) if one["type"] == "branch.completed"]
    assert ended["data"]["output"] == output
