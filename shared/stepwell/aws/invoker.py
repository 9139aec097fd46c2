"""Calls Lambda functions for Lambda steps, and waits for their answers."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

from stepwell.aws.calls import THROTTLES, Meaning, meaning_of
from stepwell.aws.failures import code_of, response_of
from stepwell.aws.protocols import Answer, LambdaClient
from stepwell.limits import ANSWER_BYTES
from stepwell.runtime.steps.failures import CallError
from stepwell.runtime.steps.lambdas import Invoked

# Temporary failures of Lambda itself, by its API reference; a retry does not help with other errors.
_PASSING = THROTTLES | {
    "EC2ThrottledException",
    "EC2UnexpectedException",
    "ENILimitReachedException",
    "EFSMountTimeoutException",
    "InternalError",
    "ResourceConflictException",
    "ResourceNotReadyException",
    "ServiceException",
    "SnapStartNotReadyException",
    "SnapStartTimeoutException",
}


class LambdaInvoker:
    """The Invoker port. It makes one call without retries, because the step's policy decides about them."""

    def __init__(self, client: Callable[[], LambdaClient]) -> None:
        self._client = client

    def invoke(self, function: str, payload: bytes, told: Mapping[str, str]) -> Invoked:
        """Calls a function; `told` is `custom` of the client context. Raises CallError."""
        context = base64.b64encode(json.dumps({"custom": dict(told)}).encode()).decode()
        return self._call(function, InvocationType="RequestResponse", Payload=payload, ClientContext=context)

    def send(self, function: str, payload: bytes, told: Mapping[str, str]) -> None:
        """Has a function called; Lambda passes no client context on to it. Raises CallError."""
        self._call(function, InvocationType="Event", Payload=payload)

    def _call(self, function: str, **request: Any) -> Invoked:
        try:
            answer = self._client().invoke(FunctionName=function, **request)
            return Invoked(answer["Payload"].read(ANSWER_BYTES + 1), "FunctionError" in answer)
        except Exception as error:
            meaning, response = meaning_of(error), response_of(error)
            if meaning is None:
                raise
            raise _failed(function, meaning, response, error) from error


def _failed(function: str, meaning: Meaning, response: Answer | None, error: Exception) -> CallError:
    if response is not None:
        code = code_of(error) or "LambdaError"
        category = "transient" if code in _PASSING or _is_fault(response) else "step"
        data = {"status": _status(response), "code": code}
        return CallError(code, category, f"{function} was not called: {error}", data)
    if meaning in (Meaning.BUSY, Meaning.UNKNOWN):
        return CallError("lambda_connection", "transient", f"{function} did not answer: {error}")
    kind = type(error).__name__
    return CallError(kind, "step", f"{function} was not called: {error}", {"code": kind})


def _is_fault(response: Answer) -> bool:
    status = _status(response)
    return isinstance(status, int) and status >= 500


def _status(response: Answer) -> object:
    return response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
