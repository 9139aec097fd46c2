"""Calls of a deployed API: signed so that a verifier written from AWS's specification agrees, and refused in words.

Specification: docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

import httpx
import pytest
from botocore.credentials import Credentials
from botocore.exceptions import CredentialRetrievalError

from stepwell.aws.signing import SigV4
from stepwell.client import Client, calls
from stepwell.client.access import REFUSALS, UNSIGNED, Access, Kind, access_to, gateway_refusal
from stepwell.client.requests import get
from stepwell.errors import StepwellError, UserError

from .conftest import Cli, FakeApi

KEY_ID, SECRET, SESSION = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "session+token/="
UNSET = (
    *("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    *("AWS_REGION", "AWS_DEFAULT_REGION"),
    *("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
)
DEPLOYED = "https://abc123.execute-api.eu-west-1.amazonaws.com"


def strict(text: str) -> str:
    """Percent-encoded as SigV4 wants it: all but the unreserved characters."""
    return quote(text, safe="-_.~")


def expected_signature(
    method: str, target: str, headers: Mapping[str, str], body: bytes, scope: str, *, path_encodings: int
) -> str:
    """What a service computes from a request as it arrived. `headers`: those that were signed."""
    path, _, query = target.partition("?")
    segments = [unquote(segment) for segment in path.split("/")]
    for _ in range(path_encodings):
        segments = [strict(segment) for segment in segments]
    pairs = sorted((strict(name), strict(value)) for name, value in parse_qsl(query, keep_blank_values=True))
    names = sorted(headers)
    lines = [method, "/".join(segments), "&".join(f"{name}={value}" for name, value in pairs)]
    lines += [f"{name}:{' '.join(headers[name].split())}" for name in names]
    lines += ["", ";".join(names), hashlib.sha256(body).hexdigest()]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    key = f"AWS4{SECRET}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    told = "\n".join(["AWS4-HMAC-SHA256", headers["x-amz-date"], scope, digest])
    return hmac.new(key, told.encode(), hashlib.sha256).hexdigest()


@pytest.mark.parametrize(
    ("method", "target", "more", "body", "published"),
    [
        ("GET", "/", {}, b"", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("GET", "/?Param2=value2&Param1=value1", {}, b"",
         "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"),
        ("GET", "/%E1%88%B4", {}, b"", "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"),
        ("POST", "/", {"content-type": "application/x-www-form-urlencoded"}, b"Param1=value1",
         "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"),
    ],
)  # fmt: skip
def test_the_verifier_of_these_tests_computes_what_aws_has_published(
    method: str, target: str, more: dict[str, str], body: bytes, published: str
) -> None:
    headers = {"host": "example.amazonaws.com", "x-amz-date": "20150830T123600Z", **more}
    scope = "20150830/us-east-1/service/aws4_request"
    assert expected_signature(method, target, headers, body, scope, path_encodings=1) == published


@dataclass
class Gateway:
    """An API that answers 403 to what is not signed right, as API Gateway does."""

    url: str
    targets: list[str] = field(default_factory=list)
    signed_headers: list[str] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)

    def accepts(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> bool:
        self.targets.append(target)
        algorithm, _, rest = headers.get("authorization", "").partition(" ")
        if algorithm != "AWS4-HMAC-SHA256":
            return False
        fields = dict(part.split("=", 1) for part in rest.split(", "))
        key_id, _, scope = fields["Credential"].partition("/")
        names = fields["SignedHeaders"].split(";")
        self.signed_headers.append(fields["SignedHeaders"])
        self.hosts.append(headers["host"])
        signed = {name: headers[name] for name in names}
        signature = expected_signature(method, target, signed, body, scope, path_encodings=2)
        return key_id == KEY_ID and fields["Signature"] == signature


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    class Handler(BaseHTTPRequestHandler):
        def serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            accepted = served.accepts(self.command, self.path, headers, body)
            text = json.dumps({"items": [], "run_id": "r1"} if accepted else {"message": "Forbidden"}).encode()
            self.send_response(200 if accepted else 403)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = serve  # noqa: N815 - the names that http.server looks for

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served = Gateway(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield served
        server.shutdown()
        thread.join()


def signing(secret: str = SECRET, session: str | None = None) -> SigV4:
    return SigV4(Credentials(KEY_ID, secret, session), "eu-west-1")


@pytest.mark.parametrize(
    "run_id", ["run_01JABC", "order:4711", "a b", "../stats", "50%", "é", "a+b", "a.b~c-d_e", "x%2Fy", "(1)*!'"]
)
def test_a_path_is_signed_as_it_is_sent(gateway: Gateway, run_id: str) -> None:
    with Client(gateway.url, auth=signing()) as client:
        client.handle(run_id).view()
    assert gateway.targets == [f"/runs/{strict(run_id)}"]


@pytest.mark.parametrize(
    "filters",
    [
        {"workflow": "order review"},
        {"tag": "team=a+b&c", "limit": 5},
        {"since": "2026-11-20T10:00:00+01:00", "waiting_for": "~"},
        {"workflow": "é", "status": "*", "Workflow": "~"},
    ],
)
def test_a_query_is_signed_in_the_order_and_the_encoding_of_the_specification(
    gateway: Gateway, filters: dict[str, Any]
) -> None:
    with Client(gateway.url, auth=signing()) as client:
        client.send(get("/runs", **filters))
    sent = dict(parse_qsl(gateway.targets[0].partition("?")[2], keep_blank_values=True))
    assert sent == {name: str(value) for name, value in filters.items()}
    assert "+" not in gateway.targets[0]


def test_a_body_and_an_idempotency_key_are_signed(gateway: Gateway) -> None:
    with Client(f"{gateway.url}/prod/", auth=signing()) as client:
        client.send(calls.start("order-review", {"name": "é", "amount": 5}, key="k 1"))
    assert gateway.targets == ["/prod/workflows/order-review/runs"]
    assert gateway.signed_headers == ["content-type;host;idempotency-key;x-amz-date"]


def test_a_name_of_this_machine_is_called_and_signed_by_its_name_without_a_resolver(gateway: Gateway) -> None:
    name = f"abc123.execute-api.localhost:{gateway.url.rpartition(':')[2]}"
    with Client(f"http://{name}", auth=signing()) as client:
        client.stats()
    assert gateway.hosts == [name]


def test_the_token_of_temporary_credentials_is_signed_too(gateway: Gateway) -> None:
    with Client(gateway.url, auth=signing(session=SESSION)) as client:
        client.stats()
    assert gateway.signed_headers == ["host;x-amz-date;x-amz-security-token"]


def test_the_verifier_refuses_a_wrong_secret(gateway: Gateway) -> None:
    with Client(gateway.url, auth=signing("another")) as client, pytest.raises(StepwellError) as told:
        client.stats()
    assert told.value.code == "forbidden"
    assert "aws sts get-caller-identity" in (told.value.hint or "")


def test_credentials_are_asked_for_at_every_call_since_a_login_is_renewed(gateway: Gateway) -> None:
    class Expired:
        def get_frozen_credentials(self) -> Any:
            raise CredentialRetrievalError(provider="sso", error_msg="the token has expired")

    auth = SigV4(Expired(), "eu-west-1")
    with Client(gateway.url, auth=auth) as client, pytest.raises(UserError, match="the token has expired") as told:
        client.stats()
    assert (told.value.code, gateway.targets) == ("bad_credentials", [])
    assert "aws sso login" in (told.value.hint or "")


@pytest.fixture
def chain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """boto3's chain of credentials, with nothing of this machine in it."""
    for name in UNSET:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return monkeypatch


