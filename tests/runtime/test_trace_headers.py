"""The trace context reaches whom a step calls: as a header of HTTP steps, in the client context of Lambda's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepwell.definition.targets import parse_url
from stepwell.runtime.steps.http_step import _Secrets, _sending
from stepwell.runtime.steps.lambdas import Invoked, LambdaSteps
from stepwell.runtime.steps.port import StepCall
from stepwell.runtime.steps.secrets import EnvironmentSecrets

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def called(**changes: Any) -> StepCall:
    values: dict[str, Any] = {
        "run": "lambda:score", "input": {}, "run_id": "r1", "workflow": "w", "token": "0", "node": "n", "attempt": 1,
        "key": "k", "timeout_ms": 5_000, "resumed": None, "read_state": dict, "trace": TRACE,
    }  # fmt: skip
    return StepCall(**{**values, **changes})


def test_a_lambda_finds_it_in_its_client_context() -> None:
    told: list[Mapping[str, str]] = []

    class Invoker:
        def invoke(self, function: str, payload: bytes, about: Mapping[str, str]) -> Invoked:
            told.append(about)
            return Invoked(b"1")

        def send(self, function: str, payload: bytes, about: Mapping[str, str]) -> None:
            told.append(about)

    LambdaSteps(Invoker()).run(called())
    LambdaSteps(Invoker()).run(called(trace=""))
    assert (told[0]["traceparent"], "traceparent" in told[1]) == (TRACE, False)


def test_an_http_request_has_it_as_a_header_unless_the_definition_has_its_own() -> None:
    target, secrets = parse_url("https://api.example.com/score"), _Secrets(EnvironmentSecrets({}))
    request = {"method": "POST", "headers": {}, "body": "json"}
    assert _sending(called(request=request), target, secrets).headers["traceparent"] == TRACE
    assert "traceparent" not in _sending(called(request=request, trace=""), target, secrets).headers
    own = {**request, "headers": {"Traceparent": "mine"}}
    assert _sending(called(request=own), target, secrets).headers == {
        **_sending(called(request=request, trace=""), target, secrets).headers, "Traceparent": "mine",
    }  # fmt: skip
