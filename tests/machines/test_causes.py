"""The Cause of a function's error is JSON, as machines parse it; that of any other error is text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from stepwell.runtime.steps.calls import Calls
from stepwell.runtime.steps.failures import MESSAGE_CHARACTERS, CallError
from stepwell.runtime.steps.lambdas import Invoked, LambdaSteps
from stepwell.testing.kit import Run
from tests.machines.conftest import Begin, Machine, advance, machine, task

ARN = "arn:aws:lambda:eu-west-1:123456789012:function:"
INVOKE = "arn:aws:states:::lambda:invoke"
CATCH = {"Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Z"}]}
PARSED: Machine = {"Type": "Pass", "End": True,
                   "Parameters": {"e.$": "$.error.Error", "c.$": "States.StringToJson($.error.Cause)"}}  # fmt: skip
PLAIN: Machine = {"Type": "Succeed", "OutputPath": "$.error"}
DECLINED = {"errorMessage": "no CardDeclined", "errorType": "CardDeclined", "stackTrace": []}
SLOW = b'{"errorType": "Sandbox.Timedout", "errorMessage": "Error: Task timed out after 3.00 seconds"}'


class Functions:
    """Lambda functions, each of which fails as its name says."""

    def invoke(self, function: str, payload: bytes, told: Mapping[str, str]) -> Invoked:
        match function.removeprefix(ARN):
            case "throws":
                return Invoked(b'{"errorType": "Busy", "errorMessage": "later", "stackTrace": ["x"]}', failed=True)
            case "slow":
                return Invoked(SLOW, failed=True)
            case "denied":
                return Invoked(b'{"errorType": "AccessDeniedException", "errorMessage": "by S3"}', failed=True)
            case "odd":
                return Invoked(b"no JSON")
            case name:
                raise CallError("AccessDeniedException", "step", f"{name} was not called: no",
                                {"status": 403, "code": "AccessDeniedException"})  # fmt: skip

    def send(self, function: str, payload: bytes, told: Mapping[str, str]) -> None:
        raise NotImplementedError


@pytest.fixture
def calls() -> Calls:
    return Calls(lambdas=LambdaSteps(Functions()))


def caught(begin: Begin, state: Machine, then: Machine = PARSED, **others: Machine) -> Any:
    run: Run = begin(machine(A={**state, **CATCH}, Z=then), {"items": [{}]}, **others)
    return run.result


FAILS = task("fail")
PARALLEL: Machine = {"Type": "Parallel", "Branches": [machine(B=FAILS)], "End": True}
MAP: Machine = {"Type": "Map", "ItemsPath": "$.items", "ItemProcessor": machine(B=FAILS), "End": True}
CHILD = task("arn:aws:states:::states:startExecution.sync",
             Parameters={"StateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:child"})  # fmt: skip


@pytest.mark.parametrize("state", [FAILS, PARALLEL, MAP])
def test_the_cause_of_a_functions_error_is_json(begin: Begin, state: Machine) -> None:
    assert caught(begin, state) == {"e": "CardDeclined", "c": DECLINED}


@pytest.mark.parametrize(
    ("state", "error", "cause"),
    [
        (task(f"{ARN}throws"), "Busy", {"errorMessage": "later", "errorType": "Busy", "stackTrace": []}),
        (task(INVOKE, Parameters={"FunctionName.$": "States.Format('throws')"}), "Busy",
         {"errorMessage": "later", "errorType": "Busy", "stackTrace": []}),
        (task(f"{ARN}slow"), "Sandbox.Timedout", {**json.loads(SLOW), "stackTrace": []}),
    ],
)  # fmt: skip
def test_the_cause_of_a_lambda_functions_error_is_json(
    begin: Begin, state: Machine, error: str, cause: Machine
) -> None:
    assert caught(begin, state) == {"e": error, "c": cause}


@pytest.mark.parametrize(
    ("state", "error", "cause"),
    [
        (task(f"{ARN}secret"), "Lambda.AccessDeniedException", "secret was not called: no"),
        (task(f"{ARN}odd"), "bad_answer", f"what {ARN}odd returned is not JSON"),
    ],
)
def test_the_cause_of_another_error_of_a_task_is_text(begin: Begin, state: Machine, error: str, cause: str) -> None:
    found = caught(begin, state, PLAIN)
    assert found["Error"] == error
    assert cause in found["Cause"]
    assert not found["Cause"].startswith("{")


@pytest.mark.parametrize("name", ["Lambda.AccessDeniedException", "Lambda.AWSLambdaException"])
def test_a_refusal_by_lambda_is_caught_by_its_name_and_a_functions_error_of_that_class_is_not(
    begin: Begin, name: str
) -> None:
    catch = {"Catch": [{"ErrorEquals": [name], "Next": "Z"}]}
    states = {"Z": {"Type": "Pass", "Result": "caught", "End": True}}
    assert begin(machine(A={**task(f"{ARN}secret"), **catch}, **states), {}).result == "caught"
    assert begin(machine(A={**task(f"{ARN}denied"), **catch}, **states), {}).status == "failed"


def test_a_refusal_by_lambda_is_retried_by_its_name(begin: Begin) -> None:
    tried = [{"ErrorEquals": ["Lambda.AccessDeniedException"], "IntervalSeconds": 1, "MaxAttempts": 1}]
    run = begin(machine(A=task(f"{ARN}secret", Retry=tried)), {})
    assert (run.status, advance(run, "2s").status, run.steps["A"].attempts) == ("running", "failed", 2)


@pytest.mark.parametrize("name", ["States.ALL", "States.TaskFailed", "States.Runtime"])
def test_an_input_that_does_not_fit_a_function_is_caught_as_what_its_handler_would_raise(
    begin: Begin, name: str
) -> None:
    """Only `States.Runtime` took it, as which an earlier release named it."""
    catch = {"Catch": [{"ErrorEquals": [name], "Next": "Z"}]}
    caught = begin(machine(A={**task("plus"), **catch}, Z={"Type": "Pass", "End": True}), {"numbr": 1}).result
    assert isinstance(caught, dict)
    assert (caught["Error"], "number is missing" in caught["Cause"]) == ("States.TaskFailed", True)


def test_a_run_that_a_function_fails_has_the_cause_as_json(begin: Begin) -> None:
    run = begin(machine(A=FAILS), {})
    with run._kit.client() as client:
        told = client._http.get(f"/runs/{run.id}?as=asl").json()
    assert json.loads(told["cause"]) == DECLINED
    assert run.error is not None
    assert (run.error["message"], run.error["type"]) == ("no CardDeclined", "CardDeclined")


@pytest.mark.parametrize("state", [CHILD, {**PARALLEL, "Branches": [machine(C=CHILD)]}])
def test_the_cause_of_a_child_has_that_of_its_function(begin: Begin, state: Machine) -> None:
    cause = caught(begin, state, child=machine(B=FAILS))["c"]
    assert (cause["Error"], json.loads(cause["Cause"])) == ("CardDeclined", DECLINED)


def test_a_long_message_leaves_json_that_can_be_parsed(begin: Begin) -> None:
    state = task("loud", Parameters={"characters": 100_000})
    assert len(caught(begin, state)["c"]["errorMessage"]) == MESSAGE_CHARACTERS
