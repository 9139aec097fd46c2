"""Lambda steps over a port: the payload, what the function returned or raised, and a machine that has none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stepwell.engine.actions import Outcome
from stepwell.runtime.executor import FunctionSteps
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.steps.calls import Calls
from stepwell.runtime.steps.failures import CallError
from stepwell.runtime.steps.lambdas import Invoked, LambdaSteps
from stepwell.runtime.steps.port import StepCall
from stepwell.runtime.stores.clocks import RealClock
from stepwell.testing.kit import Stepwell


class Functions:
    """An Invoker whose functions all answer the same."""

    def __init__(self, answer: Invoked | CallError) -> None:
        self._answer, self.calls = answer, list[tuple[str, Any, Mapping[str, str]]]()

    def invoke(self, function: str, payload: bytes, told: Mapping[str, str]) -> Invoked:
        self.calls.append((function, json.loads(payload), told))
        if isinstance(self._answer, CallError):
            raise self._answer
        return self._answer

    def send(self, function: str, payload: bytes, told: Mapping[str, str]) -> None:
        self.invoke(function, payload, {"sent": "yes"})


def attempt(functions: Functions | None, given: Any = None, run: str = "lambda:score:live") -> Outcome:
    steps = FunctionSteps(Path(), RealClock(), Calls(lambdas=LambdaSteps(functions)))
    return run_now(steps.run(StepCall(run, given, "r1", "w", "0", "n", 2, "r1:0:4", 5_000, None, dict)))


def test_the_input_is_the_payload_and_the_answer_the_result() -> None:
    functions = Functions(Invoked(b'{"score": 0.5}'))
    assert attempt(functions, {"order": "A-1"}).value == {"score": 0.5}
    told = {"idempotency_key": "r1:0:4", "run_id": "r1", "step": "n", "attempt": "2"}
    assert functions.calls == [("score:live", {"order": "A-1"}, told)]


@pytest.mark.parametrize(
    ("answer", "kind", "category"),
    [
        (Invoked(b'{"errorType": "CardDeclined", "errorMessage": "no"}', failed=True), "CardDeclined", "step"),
        (Invoked(b'{"errorMessage": "2026-11-20 x Task timed out after 3.00 seconds"}', failed=True),
         "lambda_timeout", "timeout"),
        (Invoked(b'{"errorType": "Sandbox.Timedout", "errorMessage": "x"}', failed=True), "lambda_timeout", "timeout"),
        (Invoked(b'{"errorType": ["odd"]}', failed=True), "LambdaError", "step"),
        (Invoked(b"not json", failed=True), "LambdaError", "step"),
        (Invoked(b"not json"), "bad_answer", "step"),
        (Invoked(b"[" * 100_000 + b"]" * 100_000), "bad_answer", "step"),
        (Invoked(b'"' + b"x" * 1_000_000 + b'"'), "answer_too_large", "step"),
        (CallError("TooManyRequestsException", "transient", "slower"), "TooManyRequestsException", "transient"),
    ],
)  # fmt: skip
def test_what_a_function_raised_is_an_error_by_its_type(answer: Invoked | CallError, kind: str, category: str) -> None:
    failure = attempt(Functions(answer)).failure
    assert failure is not None
    assert (failure.type, failure.category, failure.attempts) == (kind, category, 2)


def test_an_input_that_lambda_does_not_take_is_not_sent() -> None:
    functions = Functions(Invoked(b"null"))
    failure = attempt(functions, "x" * 6_000_000).failure
    assert failure is not None
    assert (failure.type, failure.category, functions.calls) == ("payload_too_large", "validation", [])


TASK = "arn:aws:states:::lambda:invoke"


def test_where_there_is_no_lambda_the_step_says_what_can_run_in_its_place() -> None:
    failure = attempt(None).failure
    assert failure is not None
    assert (failure.type, failure.category) == ("lambda_not_here", "step")
    assert (
        'name it in resources.yaml beside the machine, resources: {"score": python:module.function}' in failure.message
    )
    assert "in a test, mock the step" in failure.message
    invoked = attempt(None, {"FunctionName": "score"}, TASK).failure
    assert invoked is not None
    assert f'resources: {{"{TASK}": python:module.function}}' in invoked.message


def test_a_task_names_its_function_and_may_not_wait_for_it() -> None:
    functions = Functions(Invoked(b"[1]"))
    given = {"FunctionName": "score", "Qualifier": "live", "Payload": {"a": 1}}
    answered = attempt(functions, given, TASK).value
    assert answered == {"ExecutedVersion": "$LATEST", "Payload": [1], "StatusCode": 200}
    assert attempt(functions, {**given, "InvocationType": "Event"}, TASK).value == {"Payload": "", "StatusCode": 202}
    assert [(name, payload) for name, payload, _ in functions.calls] == [("score:live", {"a": 1})] * 2
    assert functions.calls[1][2] == {"sent": "yes"}


@pytest.mark.parametrize("given", [{}, {"FunctionName": 3}, {"FunctionName": "f", "InvocationType": "DryRun"}, None])
def test_a_task_that_names_no_function_calls_none(given: Any) -> None:
    functions = Functions(Invoked(b"[1]"))
    failure = attempt(functions, given, TASK).failure
    assert failure is not None
    assert (failure.type, failure.category, functions.calls) == ("bad_parameters", "validation", [])


CALLS = """
workflow: calls
timeline:
  - {name: score, run: "lambda:score:live", input: [1, 2]}
  - {name: tell, run: "http:POST https://api.example.com/{{ run.id }}", input: {score: "{{ result.score }}"}}
"""


def test_a_test_of_a_workflow_mocks_calls_by_their_node_or_their_run_and_makes_none(stepwell: Stepwell) -> None:
    stepwell.define(CALLS)
    score = stepwell.mock("lambda:score:live", returns={"score": 5})
    tell = stepwell.mock("tell", returns={"status": 200}, times=1)
    assert stepwell.start("calls").result == {"status": 200}
    assert (score.calls, tell.calls) == ([[1, 2]], [{"score": 5}])
    error = stepwell.start("calls").error
    assert error is not None
    assert error["type"] == "http_host", "what is not mocked goes nowhere"


UNDONE = """
workflow: undone
failure_policy: compensate
timeline:
  - name: charge
    run: http:POST https://api.example.com/charges
    compensate: {run: "http:DELETE https://api.example.com/charges/{{ steps.charge.output.body.id }}"}
  - {name: ship, run: python:m.ship}
"""


def test_a_call_can_be_undone_by_a_call(stepwell: Stepwell) -> None:
    stepwell.define(UNDONE)
    stepwell.mock("http:POST https://api.example.com/charges", returns={"status": 201, "body": {"id": "a/b"}})
    stepwell.mock("ship", raises=RuntimeError("no"))
    undo = stepwell.mock("http:DELETE https://api.example.com/charges/{{ steps.charge.output.body.id }}")
    assert stepwell.start("undone").status == "compensated"
    assert undo.calls == [None]
