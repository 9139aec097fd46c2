"""The calls of services that speak JSON, as boto3's clients have them: the same names, requests and answers.

In a request, bytes are base64 and a time is in seconds; in an answer, DynamoDB's bytes are bytes again.
"""

from __future__ import annotations

import base64
import json
import sys
import time
import zlib
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Protocol

from stepwell.aws.failures import BadRequest, NoAnswer, ServiceError
from stepwell.aws.protocols import Answer
from stepwell.aws.thin.signer import Key, Signer
from stepwell.aws.thin.wire import Place, Reply
from stepwell.values import dataclass

USER_AGENT = f"stepwell-thin python/{sys.version_info.major}.{sys.version_info.minor}"
_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-=;:+&[]{}\"',._~")


class Sends(Protocol):
    """What a client needs of a Wire."""

    @property
    def place(self) -> Place: ...

    def send(self, request: bytes) -> Reply: ...


@dataclass(frozen=True, slots=True)
class Service:
    """What distinguishes one service's JSON protocol."""

    name: str  # in the signature and in the endpoint
    target: str  # before the operation's name in the header `x-amz-target`
    version: str  # of the protocol


DYNAMODB = Service("dynamodb", "DynamoDB_20120810", "1.0")
SQS = Service("sqs", "AmazonSQS", "1.0")
EVENTS = Service("events", "AWSEvents", "1.1")
SECRETS_MANAGER = Service("secretsmanager", "secretsmanager", "1.1")
SSM = Service("ssm", "AmazonSSM", "1.1")


class Caller:
    """Makes calls of one service. Safe for threads."""

    def __init__(
        self,
        service: Service,
        region: str,
        wire: Sends,
        key: Callable[[], Key],
        *,
        trace_id: Callable[[], str] = lambda: "",
        now: Callable[[], float] = time.time,
    ) -> None:
        """`trace_id` is the invocation's, which AWS passes on to see loops of functions; `now` is the time in s."""
        self._service, self._wire, self._key, self._trace_id, self._now = service, wire, key, trace_id, now
        self._signer = Signer(service.name, region)
        self._headers = {"content-type": f"application/x-amz-json-{service.version}", "host": wire.place.authority}

    def call(self, operation: str, request: Mapping[str, Any]) -> Answer:
        """Makes one call, once. Raises NotSent, NoAnswer, ServiceError, BadRequest, AwsError, UnicodeError."""
        body = _written(request)
        headers = {**self._headers, "x-amz-target": f"{self._service.target}.{operation}"}
        signed = self._signer.signed(self._key(), self._wire.place.path, headers, body, self._now())
        if trace_id := self._trace_id():
            signed["x-amzn-trace-id"] = "".join(one for one in trace_id if one in _SAFE)
        signed["content-length"] = str(len(body))
        signed["user-agent"] = USER_AGENT
        lines = "".join(f"{name}: {value}\r\n" for name, value in signed.items())
        reply = self._wire.send(f"POST {self._wire.place.path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + body)
        return _answer_of(reply)


def _written(request: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(request, ensure_ascii=False, separators=(",", ":"), default=_plain).encode()
    except (TypeError, RecursionError) as error:
        raise BadRequest(f"a request that is not JSON: {error}") from error


def _plain(value: Any) -> str | int:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return int(value.timestamp())
    raise TypeError(f"a value of type {type(value).__name__}")


def _answer_of(reply: Reply) -> Answer:
    """Reads an answer. Raises ServiceError; NoAnswer for a damaged one."""
    crc = reply.headers.get("x-amz-crc32")
    if crc is not None and crc != str(zlib.crc32(reply.body)):
        raise NoAnswer("the answer was damaged on its way")
    if reply.status != 200:
        raise ServiceError(_error_of(reply))
    answer = _read(reply.body)
    if answer is None:
        raise NoAnswer("the answer is not a JSON object")
    return answer


def _error_of(reply: Reply) -> Mapping[str, Any]:
    """An error in the shape of botocore's: its code and message, and the other parts beside them."""
    error = _read(reply.body) or {}
    code = str(error.get("__type") or error.get("code") or reply.status).rpartition("#")[2].partition(":")[0]
    older, is_older, _ = reply.headers.get("x-amzn-query-error", "").partition(";")  # SQS's codes before it had JSON
    message = error.get("message") or error.get("Message") or ""
    request = {"HTTPStatusCode": reply.status, "RequestId": reply.headers.get("x-amzn-requestid", "")}
    return {**error, "Error": {"Code": older if is_older else code, "Message": message}, "ResponseMetadata": request}


def _read(body: bytes) -> dict[str, Any] | None:
    """Reads a JSON object; None if it is none."""
    try:
        found = json.loads(body or b"{}", object_hook=_with_bytes if b'"B"' in body or b'"BS"' in body else None)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _with_bytes(value: dict[str, Any]) -> dict[str, Any]:
    """Decodes a binary attribute value. An attribute of this name is not one: its value is an object."""
    if len(value) == 1:
        if isinstance(found := value.get("B"), str):
            return {"B": base64.b64decode(found)}
        if isinstance(found := value.get("BS"), list):
            return {"BS": [base64.b64decode(one) for one in found]}
    return value


class ThinDynamo:
    """DynamoDB. Requests and answers are those of boto3's client of the same method."""

    def __init__(self, caller: Caller) -> None:
        self._call = caller.call

    def get_item(self, **request: Any) -> Answer:
        return self._call("GetItem", request)

    def put_item(self, **request: Any) -> Answer:
        return self._call("PutItem", request)

    def update_item(self, **request: Any) -> Answer:
        return self._call("UpdateItem", request)

    def delete_item(self, **request: Any) -> Answer:
        return self._call("DeleteItem", request)

    def query(self, **request: Any) -> Answer:
        return self._call("Query", request)

    def batch_get_item(self, **request: Any) -> Answer:
        return self._call("BatchGetItem", request)

    def batch_write_item(self, **request: Any) -> Answer:
        return self._call("BatchWriteItem", request)

    def transact_write_items(self, **request: Any) -> Answer:
        return self._call("TransactWriteItems", request)


class ThinSqs:
    """SQS. As above."""

    def __init__(self, caller: Caller) -> None:
        self._call = caller.call

    def send_message(self, **request: Any) -> Answer:
        return self._call("SendMessage", request)

    def send_message_batch(self, **request: Any) -> Answer:
        return self._call("SendMessageBatch", request)

    def receive_message(self, **request: Any) -> Answer:
        return self._call("ReceiveMessage", request)

    def delete_message(self, **request: Any) -> Answer:
        return self._call("DeleteMessage", request)

    def change_message_visibility(self, **request: Any) -> Answer:
        return self._call("ChangeMessageVisibility", request)


class ThinEvents:
    """EventBridge. As above."""

    def __init__(self, caller: Caller) -> None:
        self._call = caller.call

    def put_events(self, **request: Any) -> Answer:
        return self._call("PutEvents", request)


class ThinSecretsManager:
    """Secrets Manager. As above."""

    def __init__(self, caller: Caller) -> None:
        self._call = caller.call

    def get_secret_value(self, **request: Any) -> Answer:
        return self._call("GetSecretValue", request)


class ThinSsm:
    """Systems Manager. As above."""

    def __init__(self, caller: Caller) -> None:
        self._call = caller.call

    def get_parameter(self, **request: Any) -> Answer:
        return self._call("GetParameter", request)
