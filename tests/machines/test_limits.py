"""Numbers of a state that are computed: time limits, and the bounds of a Map."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.testing.kit import Run
from tests.machines.conftest import Begin, Machine, advance, machine, task
from tests.machines.test_task_tokens import INVOKE, PAYLOAD

OF_ANSWERS: Machine = {"QueryLanguage": "JSONata"}
CAUGHT = [{"ErrorEquals": ["States.Timeout"], "Next": "Z"}]
LATE: Machine = {"Type": "Pass", "Result": "late", "End": True}


def limited(name: str, **fields: Any) -> list[Machine]:
    """The field by its path, and as an expression."""
    return [{**fields, f"{name}Path": "$.n"}, {**fields, **OF_ANSWERS, name: "{% $states.input.n %}"}]


@pytest.mark.parametrize("name", ["TimeoutSeconds", "HeartbeatSeconds"])
@pytest.mark.parametrize("is_path", [True, False])
def test_a_wait_for_a_token_ends_when_its_computed_limit_says(begin: Begin, name: str, is_path: bool) -> None:
    given: Machine = {"FunctionName": "echo", "Payload": {}}
    by_path, by_answer = limited(name, Resource=INVOKE, Type="Task", End=True)
    ask = {**by_path, "Parameters": PAYLOAD} if is_path else {**by_answer, "Arguments": given}
    run = begin(machine(A={**ask, "Catch": CAUGHT}, Z=LATE), {"id": "o", "n": 30})
    advance(run, "29s")
    assert run.status == "waiting"
    advance(run, "2s")
    assert run.result == "late"


@pytest.mark.parametrize("fields", limited("TimeoutSeconds"))
def test_a_task_is_given_the_time_that_is_computed(begin: Begin, fields: Machine) -> None:
    run = begin(machine(A=task("echo", Catch=CAUGHT, **fields), Z=LATE), {"n": 7})
    mock = run._kit.mock("A", returns="done", takes="6s")
    run._kit.settle()
    assert (run.result, len(mock.calls)) == ("done", 1)
    again = run._kit.start("m", {"n": 5})
    assert again.result == "late"


@pytest.mark.parametrize("seconds", [0, -1, "7", None, True])
def test_a_limit_that_is_no_number_of_seconds_fails_the_task(begin: Begin, seconds: Any) -> None:
    catch = [{"ErrorEquals": ["States.Runtime"], "Next": "Z"}]
    run = begin(machine(A=task("echo", TimeoutSecondsPath="$.n", Catch=catch), Z=LATE), {"n": seconds})
    assert run.result == "late"


@pytest.mark.parametrize("fields", limited("TimeoutSeconds"))
def test_a_child_machine_has_the_time_that_is_computed(begin: Begin, fields: Machine) -> None:
    given = {"StateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:child"}
    payload = {"Arguments": given} if "QueryLanguage" in fields else {"Parameters": given}
    start = task("arn:aws:states:::states:startExecution.sync:2", Catch=CAUGHT, **payload, **fields)
    child = machine(W={"Type": "Wait", "Seconds": 60, "End": True})
    run = begin(machine(A=start, Z=LATE), {"n": 30}, child=child)
    advance(run, "31s")
    assert run.result == "late"


def of_items(**fields: Any) -> Machine:
    inner = task("plus") if "QueryLanguage" not in fields else task("plus", QueryLanguage="JSONPath")
    key = "Items" if "QueryLanguage" in fields else "ItemsPath"
    items = "{% $states.input.items %}" if key == "Items" else "$.items"
    return {"Type": "Map", key: items, "ItemProcessor": machine(B=inner), "End": True, **fields}


@pytest.mark.parametrize("fields", limited("MaxConcurrency"))
def test_a_map_runs_as_many_items_at_once_as_is_computed(begin: Begin, fields: Machine) -> None:
    run = begin(machine(A=of_items(**fields)), {"items": [1, 2, 3, 4], "n": 2})
    started = run._kit.now
    run._kit.mock("B", returns=0, takes="10s")
    run._kit.settle()
    assert run.result == [0, 0, 0, 0]
    assert (run._kit.now - started).total_seconds() == 20


@pytest.mark.parametrize("fields", [*limited("ToleratedFailureCount"), *limited("ToleratedFailurePercentage")])
@pytest.mark.parametrize(("most", "status"), [(50, "completed"), (1, "failed")])
def test_a_map_tolerates_as_many_failures_as_is_computed(begin: Begin, fields: Machine, most: int, status: str) -> None:
    run = begin(machine(A=of_items(**fields)), {"items": [1, "x", "y", 4], "n": most})
    assert run.status == status


def test_a_bound_that_is_written_holds_beside_one_that_is_computed(begin: Begin) -> None:
    states = machine(A=of_items(ToleratedFailureCount=2, MaxConcurrencyPath="$.n"))
    assert begin(states, {"items": [1, "x", "y", 4], "n": 1}).status == "completed"


@pytest.mark.parametrize(
    ("batcher", "sizes"),
    [
        ({"MaxItemsPerBatchPath": "$.n"}, [2, 2, 1]),
        ({"MaxItemsPerBatch": "{% $states.input.n %}"}, [2, 2, 1]),
        ({"MaxInputBytesPerBatch": 12}, [3, 2]),  # of texts of four bytes
        ({"MaxInputBytesPerBatchPath": "$.n"}, [1, 1, 1, 1, 1]),
        ({"MaxInputBytesPerBatch": 100, "MaxItemsPerBatch": 4}, [4, 1]),
    ],
)
def test_batches_are_as_large_as_is_computed(begin: Begin, batcher: Machine, sizes: list[int]) -> None:
    more = OF_ANSWERS if "{%" in str(batcher) else {}
    states = {**of_items(**more, ItemBatcher=batcher), "ItemProcessor": machine(B={"Type": "Succeed"})}
    run = begin(machine(A=states), {"items": ["aa", "bb", "cc", "dd", "ee"], "n": 2})
    assert [len(one["Items"]) for one in run.result] == sizes


def told(run: Run) -> str:
    return str(run.error and run.error["message"])


def test_a_bound_that_is_no_number_fails_the_run_and_says_why(begin: Begin) -> None:
    run = begin(machine(A=of_items(MaxConcurrencyPath="$.n")), {"items": [1], "n": "many"})
    assert run.status == "failed"
    assert "the MaxConcurrency of A is 'many', not a number" in told(run)
