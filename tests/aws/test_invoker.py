"""Lambda functions called by the adapter: what botocore sends, and what its answers and failures mean."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError

from stepwell.aws.invoker import LambdaInvoker
from stepwell.runtime.steps.failures import CallError
from stepwell.runtime.steps.lambdas import Invoked
from tests.contract.emulated import Cloud, answer


@pytest.fixture
def cloud() -> Cloud:
    made = Cloud()
    made.connect("lambda_")
    return made


def invoke(cloud: Cloud) -> Invoked:
    return LambdaInvoker(cloud.clients.lambda_).invoke("score:live", b'{"a": 1}', {"idempotency_key": "k"})


def test_a_function_is_called_synchronously_with_the_key_in_its_client_context(cloud: Cloud) -> None:
    seen: list[Any] = []

    def hear(_: str, request: Any) -> Any:
        seen.append(request)
        return answer(200, '{"b": 2}')

    cloud.before = hear
    assert invoke(cloud) == Invoked(b'{"b": 2}')
    (request,) = seen
    assert request.url.endswith("/functions/score%3Alive/invocations")
    assert (request.body, request.headers["X-Amz-Invocation-Type"]) == (b'{"a": 1}', b"RequestResponse")
    context = json.loads(base64.b64decode(request.headers["X-Amz-Client-Context"]))
    assert context == {"custom": {"idempotency_key": "k"}}


def test_a_function_that_raised_is_told_apart(cloud: Cloud) -> None:
    cloud.before = lambda *_: answer(200, '{"errorType": "E"}', {"X-Amz-Function-Error": "Unhandled"})
    assert invoke(cloud) == Invoked(b'{"errorType": "E"}', failed=True)


def _refusal(status: int, code: str) -> Any:
    return lambda *_: answer(status, '{"message": "no"}', {"x-amzn-ErrorType": code})


def _raising(error: Exception) -> Any:
    def fail(*_: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize(
    ("before", "kind", "category"),
    [
        (_refusal(429, "TooManyRequestsException"), "TooManyRequestsException", "transient"),
        (_refusal(500, "ServiceException"), "ServiceException", "transient"),
        (_refusal(502, "EC2UnexpectedException"), "EC2UnexpectedException", "transient"),
        (_refusal(503, "Odd"), "Odd", "transient"),
        (_refusal(404, "ResourceNotFoundException"), "ResourceNotFoundException", "step"),
        (_refusal(403, "AccessDeniedException"), "AccessDeniedException", "step"),
        (_raising(ReadTimeoutError(endpoint_url="u")), "lambda_connection", "transient"),
        (_raising(ConnectTimeoutError(endpoint_url="u")), "lambda_connection", "transient"),
    ],
)
def test_what_lambda_could_not_do_now_is_transient(cloud: Cloud, before: Any, kind: str, category: str) -> None:
    cloud.before = before
    with pytest.raises(CallError) as refusal:
        invoke(cloud)
    assert (refusal.value.kind, refusal.value.category) == (kind, category)
    assert cloud.calls == ["Invoke"], "the step's policy says whether there is another try"


def test_a_refusal_of_lambda_has_its_status_and_code_as_data(cloud: Cloud) -> None:
    cloud.before = _refusal(403, "AccessDeniedException")
    with pytest.raises(CallError) as refusal:
        invoke(cloud)
    assert refusal.value.data == {"status": 403, "code": "AccessDeniedException"}


def test_a_function_that_nobody_waits_for_is_called_asynchronously(cloud: Cloud) -> None:
    seen: list[Any] = []
    cloud.before = lambda _, request: seen.append(request) or answer(202, "")
    LambdaInvoker(cloud.clients.lambda_).send("score:live", b'{"a": 1}', {"idempotency_key": "k"})
    (request,) = seen
    assert (request.body, request.headers["X-Amz-Invocation-Type"]) == (b'{"a": 1}', b"Event")
    assert "X-Amz-Client-Context" not in request.headers
