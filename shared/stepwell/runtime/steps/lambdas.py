"""Steps `run: lambda:NAME`: sends the input as a payload, and reads the answer. AWS is behind a port."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Protocol

from stepwell.definition.graph import Json
from stepwell.limits import ANSWER_BYTES, NAME_CHARACTERS, PAYLOAD_BYTES
from stepwell.runtime.steps.failures import CallError
from stepwell.runtime.steps.port import StepCall
from stepwell.values import dataclass

# How Lambda reports that the function ran into its own time limit.
_TIMED_OUT = re.compile(r"Task timed out after \d")
_SANDBOX_TIMED_OUT = "Sandbox.Timedout"


@dataclass(frozen=True, slots=True)
class Invoked:
    """The answer of a function. `failed`: the payload is the error that it raised."""

    payload: bytes
    failed: bool = False


class Invoker(Protocol):
    def invoke(self, function: str, payload: bytes, told: Mapping[str, str]) -> Invoked:
        """Calls the function and waits. `told` reaches it beside its payload. Raises CallError."""

    def send(self, function: str, payload: bytes, told: Mapping[str, str]) -> None:
        """Has Lambda call the function, and does not wait. Raises CallError."""


@dataclass(frozen=True, slots=True)
class LambdaSteps:
    """Calls Lambda functions. Without an invoker, as on a person's machine, each call fails."""

    invoker: Invoker | None = None

    def run(self, call: StepCall) -> Json:
        """Returns the function's result. Raises CallError."""
        function = call.run.removeprefix("lambda:")
        invoker, payload = self._ready(function, call.input, function)
        return self._invoked(invoker, function, payload, call)

    def run_task(self, call: StepCall) -> Json:
        """Runs `lambda:invoke` of a state machine: the function that its parameters name. Raises CallError."""
        given = call.input if isinstance(call.input, dict) else {}
        function, kind = given.get("FunctionName"), given.get("InvocationType", "RequestResponse")
        if not isinstance(function, str) or not function or kind not in ("RequestResponse", "Event"):
            message = "lambda:invoke needs a FunctionName; its InvocationType is RequestResponse or Event"
            raise CallError("bad_parameters", "validation", message)
        if qualifier := given.get("Qualifier"):
            function = f"{function}:{qualifier}"
        invoker, payload = self._ready(function, given.get("Payload", {}), call.run)
        if kind == "Event":
            invoker.send(function, payload, _told(call))
            return {"Payload": "", "StatusCode": 202}
        answer = self._invoked(invoker, function, payload, call)
        return {"ExecutedVersion": "$LATEST", "Payload": answer, "StatusCode": 200}

    def _ready(self, function: str, given: Json, resource: str) -> tuple[Invoker, bytes]:
        """Returns what calls it, and the payload. `resource`: the name by which a state machine's may be mapped."""
        if self.invoker is None:
            raise _not_here(function, resource)
        payload = json.dumps(given, ensure_ascii=False).encode()
        if len(payload) > PAYLOAD_BYTES:
            message = f"the input has {len(payload)} bytes; Lambda takes {PAYLOAD_BYTES}"
            raise CallError("payload_too_large", "validation", message)
        return self.invoker, payload

    def _invoked(self, invoker: Invoker, function: str, payload: bytes, call: StepCall) -> Json:
        invoked = invoker.invoke(function, payload, _told(call))
        if invoked.failed:
            raise _raised(function, invoked.payload)
        return _value(function, invoked.payload)


def _not_here(function: str, resource: str) -> CallError:
    name = resource if resource.startswith("arn:") else resource.partition(":")[0]
    message = (
        f"the Lambda function {function} was not called: it is on AWS, and only a deployed workflow calls it (run a "
        f"Python function in its place: for a state machine, name it in resources.yaml beside the machine, "
        f'resources: {{"{name}": python:module.function}}; in any other workflow, write run: python:module.function; '
        "in a test, mock the step)"
    )
    return CallError("lambda_not_here", "step", message)


def _told(call: StepCall) -> Mapping[str, str]:
    """What reaches the function beside its payload."""
    told = {"idempotency_key": call.key, "run_id": call.run_id, "step": call.node, "attempt": str(call.attempt)}
    return {**told, **({"traceparent": call.trace} if call.trace else {})}


def _value(function: str, payload: bytes) -> Json:
    if len(payload) > ANSWER_BYTES:
        raise CallError("answer_too_large", "step", f"{function} returned more than {ANSWER_BYTES} bytes")
    try:
        return json.loads(payload or b"null")
    except (ValueError, RecursionError):
        raise CallError("bad_answer", "step", f"what {function} returned is not JSON") from None


def _raised(function: str, payload: bytes) -> CallError:
    """Returns the function's exception as an error with its class's name."""
    try:
        answer = json.loads(payload)
    except (ValueError, RecursionError):
        answer = None
    answer = answer if isinstance(answer, dict) else {}
    kind, message = answer.get("errorType"), str(answer.get("errorMessage") or f"{function} failed")
    if kind == _SANDBOX_TIMED_OUT or _TIMED_OUT.search(message):
        return CallError("lambda_timeout", "timeout", message)
    is_named = isinstance(kind, str) and 0 < len(kind) <= NAME_CHARACTERS
    return CallError(str(kind) if is_named else "LambdaError", "step", message)
