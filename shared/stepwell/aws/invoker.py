"""Calls Lambda functions for Lambda steps, and waits for their answers."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping

from botocore.exceptions import BotoCoreError, ClientError

from stepwell.aws.calls import THROTTLES, Meaning, code_of, meaning_of
from stepwell.aws.protocols import LambdaClient
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
        try:
            answer = self._client().invoke(
                FunctionName=function, InvocationType="RequestResponse", Payload=payload, ClientContext=context
            )
            return Invoked(answer["Payload"].read(ANSWER_BYTES + 1), "FunctionError" in answer)
        except ClientError as error:
            code = code_of(error) or "LambdaError"
            category = "transient" if code in _PASSING or _is_fault(error) else "step"
            raise CallError(code, category, f"{function} was not called: {error}") from error
        except BotoCoreError as error:
            if meaning_of(error) in (Meaning.BUSY, Meaning.UNKNOWN):
                raise CallError("lambda_connection", "transient", f"{function} did not answer: {error}") from error
            raise CallError(type(error).__name__, "step", f"{function} was not called: {error}") from error


def _is_fault(error: ClientError) -> bool:
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
    return isinstance(status, int) and status >= 500
