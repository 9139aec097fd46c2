"""Calls of services as tasks make them: what is sent, what an answer becomes, and what failures are called."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.exceptions import ConnectTimeoutError, NoCredentialsError, NoRegionError, ReadTimeoutError

from stepwell.aws.clients import Clients
from stepwell.aws.services.calls import ServiceCalls
from stepwell.aws.services.models import find_service
from stepwell.limits import ANSWER_BYTES
from stepwell.runtime.steps.failures import CallError
from stepwell.runtime.steps.services import ServiceCall
from tests.contract.emulated import Cloud, answer

GET = ServiceCall("dynamodb", "getItem", {"TableName": "t", "Key": {"id": {"S": "a"}}}, is_native=True)
BUSY = "ProvisionedThroughputExceededException"


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


def call(cloud: Cloud, service: str, action: str, given: Any) -> Any:
    return ServiceCalls(cloud.service).call(ServiceCall(service, action, given))


def heard(cloud: Cloud, status: int, body: bytes | str, headers: dict[str, str] | None = None) -> list[Any]:
    """The requests, each of which gets this answer."""
    seen: list[Any] = []
    cloud.before = lambda _, request: seen.append(request) or answer(status, body, headers)
    return seen


def test_names_are_taken_in_any_case_and_told_in_capital_letters(cloud: Cloud) -> None:
    tasks = {"tasks": [{"taskArn": "a", "createdAt": 1_800_000_000.5, "tags": [{"key": "K", "value": "v"}]}]}
    seen = heard(cloud, 200, json.dumps(tasks))
    found = call(cloud, "ecs", "describeTasks", {"Cluster": "c", "Tasks": ["a"]})
    assert json.loads(seen[0].body) == {"cluster": "c", "tasks": ["a"]}
    task = {"TaskArn": "a", "CreatedAt": "2027-01-15T08:00:00.500Z", "Tags": [{"Key": "K", "Value": "v"}]}
    assert found == {"Tasks": [task]}


@pytest.mark.parametrize(("content", "text"), [(b'{"a": 1}', '{"a": 1}'), (b"\xff\x00", "/wA=")])
def test_a_body_is_told_as_text_or_in_base64(cloud: Cloud, content: bytes, text: str) -> None:
    heard(cloud, 200, content, {"ETag": '"x"', "Content-Length": str(len(content))})
    found = call(cloud, "s3", "getObject", {"Bucket": "b", "Key": "k"})
    assert (found["Body"], found["ETag"]) == (text, '"x"')


def test_a_blob_is_sent_as_text_or_as_json(cloud: Cloud) -> None:
    seen = heard(cloud, 200, "")
    for given in ("text", {"a": 1}):
        call(cloud, "s3", "putObject", {"Bucket": "b", "Key": "k", "Body": given})
    sent = [request.body if isinstance(request.body, bytes) else request.body.read() for request in seen]
    assert [b"text" in sent[0], b'{"a":1}' in sent[1]] == [True, True]


def test_an_answer_that_is_too_large_is_an_error(cloud: Cloud) -> None:
    heard(cloud, 200, b"x" * (ANSWER_BYTES + 10))
    with pytest.raises(CallError) as refusal:
        call(cloud, "s3", "getObject", {"Bucket": "b", "Key": "k"})
    assert (refusal.value.kind, refusal.value.category) == ("answer_too_large", "step")


def _raising(error: Exception) -> Callable[..., Any]:
    def fail(*_: Any) -> Any:
        raise error

    return fail


def _refusal(status: int, code: str) -> Callable[..., Any]:
    return lambda *_: answer(status, json.dumps({"__type": f"com.amazonaws#{code}", "message": "no"}))


@pytest.mark.parametrize(
    ("before", "kind", "category"),
    [
        (_refusal(400, BUSY), BUSY, "transient"),
        (_refusal(400, "ThrottlingException"), "ThrottlingException", "transient"),
        (_refusal(500, "InternalServerError"), "InternalServerErrorException", "transient"),
        (_refusal(400, "ResourceNotFoundException"), "ResourceNotFoundException", "step"),
        (_refusal(400, "AccessDeniedException"), "AccessDeniedException", "step"),
        (_raising(ConnectTimeoutError(endpoint_url="u")), "SdkClientException", "transient"),
        (_raising(ReadTimeoutError(endpoint_url="u")), "SdkClientException", "transient"),
    ],
)  # fmt: skip
def test_a_failure_has_the_services_name_and_its_code(cloud: Cloud, before: Any, kind: str, category: str) -> None:
    cloud.before = before
    with pytest.raises(CallError) as refusal:
        ServiceCalls(cloud.service).call(GET)
    assert (refusal.value.kind, refusal.value.category) == (f"DynamoDB.{kind}", category)
    assert cloud.calls == ["GetItem"], "the state's retriers say whether there is another try"


@pytest.mark.parametrize(
    ("service", "action", "kind"),
    [
        ("none", "getItem", "unknown_service"),
        ("dynamodb", "gotItem", "unknown_action"),
        ("bedrockruntime", "converseStream", "unknown_action"),
    ],
)
def test_what_boto3_does_not_have_is_an_error_of_the_machine(
    cloud: Cloud, service: str, action: str, kind: str
) -> None:
    with pytest.raises(CallError) as refusal:
        call(cloud, service, action, {})
    assert (refusal.value.kind, refusal.value.category, cloud.calls) == (kind, "validation", [])


def test_without_credentials_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(CallError, match=r"Unable to locate credentials \(sign in") as refusal:
        ServiceCalls(Clients(boto3.Session(region_name="us-east-1")).service).call(GET)
    assert (refusal.value.kind, refusal.value.category) == ("DynamoDB.SdkClientException", "step")


def test_without_boto3_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    find_service.cache_clear()
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(CallError, match="boto3 is not installed") as refusal:
        ServiceCalls(Clients().service).call(GET)
    assert (refusal.value.kind, refusal.value.category) == ("aws_not_here", "step")


@pytest.mark.parametrize(
    ("error", "hint"), [(NoRegionError(), "set AWS_REGION"), (NoCredentialsError(), "sign in: aws sso login")]
)
def test_without_a_region_or_credentials_the_failure_says_what_is_missing(error: Exception, hint: str) -> None:
    def client(name: str) -> Any:
        raise error

    with pytest.raises(CallError) as refusal:
        ServiceCalls(client).call(GET)
    assert f"({hint}" in str(refusal.value)
    assert "resources.yaml" in str(refusal.value)
