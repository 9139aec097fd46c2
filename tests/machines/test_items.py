"""Errors of a state's own values, above all a Map's items and bounds: their names, and who takes them."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.definition.compiler import compile_document
from stepwell.limits import FORK_WIDTH
from tests.machines.conftest import Begin, Machine, advance, machine
from tests.machines.test_shown_nodes import got, history

ANSWERS: Machine = {"QueryLanguage": "JSONata"}
INNER = machine(B={"Type": "Pass", "End": True})
QUERY, ANY, PATH, RUNTIME = (
    f"States.{name}" for name in ("QueryEvaluationError", "ALL", "ParameterPathFailure", "Runtime")
)
GIVEN = {"n": 1, "list": [1, 2]}
FAILING: list[tuple[str, Machine]] = [
    (QUERY, {**ANSWERS, "Items": "{% $error('none') %}"}),
    (QUERY, {**ANSWERS, "Items": "{% $states.input.n %}"}),
    (QUERY, {**ANSWERS, "Items": [1], "MaxConcurrency": "{% 'two' %}"}),
    (PATH, {"ItemsPath": "$.none"}),
    (PATH, {"ItemsPath": "$.list", "ToleratedFailureCountPath": "$.none"}),
    (RUNTIME, {"ItemsPath": "$.n"}),
    (RUNTIME, {"ItemsPath": "$.list", "MaxConcurrencyPath": "$.list"}),
]


def mapped(taken: str, **fields: Any) -> Machine:
    catch = [{"ErrorEquals": [taken], "Next": "Z"}]
    return machine(
        X={"Type": "Pass", "Next": "A"},
        A={"Type": "Map", "ItemProcessor": INNER, "Catch": catch, "Next": "Y", **fields},
        Y={"Type": "Pass", "End": True},
        Z={"Type": "Pass", "End": True},
    )


@pytest.mark.parametrize(("name", "fields"), FAILING)
def test_a_catch_takes_what_the_items_fail_with_by_its_name(begin: Begin, name: str, fields: Machine) -> None:
    run = begin(mapped(name, **fields), GIVEN)
    assert (run.status, run.result["Error"]) == ("completed", name)


@pytest.mark.parametrize(("name", "fields"), FAILING)
def test_a_wildcard_takes_all_but_what_ends_an_execution_for_sure(begin: Begin, name: str, fields: Machine) -> None:
    run = begin(mapped(ANY, **fields), GIVEN)
    assert run.status == ("failed" if name == RUNTIME else "completed")
    assert got(run, f"/runs/{run.id}?as=asl")["states_entered"] == ["X", "A", "Z"][: 2 if name == RUNTIME else 3]


def test_a_map_without_such_an_error_keeps_its_catch_for_its_items(begin: Begin) -> None:
    run = begin(mapped(ANY, ItemsPath="$.list"), GIVEN)
    assert run.result == [1, 2]
    failing = machine(B={"Type": "Fail", "Error": "Boom", "Cause": "why"})
    run = begin({**mapped("Boom", ItemsPath="$.list", ItemProcessor=failing)}, GIVEN)
    assert run.result == {"Error": "Boom", "Cause": "why"}


def test_a_retry_evaluates_the_items_again_and_its_tries_are_those_of_the_state(begin: Begin) -> None:
    retry = [{"ErrorEquals": [QUERY], "IntervalSeconds": 5, "BackoffRate": 1, "MaxAttempts": 2}]
    late = "{% $states.context.State.RetryCount < 2 ? $error('early') : $states.input.list %}"
    run = begin(mapped(ANY, **ANSWERS, Items=late, Retry=retry), GIVEN)
    advance(run, "5s")
    assert run.status == "waiting"
    assert advance(run, "5s").result == [1, 2]
    run = begin(mapped(ANY, **ANSWERS, Items="{% $error('no') %}", Retry=retry), GIVEN)
    assert advance(run, "10s").result["Error"] == QUERY


@pytest.mark.parametrize("taken", ["fork_too_wide", ANY])
def test_a_catch_takes_that_there_are_more_items_than_a_fork_may_have(begin: Begin, taken: str) -> None:
    """Step Functions has no such error: it has a name of its own, which wildcards take."""
    many = {"list": [0] * (FORK_WIDTH + 1)}
    run = begin(mapped(taken, ItemsPath="$.list"), many)
    assert (run.status, run.result["Error"]) == ("completed", "fork_too_wide")
    assert run.result["Cause"] == "A forks into 10001 branches; at most 10000: fork over batches"


def test_what_nothing_takes_fails_the_run_at_its_map(begin: Begin) -> None:
    run = begin(mapped("Other", ItemsPath="$.list"), {"list": [0] * (FORK_WIDTH + 1)})
    caught = got(run, f"/runs/{run.id}")["error"]
    unguarded = mapped(ANY, ItemsPath="$.list")
    del unguarded["States"]["A"]["Catch"], unguarded["States"]["Z"]
    run = begin(unguarded, {"list": [0] * (FORK_WIDTH + 1)})
    error = got(run, f"/runs/{run.id}")["error"]
    assert (run.status, error["type"], error["step"]) == ("failed", "fork_too_wide", "A")
    assert error["message"] == caught["message"]


def test_batches_may_have_more_items_than_a_fork(begin: Begin) -> None:
    batcher = {"MaxItemsPerBatch": 5_001}
    run = begin(mapped(ANY, ItemsPath="$.list", ItemBatcher=batcher), {"list": [0] * (FORK_WIDTH + 1)})
    assert [len(one["Items"]) for one in run.result] == [5_001, 5_000]


def test_a_map_in_a_map_catches_its_own(begin: Begin) -> None:
    inner = mapped(PATH, ItemsPath="$.none")
    run = begin(machine(O={"Type": "Map", "ItemsPath": "$.list", "ItemProcessor": inner, "End": True}), GIVEN)
    assert [one["Error"] for one in run.result] == [PATH, PATH]


def test_a_history_tells_the_failure_and_the_way_under_the_names_of_the_states(begin: Begin) -> None:
    run = begin(mapped(ANY, ItemsPath="$.none"), GIVEN)
    told = [(one["type"], one["step"], one["data"]["next"]) for one in history(run) if "next" in (one["data"] or {})]
    assert told[1:3] == [("step.failed", "A", "Z"), ("node.passed", "A", "Z")]


def test_a_run_that_nothing_catches_is_redriven_from_its_map(begin: Begin) -> None:
    run = begin(mapped(QUERY, ItemsPath="$.none"), GIVEN)
    error = got(run, f"/runs/{run.id}")["error"]
    assert (run.status, error["type"], error["step"]) == ("failed", "parameter_path_failure", "A")
    again = advance(run.redrive(), "1s")
    assert (again.status, got(again, f"/runs/{again.id}")["error"]) == ("failed", error)


def test_a_picture_draws_the_catch_from_the_map_alone(begin: Begin) -> None:
    run = begin(mapped(ANY, ItemsPath="$.list"), GIVEN)
    edges = {(one["from"], one["to"]) for one in got(run, "/workflows/m")["graph"]["edges"]}
    assert edges == {("X", "B"), ("B", "A"), ("A", "Y"), ("A", "Z"), ("Y", "end"), ("Z", "end")}


def test_a_map_without_catch_or_retry_evaluates_its_items_once_to_fork() -> None:
    written = mapped(ANY)
    assert compile_document({"workflow": "m", **written}).nodes["A.fork"].shaping is not None
    del written["States"]["A"]["Catch"], written["States"]["Z"]
    assert compile_document({"workflow": "m", **written}).nodes["A.fork"].shaping is None


@pytest.mark.parametrize(
    "state",
    [
        {"Type": "Wait", "Seconds": "{% 'soon' %}", "End": True},
        {"Type": "Wait", "Timestamp": "{% $states.input.n %}", "End": True},
        {"Type": "Fail", "Error": "{% $states.input.n %}"},
        {"Type": "Choice", "Choices": [{"Condition": "{% $states.input.n %}", "Next": "Z"}]},
    ],
)
def test_a_value_of_a_wrong_type_is_an_error_of_jsonata_in_other_states_too(begin: Begin, state: Machine) -> None:
    others = {"Z": {"Type": "Succeed"}} if "Choices" in state else {}
    run = begin(machine(A={**ANSWERS, **state}, **others), GIVEN)
    assert got(run, f"/runs/{run.id}?as=asl")["error"] == QUERY
