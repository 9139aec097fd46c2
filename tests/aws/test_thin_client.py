"""The thin client beside boto3: the same signatures, the same requests, the same readings of an answer."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import botocore.auth
import botocore.session
import pytest
from boto3.dynamodb.types import TypeSerializer
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from stepwell.aws.calls import Meaning, Retry, meaning_of
from stepwell.aws.failures import AwsError, BadRequest, NoAnswer, ServiceError, code_of
from stepwell.aws.protocols import Item
from stepwell.aws.store.table import Table
from stepwell.aws.store.values import typed
from stepwell.aws.thin import credentials
from stepwell.aws.thin.client import (
    DYNAMODB,
    EVENTS,
    SECRETS_MANAGER,
    SQS,
    SSM,
    Caller,
    Service,
    ThinDynamo,
    ThinEvents,
    ThinSecretsManager,
    ThinSqs,
    ThinSsm,
)
from stepwell.aws.thin.opening import endpoint_of, open_thin
from stepwell.aws.thin.signer import Key, Signer
from stepwell.aws.thin.wire import Place, Reply
from stepwell.aws.thin.wire import Wire as RealWire
from stepwell.errors import PortError, UserError
from stepwell.memory.blobs import MemoryBlobs
from stepwell.settings import read_aws
from tests.aws.test_thin_wire import Server, resets, says, says_and_closes
from tests.contract.emulated import Cloud, answer, table_of

BOTOCORE = botocore.session.Session()  # which reads a file for each service: once
KEY = Key("AKIDEXAMPLE", "secret/+", "token+/=")
LAMBDA = {"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "AKID",
          "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "token"}  # fmt: skip


class Wire:
    """Answers as it is told, and keeps what was sent."""

    place = Place("dynamodb.eu-west-1.amazonaws.com", 443, True, "/")

    def __init__(self, reply: Reply) -> None:
        self.reply, self.sent = reply, list[bytes]()

    def send(self, request: bytes) -> Reply:
        self.sent.append(request)
        return self.reply

    @property
    def headers(self) -> Mapping[str, str]:
        """Those of the last request."""
        head = self.sent[-1].partition(b"\r\n\r\n")[0].decode()
        return dict(line.split(": ", 1) for line in head.split("\r\n")[1:])

    @property
    def body(self) -> Any:
        """That of the last request."""
        return json.loads(self.sent[-1].partition(b"\r\n\r\n")[2])


def caller(wire: Wire, service: Service = DYNAMODB, **options: Any) -> Caller:
    return Caller(service, "eu-west-1", wire, lambda: KEY, **options)


def replied(body: Any, status: int = 200, **headers: str) -> Wire:
    given_body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Wire(Reply(status, {name.replace("_", "-"): value for name, value in headers.items()}, given_body))


# -- signatures


@given(
    token=st.sampled_from(["", "a+/=b"]),
    body=st.binary(max_size=99),
    at=st.integers(1_600_000_000, 2_000_000_000),
    region=st.sampled_from(["us-east-1", "cn-north-1"]),
    service=st.sampled_from(["dynamodb", "sqs"]),
)
def test_a_signature_is_that_of_botocore(token: str, body: bytes, at: int, region: str, service: str) -> None:
    headers = {"content-type": "application/x-amz-json-1.0", "host": "h.example.com", "x-amz-target": "T.Op"}
    signed = Signer(service, region).signed(Key("AKID", "s/+", token), "/", headers, body, at + 0.9)
    request = AWSRequest("POST", "https://h.example.com/", headers=headers, data=body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.auth, "get_current_datetime", lambda **_: datetime.fromtimestamp(at, UTC))
        botocore.auth.SigV4Auth(Credentials("AKID", "s/+", token or None), service, region).add_auth(request)
    theirs = {name.lower(): value for name, value in request.headers.items()}
    assert signed == theirs


def test_a_signing_key_is_that_of_the_day_and_of_the_credentials() -> None:
    signer, day = Signer("sqs", "eu-west-1"), 86_400

    def signature(key: Key, at: int) -> str:
        return signer.signed(key, "/", {}, b"", at)["authorization"]

    other = Key("AKIDEXAMPLE", "another", "token+/=")
    found = [signature(key, at) for key, at in ((KEY, 0), (KEY, day), (other, day), (KEY, 0))]
    assert found[0] == found[3]
    assert len(set(found)) == 3


def test_a_key_is_not_shown() -> None:
    assert "secret" not in repr(KEY)
    assert "token" not in repr(KEY)
    assert "secret" not in repr(read_aws(LAMBDA))
    assert "token" not in repr(read_aws(LAMBDA))


# -- requests


def test_a_request_says_whose_it_is_and_what_it_is_part_of() -> None:
    wire = replied({})
    at = datetime(2026, 11, 20, 10, tzinfo=UTC)
    asked = {"Item": {"a": {"B": b"\x00"}}, "Time": at}
    caller(wire, trace_id=lambda: "Root=1-5;Sampled=1\r\nx: y").call("PutItem", asked)
    assert wire.headers["user-agent"].startswith("stepwell-thin python/3.")
    assert wire.headers["x-amz-target"] == "DynamoDB_20120810.PutItem"
    assert wire.headers["x-amzn-trace-id"] == "Root=1-5;Sampled=1x:y"  # and no header of its own
    assert wire.headers["x-amz-security-token"] == KEY.token
    assert wire.body == {"Item": {"a": {"B": "AA=="}}, "Time": int(at.timestamp())}
    caller(wire).call("PutItem", {})
    assert "x-amzn-trace-id" not in wire.headers


def test_a_request_that_is_not_json_is_a_defect_and_is_not_sent() -> None:
    wire = replied({})
    for request in ({"Item": object()}, {"Item": {"S": {1}}}):
        with pytest.raises(BadRequest) as caught:
            caller(wire).call("PutItem", request)
        assert meaning_of(caught.value) is Meaning.DEFECT
    with pytest.raises(UnicodeError):
        caller(wire).call("PutItem", {"Item": {"S": "\ud800"}})
    assert wire.sent == []


CALLS = {
    ThinDynamo: (DYNAMODB, ["get_item", "put_item", "update_item", "delete_item", "query", "batch_get_item",
                            "batch_write_item", "transact_write_items"]),
    ThinEvents: (EVENTS, ["put_events"]),
    ThinSecretsManager: (SECRETS_MANAGER, ["get_secret_value"]),
    ThinSqs: (SQS, ["send_message", "send_message_batch", "receive_message", "delete_message",
                    "change_message_visibility"]),
    ThinSsm: (SSM, ["get_parameter"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", CALLS)
def test_each_method_makes_the_call_of_boto3s(kind: type[Any]) -> None:
    service, methods = CALLS[kind]
    theirs = Cloud("boto3").connect(service.name)
    for method in methods:
        wire = replied({})
        assert getattr(kind(caller(wire, service)), method)(A="b") == {}
        assert wire.headers["x-amz-target"] == f"{service.target}.{theirs.meta.method_to_api_mapping[method]}"
        assert wire.headers["content-type"] == f"application/x-amz-json-{service.version}"
        model = theirs.meta.service_model
        assert (model.metadata["targetPrefix"], model.metadata["jsonVersion"]) == (service.target, service.version)
        assert model.signing_name == service.name
        assert wire.body == {"A": "b"}


# -- answers


def test_an_answer_is_read_with_its_bytes() -> None:
    body = {"Item": {"B": {"B": "AAE="}, "BS": {"BS": ["AA==", "AQ=="]}, "m": {"M": {"B": {"S": "B"}}}}}
    found = caller(replied(body)).call("GetItem", {})
    assert found == {"Item": {"B": {"B": b"\0\1"}, "BS": {"BS": [b"\0", b"\1"]}, "m": {"M": {"B": {"S": "B"}}}}}


@pytest.mark.parametrize("body", [b"[]", b"{", b"\xff", b'"text"'])
def test_an_answer_that_is_no_json_object_is_no_answer(body: bytes) -> None:
    with pytest.raises(NoAnswer):
        caller(replied(body)).call("GetItem", {})


def test_an_answer_that_was_damaged_on_its_way_is_no_answer_good_or_bad() -> None:
    body = b'{"Item":{}}'
    assert caller(replied(body, x_amz_crc32=str(zlib.crc32(body)))).call("GetItem", {}) == {"Item": {}}
    for status in (200, 400):
        with pytest.raises(NoAnswer, match="damaged"):
            caller(replied(body, status, x_amz_crc32="1")).call("GetItem", {})


def test_a_put_whose_answer_was_damaged_is_sent_again_and_knows_its_own_record() -> None:
    cloud = Cloud("thin")
    with table_of(cloud, retry=Retry(sleep=lambda _: None)) as table:
        damaged = [True]

        def damage(operation: str, response: Any) -> Any:
            if operation == "PutItem" and damaged.pop():
                damaged.append(False)
                return answer(200, response.content, {"x-amz-crc32": "1"})
            damaged.append(False)
            return None

        cloud.after = damage
        item: Item = {"pk": {"S": "a"}, "sk": {"S": "b"}, "body": {"S": "mine"}}
        assert table.put_new(item) is None
        assert cloud.calls.count("PutItem") == 2


def test_an_append_that_a_socket_lost_is_made_again_and_knows_its_own_record() -> None:
    """Reset after the request, then half an answer, then throttled, then too late: the record is there."""
    item = {"pk": {"S": "a"}, "sk": {"S": "b"}, "body": {"S": "mine"}}
    refused = {"__type": "a#ConditionalCheckFailedException", "message": "m", "Item": item}
    throttled = {"__type": "a#ThrottlingException", "message": "m"}
    server = Server([resets, says_and_closes(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"),
                     says(http(400, throttled)), says(http(503, {})), says(http(400, refused)),
                     says(http(400, refused))])  # fmt: skip
    wire, slept = RealWire(server.place, connect_seconds=1, answer_seconds=1, kept=1), list[float]()
    try:
        client = ThinDynamo(Caller(DYNAMODB, "eu-west-1", wire, lambda: KEY))
        table = Table("t", lambda: client, MemoryBlobs(), retry=Retry(sleep=slept.append))
        assert table.put_new(item) is None
        assert len(slept) == 4
        assert table.put_new(item) == item  # a later call is another writer
    finally:
        wire.close()
        server.stop()


def http(status: int, body: Any) -> bytes:
    """An answer as it is on the wire."""
    written = json.dumps(body)
    return f"HTTP/1.1 {status} So\r\nContent-Length: {len(written)}\r\n\r\n{written}".encode()


@pytest.mark.parametrize(
    ("status", "body", "headers", "code"),
    [
        (400, {"__type": "com.amazonaws.dynamodb.v20120810#ThrottlingException", "message": "m"}, {},
         "ThrottlingException"),
        (400, {"__type": "com.amazon.coral.service#ExpiredTokenException", "Message": "m"}, {},
         "ExpiredTokenException"),
        (400, {"__type": "UnrecognizedClientException", "message": "m"}, {}, "UnrecognizedClientException"),
        (400, {"__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "m"},
         {"x-amzn-query-error": "AWS.SimpleQueueService.NonExistentQueue;Sender"},
         "AWS.SimpleQueueService.NonExistentQueue"),
        (500, {"__type": "com.amazonaws.dynamodb.v20120810#InternalServerError", "message": "m"}, {},
         "InternalServerError"),
        (503, b"<html>", {}, "503"),
        (502, b"", {}, "502"),
    ],
)  # fmt: skip
def test_an_error_has_the_code_and_the_meaning_that_botocore_gives_it(
    status: int, body: Any, headers: dict[str, str], code: str
) -> None:
    wire = replied(body, status)
    wire.reply = Reply(status, {**headers, "x-amzn-requestid": "r1"}, wire.reply.body)
    with pytest.raises(ServiceError) as caught:
        caller(wire).call("GetItem", {})
    assert code_of(caught.value) == code
    assert caught.value.response["ResponseMetadata"] == {"HTTPStatusCode": status, "RequestId": "r1"}
    cloud = Cloud("boto3")
    service, method = ("sqs", "list_queues") if headers else ("dynamodb", "list_tables")
    theirs = cloud.connect(service)
    cloud.before = lambda *_: answer(status, wire.reply.body, {**headers, "x-amzn-RequestId": "r1"})
    with pytest.raises(theirs.exceptions.ClientError) as expected:
        getattr(theirs, method)()
    assert code_of(expected.value) == code
    assert meaning_of(caught.value) is meaning_of(expected.value)


# -- values of users


@given(
    st.recursive(
        st.none() | st.booleans() | st.text() | st.binary() | st.integers(-(10**30), 10**30)
        | st.decimals("-1e30", "1e30", places=5),
        lambda values: st.lists(values) | st.dictionaries(st.text(), values),
        max_leaves=9,
    )
)  # fmt: skip
def test_a_users_value_is_written_as_boto3_writes_it(value: Any) -> None:
    assert plain(typed(value)) == plain(TypeSerializer().serialize(value))


def plain(value: Any) -> Any:
    """Numbers by their value: `1.50` and `1.5` are one."""
    if isinstance(value, dict):
        return {name: Decimal(one) if name == "N" and isinstance(one, str) else plain(one)
                for name, one in value.items()}  # fmt: skip
    return [plain(one) for one in value] if isinstance(value, list) else value


def test_a_value_that_dynamodb_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError):
        typed(object())


# -- which client, and whose credentials


@pytest.mark.parametrize(
    ("changes", "is_thin"),
    [
        ({}, True),
        ({"STEPWELL_AWS_CLIENT": "boto3"}, False),
        ({"STEPWELL_TRACE": "1"}, False),  # X-Ray's SDK sees boto3's calls
        ({"HTTPS_PROXY": "http://proxy:1"}, False),
        ({"http_proxy": "http://proxy:1"}, False),
        ({"AWS_USE_FIPS_ENDPOINT": "true"}, False),
        ({"AWS_USE_FIPS_ENDPOINT": "false"}, True),
        ({"AWS_USE_DUALSTACK_ENDPOINT": "true"}, False),
        ({"AWS_DEFAULT_REGION": "us-iso-east-1"}, False),
        ({"AWS_DEFAULT_REGION": "us-iso-east-1", "AWS_ENDPOINT_URL": "http://h"}, True),
        ({"AWS_DEFAULT_REGION": "", "AWS_REGION": ""}, False),
    ],
)
def test_the_environment_decides_on_the_client(changes: dict[str, str], is_thin: bool) -> None:
    assert (open_thin(read_aws({**LAMBDA, **changes})) is not None) is is_thin


def test_a_client_that_there_is_not_is_refused() -> None:
    with pytest.raises(UserError, match="STEPWELL_AWS_CLIENT"):
        read_aws({"STEPWELL_AWS_CLIENT": "fat"})


@pytest.mark.parametrize("region", ["eu-west-1", "us-gov-west-1", "cn-north-1", "ap-southeast-5", "mx-central-1"])
@pytest.mark.parametrize("service", ["dynamodb", "events", "secretsmanager", "sqs", "ssm"])
def test_an_endpoint_is_that_of_boto3(region: str, service: str) -> None:
    theirs = BOTOCORE.create_client(service, region, aws_access_key_id="a", aws_secret_access_key="b")
    assert endpoint_of(service, read_aws({"AWS_DEFAULT_REGION": region})) == theirs.meta.endpoint_url


def test_the_environments_endpoints_are_taken_the_services_own_first() -> None:
    aws = read_aws({**LAMBDA, "AWS_ENDPOINT_URL": "http://all", "AWS_ENDPOINT_URL_SQS": "http://queues"})
    assert [endpoint_of(service, aws) for service in ("dynamodb", "sqs")] == ["http://all", "http://queues"]


def test_credentials_that_lambda_does_not_give_are_those_of_botocores_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [SimpleNamespace(access_key="a", secret_key="b", token=None)]
    found = SimpleNamespace(get_frozen_credentials=lambda: now[0])
    monkeypatch.setattr("botocore.session.Session.get_credentials", lambda self: found)
    key = credentials.keys_of(None)
    assert key() == Key("a", "b", "")
    assert key() is key()
    now[0] = SimpleNamespace(access_key="c", secret_key="d", token="e")
    assert key() == Key("c", "d", "e")  # renewed


def test_a_function_from_a_snapshot_asks_for_its_credentials_and_again_before_they_expire() -> None:
    now, asked = [0.0], list[bytes]()

    def gives(connection: socket.socket) -> bool:
        at = datetime.fromtimestamp(now[0] + 3_600, UTC)
        body = json.dumps({"AccessKeyId": f"id{len(asked)}", "SecretAccessKey": "s", "Token": "t",
                           "Expiration": f"{at:%Y-%m-%dT%H:%M:%SZ}"}).encode()  # fmt: skip
        asked.append(body)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        return True

    busy = says_and_closes(b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\n{}")
    server = Server([gives, busy, gives, busy, says_and_closes(b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\n{}")])
    try:
        url = f"http://127.0.0.1:{server.place.port}/2021/credentials?a=b"
        key = credentials.keys_of(None, lambda: (url, "show me"), lambda: now[0])
        assert key() is key()
        assert key() == Key("id0", "s", "t")
        assert server.heard[0].startswith(b"GET /2021/credentials?a=b HTTP/1.1\r\n")
        assert b"\r\nauthorization: show me\r\n" in server.heard[0]
        now[0] = 3_600 - 301
        assert key().id == "id0"
        now[0] = 3_600 - 300
        assert key().id == "id0"  # there is no new one yet, and it serves until it expires
        assert key().id == "id1"
        now[0] = 7_200
        with pytest.raises(NoAnswer, match="status 500"):  # which a call repeats
            key()
        with pytest.raises(AwsError, match="status 403"):
            key()
    finally:
        server.stop()


def test_without_credentials_a_call_fails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botocore.session.Session.get_credentials", lambda self: None)
    key, slept = credentials.keys_of(None), list[float]()
    with pytest.raises(AwsError):
        key()
    with pytest.raises(PortError, match="no AWS credentials"):
        Retry(sleep=slept.append).call("GetItem", key)
    assert slept == []


def test_the_client_loads_nothing_but_the_standard_library() -> None:
    script = f"""
import sys
from stepwell.settings import read_aws
from stepwell.aws.thin.opening import open_thin
open_thin(read_aws({LAMBDA!r})).client("dynamodb")
print([name for name in ("boto3", "botocore", "http.client", "email", "urllib3") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout == "[]\n"


def test_a_record_that_was_stored_is_read_by_either_client() -> None:
    with table_of(Cloud("thin")) as table:
        item: Item = {"pk": {"S": "a"}, "sk": {"S": "b"}, "raw": {"B": b"\0\xff"}, "text": {"S": 'ä "B" \u2028'}}
        assert table.put_new(item) is None
        assert table.get({"pk": item["pk"], "sk": item["sk"]}) == item
        theirs = Cloud("boto3").connect("dynamodb")
        assert theirs.get_item(TableName=table.name, Key={"pk": item["pk"], "sk": item["sk"]})["Item"] == item