def sent_by(access: Access) -> httpx.Headers:
    """The headers of a call."""
    assert access.auth is not None
    return next(access.auth.sync_auth_flow(httpx.Request("GET", f"{DEPLOYED}/stats"))).headers


def credential_of(access: Access) -> str:
    return sent_by(access)["authorization"].partition(", ")[0]


def test_a_token_that_is_a_function_is_asked_for_at_every_call() -> None:
    tokens = iter(("first", "second"))
    access = access_to(DEPLOYED, token=lambda: next(tokens))
    assert [sent_by(access)["authorization"] for _ in range(2)] == ["Bearer first", "Bearer second"]


def test_a_region_has_the_calls_of_a_domain_of_ones_own_signed(chain: pytest.MonkeyPatch) -> None:
    chain.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    chain.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    access = access_to("https://api.example.com", region="eu-south-2")
    assert "/eu-south-2/execute-api/aws4_request" in credential_of(access)


@pytest.mark.parametrize(
    ("url", "region"),
    [
        (DEPLOYED, "eu-west-1"),
        ("https://abc123.execute-api.us-gov-west-1.amazonaws.com/prod/", "us-gov-west-1"),
        ("https://abc123-vpce-01.execute-api.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("https://abc123.execute-api.eusc-de-east-1.amazonaws.eu", "eusc-de-east-1"),
        ("http://abc123.execute-api.localhost:4566", "us-east-1"),
    ],
)
def test_the_region_is_that_of_the_host_name_else_the_environments(
    chain: pytest.MonkeyPatch, url: str, region: str
) -> None:
    chain.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    chain.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    chain.setenv("AWS_REGION", "us-east-1")
    assert f"/{region}/execute-api/aws4_request" in credential_of(access_to(url))


@pytest.mark.parametrize(
    ("url", "given", "kind", "header"),
    [
        (DEPLOYED, {"token": "t0"}, Kind.TOKEN, ("Authorization", "Bearer t0")),
        (DEPLOYED, {"api_key": "k0"}, Kind.KEY, ("x-api-key", "k0")),
        ("https://api.example.com", {}, Kind.OPEN, None),
        ("http://127.0.0.1:8787", {}, Kind.OPEN, None),
        ("https://evil.example/abc.execute-api.eu-west-1.amazonaws.com", {}, Kind.OPEN, None),
        ("https://abc.execute-api.eu-west-1.amazonaws.com.evil.example", {}, Kind.OPEN, None),
    ],
)
def test_a_key_or_a_token_goes_before_a_signature_and_only_api_gateway_gets_one(
    chain: pytest.MonkeyPatch, url: str, given: dict[str, Any], kind: Kind, header: tuple[str, str] | None
) -> None:
    access = access_to(url, **given)
    assert (access.kind, access.auth is None) == (kind, header is None)
    assert not header or sent_by(access)[header[0]] == header[1]
    assert not header or header[1] not in repr(access)


@pytest.mark.parametrize(
    ("variable", "sent"),
    [("STEPWELL_API_KEY", ("x-api-key", "s3")), ("STEPWELL_TOKEN", ("authorization", "Bearer s3"))],
)
def test_the_key_and_the_token_of_the_environment_go_with_every_call(
    api: FakeApi, cli: Cli, monkeypatch: pytest.MonkeyPatch, variable: str, sent: tuple[str, str]
) -> None:
    monkeypatch.setenv(variable, "s3")
    api.on("GET", "/stats", (200, {"by_status": {}}))
    cli("stats", "--json")
    assert [call.headers[sent[0]] for call in api.calls] == [sent[1]]


def test_a_key_that_no_header_can_carry_is_told(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_API_KEY", "“abc”")
    result = cli("stats")
    assert result.exit_code == 2
    assert "STEPWELL_API_KEY has characters that an HTTP header cannot contain [bad_setting]" in result.stderr


def test_no_credentials_are_told_before_anything_is_sent(cli: Cli, chain: pytest.MonkeyPatch) -> None:
    result = cli("stats", "--url", DEPLOYED)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "error: there are no AWS credentials [no_credentials]" in result.stderr
    assert "hint: run aws sso login, or set AWS_PROFILE" in result.stderr


def test_no_region_for_an_emulator_is_told(cli: Cli, chain: pytest.MonkeyPatch) -> None:
    chain.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    chain.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    result = cli("stats", "--url", "http://abc123.execute-api.localhost:4566")
    assert result.exit_code == 2
    assert "error: no AWS region is chosen [no_region]" in result.stderr


def test_a_profile_that_is_not_there_is_told(cli: Cli, chain: pytest.MonkeyPatch) -> None:
    chain.setenv("AWS_PROFILE", "nobody")
    result = cli("stats", "--url", DEPLOYED)
    assert result.exit_code == 2
    assert "(nobody) could not be found [bad_credentials]" in result.stderr


@pytest.mark.parametrize(
    ("status", "message", "environment", "code", "hint"),
    [
        (403, "Forbidden", {}, "forbidden", "the call had no credentials"),
        (401, "Unauthorized", {}, "unauthorized", "set STEPWELL_API_KEY or STEPWELL_TOKEN"),
        (403, "Forbidden", {"STEPWELL_API_KEY": "k"}, "forbidden", "STEPWELL_API_KEY is not the key of this API"),
        (401, "Unauthorized", {"STEPWELL_TOKEN": "t"}, "unauthorized", "STEPWELL_TOKEN is wrong or has expired"),
        (429, "Too Many Requests", {}, "unreachable", "try again"),
        (500, "Internal Server Error", {}, "unreachable", "the log of the api function"),
    ],
)
def test_what_api_gateway_refuses_itself_is_told_with_what_to_do(
    api: FakeApi,
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    message: str,
    environment: dict[str, str],
    code: str,
    hint: str,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    api.on("GET", "/stats", (status, {"message": message}))
    result = cli("stats")
    assert result.exit_code == (4 if code == "unreachable" else 3)
    assert f": {message} [{code}]" in result.stderr
    assert hint in result.stderr


def test_credentials_that_have_expired_are_told_as_such(api: FakeApi) -> None:
    api.on("GET", "/stats", (403, {"message": "The security token included in the request is expired"}))
    with Client(api.url, auth=signing()) as client, pytest.raises(StepwellError, match="is expired") as told:
        client.stats()
    assert (told.value.code, told.value.hint) == ("credentials_expired", "run aws sso login, or get new keys")


def test_an_api_of_tokens_or_keys_says_so_to_a_caller_who_signs() -> None:
    """IAM answers 403 to a signature that it does not take."""
    refused = gateway_refusal(401, "Unauthorized", Kind.SIGNED, acts=False)
    assert (refused.code, refused.hint) == ("unauthorized", UNSIGNED)
    assert gateway_refusal(403, "Forbidden", Kind.SIGNED, acts=False).hint == REFUSALS[Kind.SIGNED]
    expired = gateway_refusal(401, "the token has expired", Kind.SIGNED, acts=False)
    assert (expired.code, expired.hint) == ("credentials_expired", "run aws sso login, or get new keys")
