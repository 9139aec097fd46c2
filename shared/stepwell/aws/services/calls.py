"""Calls services of AWS for tasks of state machines. boto3 is loaded by the first call."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from stepwell.aws.failures import code_of, is_of_botocore, response_of
from stepwell.definition.graph import Json
from stepwell.limits import ANSWER_BYTES
from stepwell.runtime.steps import clients
from stepwell.runtime.steps.failures import CallError
from stepwell.runtime.steps.services import ServiceCall

_NATIVE = {  # of an integration of Step Functions' own: what its errors begin with, and the name of any of them
    "dynamodb": "DynamoDB",
    "eventbridge": "EventBridge",
    "sns": "SNS",
    "sqs": "SQS",
}
_CODE = re.compile(r"[\w.-]{1,100}")
_NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError",
                   "TokenRetrievalError", "SSOTokenLoadError", "UnauthorizedSSOTokenError")  # fmt: skip


class ServiceCalls:
    """The Services port. It makes one call without retries, because the state's retriers decide about them."""

    def __init__(self, client: Callable[[str], Any]) -> None:
        """`client`: returns boto3's client of a service, by its name there."""
        self._client, self._making = client, threading.Lock()

    def call(self, call: ServiceCall) -> Json:
        """Calls the service and returns its answer. Raises CallError."""
        from stepwell.aws.services import shapes  # noqa: PLC0415 - only where a machine calls a service

        told = self._asked(
            call,
            lambda ask, request, model: shapes.answer_of(model.output_shape, ask(**request), is_native=call.is_native),
        )
        if len(json.dumps(told)) > ANSWER_BYTES:
            raise CallError("answer_too_large", "step", f"{_what(call)} answered with more than {ANSWER_BYTES} bytes")
        if call.is_native and isinstance(told, dict) and told.get("FailedEntryCount"):
            raise CallError(f"{_prefix(call)}.FailedEntry", "step", f"{_what(call)}: {_reasons(told)}", told)
        return told

    def read(self, call: ServiceCall) -> Json:
        """Reads a dataset whole. Raises CallError."""
        from stepwell.aws.services import reads  # noqa: PLC0415 - only where a machine reads items

        read = reads.read_list if call.action == "listObjectsV2" else reads.read_object
        return self._asked(call, lambda ask, request, model: read(ask, request))

    def write(self, call: ServiceCall) -> Json:
        """Writes `Objects`, each {Key, Body}, to the `Bucket`. Raises CallError."""
        bucket, place = call.given["Bucket"], {}
        for one in call.given["Objects"]:
            place = {"Bucket": bucket, "Key": one["Key"]}
            given = {**place, "Body": one["Body"], "ContentType": "application/json"}
            self._asked(replace(call, given=given), _called)
        return place

    def _asked(self, call: ServiceCall, then: Callable[[Callable[..., Any], Any, Any], Json]) -> Json:
        """Returns the result of `then` for the service's method, the request and the operation's model."""
        from stepwell.aws.services.shapes import request_of  # noqa: PLC0415 - only where a machine calls a service

        try:
            client, model = self._modelled(call)
            given = {} if call.given is None else call.given
            if not isinstance(given, dict):
                raise CallError("bad_parameters", "validation", f"the parameters of {_what(call)} are to be an object")
            request = request_of(model.input_shape, given, takes_json=call.is_native)
            return then(_method(client, model.name), request, model)
        except CallError:
            raise
        except Exception as error:
            raise _failed(error, _prefix(call), _what(call)) from error

    def _modelled(self, call: ServiceCall) -> tuple[Any, Any]:
        """Returns the client and the operation's model. Raises CallError if there is no such operation."""
        from stepwell.aws.services.models import NO_STREAMS, STREAMS, find_service, is_streaming  # noqa: PLC0415 - as above
        from stepwell.aws.services.names import operation  # noqa: PLC0415 - as above

        name = find_service(call.service)
        if name is None:
            raise CallError("unknown_service", "validation", f"boto3 has no service {call.service!r}")
        with self._making:
            client = self._client(name)
        model = client.meta.service_model
        wanted = operation(call.action)
        if wanted not in model.operation_names:
            message = f"{call.service} has no action {call.action!r} in this version of boto3"
            raise CallError("unknown_action", "validation", message)
        found = model.operation_model(wanted)
        if is_streaming(found):
            message = f"{call.service}:{call.action} {STREAMS} ({NO_STREAMS})"
            raise CallError("unknown_action", "validation", message)
        return client, found


def _method(client: Any, name: str) -> Any:
    names = {operation: method for method, operation in client.meta.method_to_api_mapping.items()}
    return getattr(client, names[name])


def _called(ask: Callable[..., Any], request: Any, model: Any) -> None:
    ask(**request)


def _what(call: ServiceCall) -> str:
    return f"{call.service}:{call.action}"


def _prefix(call: ServiceCall) -> str:
    if call.is_native:
        return _NATIVE[call.service]
    from stepwell.aws.services.models import java_prefix  # noqa: PLC0415 - only where a machine calls a service

    return java_prefix(call.service)


def _failed(error: Exception, prefix: str, what: str) -> CallError:
    """Returns the error by the service's name and its code, as Step Functions names it."""
    if is_of_botocore(error, "ParamValidationError"):
        return CallError("bad_parameters", "validation", f"{what}: {error}")
    category = "transient" if clients.is_transient(error) else "step"
    if response_of(error) is not None:
        data = {"status": clients.status_of(error), "code": code_of(error)}
        return CallError(f"{prefix}.{_code(error)}", category, f"{what}: {error}", data)
    client = f"{prefix}.SdkClientException"
    if isinstance(error, ModuleNotFoundError):
        message = f"{what} was not called: boto3 is not installed (pip install boto3; in a test, mock the state)"
        return CallError("aws_not_here", "step", message)
    if is_of_botocore(error, "NoRegionError", *_NO_CREDENTIALS):
        is_region = is_of_botocore(error, "NoRegionError")
        hint = "set AWS_REGION" if is_region else "sign in: aws sso login, aws configure"
        hint += ", or name in resources.yaml what runs in its place; in a test, mock the state"
        return CallError(client, "step", f"{what} was not called: {error} ({hint})")
    if is_of_botocore(error, "BotoCoreError"):
        return CallError(client, category, f"{what}: {error}")
    raise error


def _code(error: Exception) -> str:
    """Returns the error's name: its class in the SDK for Java, or the code of one that the service's model lacks."""
    name, code = type(error).__name__, code_of(error)
    if name not in ("ClientError", "ServiceError"):
        return name if name.endswith("Exception") else f"{name}Exception"
    return code if _CODE.fullmatch(code) else "Exception"


def _reasons(told: dict[str, Json]) -> str:
    entries = [one for one in told.get("Entries") or () if isinstance(one, dict) and "ErrorCode" in one]
    reasons = sorted({f"{one['ErrorCode']}: {one.get('ErrorMessage', '')}".rstrip(": ") for one in entries})
    return f"{told['FailedEntryCount']} entries failed: {'; '.join(reasons)}"
