"""The handlers that API Gateway calls: the API, the webhooks, the authorizer."""

from __future__ import annotations

import base64
import hashlib
import hmac
import importlib.util
import json
from types import ModuleType
from typing import Any

import pytest

from stepwell.api.console import is_built
from stepwell.errors import PortError, UserError
from stepwell.memory.clocks import VirtualClock
from tests.functions.conftest import Deploy
from tests.functions.kit import ROOT, Invocation, event_of
from tests.step_functions.kit import Sent, sfn

ASKS = "workflow: flow\ntimeline: [{name: ok, wait: {for: approval}}, {name: b, run: python:m.b}]"
STEPS = "def b(): return 'done'"
ARN = "arn:aws:sts::123456789012:assumed-role/Operators/ana"
HOOKS = {"sources": {"shop": {
    "scheme": "standard-webhooks", "secret": ["env:SHOP_SECRET"], "event": "body.type", "key": "body.order",
}}}  # fmt: skip
SECRET = b"a-secret-of-the-shop-for-this-test"


# -- the API


@pytest.mark.parametrize(
    ("authorizer", "who"),
    [
        ({"iam": {"userArn": ARN}}, ARN),
        ({"jwt": {"claims": {"sub": "u-1", "email": "ana@example.com"}, "scopes": None}}, "ana@example.com"),
        ({"jwt": {"claims": {"sub": "u-1"}, "scopes": None}}, "u-1"),
        ({"jwt": {"claims": {"sub": "u-1", "email": "ana@example.com", "email_verified": "false"}}}, "u-1"),
        ({"lambda": {}}, ""),
        (None, ""),
    ],
)
def test_who_approves_is_whom_the_gateway_knows(deployed: Deploy, authorizer: Any, who: str) -> None:
    stack = deployed(ASKS, STEPS)
    run_id = stack.start()
    stack.deliver()
    assert stack.call("POST", f"/runs/{run_id}/approve", {}, authorizer=authorizer)[0] == 200
    resumption = stack.records(run_id)[-1].resumption
    assert resumption is not None
    assert resumption.by == who


def test_a_run_costs_what_the_deployed_table_of_prices_says(deployed: Deploy) -> None:
    stack = deployed(ASKS, STEPS, prices={"as_of": "2027-01-31", "million_write_units": 1_000_000})
    run_id = stack.start()
    stack.deliver()
    cost = stack.run(run_id)["cost"]
    assert cost["prices_as_of"] == "2027-01-31"
    assert cost["usd"] == pytest.approx(cost["write_units"], abs=0.001)


def test_what_a_function_takes_is_known_without_its_code(deployed: Deploy) -> None:
    """The deploy has read it, and packed it with the definitions."""
    facts = {
        "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}},
        "queries": ["total"],
        "updates": [],
    }
    stack = deployed("workflow: flow\nfunction: python:m.flow", functions={"python:m.flow": facts})
    status, workflow = stack.call("GET", "/workflows/flow")
    assert (status, {key: workflow[key] for key in facts}) == (200, facts)


@pytest.mark.parametrize("answer", ["approve", "reject"])
@pytest.mark.parametrize(
    ("authorizer", "who", "named"), [({"iam": {"userArn": ARN}}, ARN, "eva"), ({"lambda": {}}, "eva", None)]
)
def test_whom_a_body_names_is_believed_where_nobody_is_known_and_else_kept_beside_the_caller(
    deployed: Deploy, authorizer: Any, who: str, named: str | None, answer: str
) -> None:
    stack = deployed(ASKS, STEPS)
    run_id = stack.start()
    stack.deliver()
    assert stack.call("POST", f"/runs/{run_id}/{answer}", {"by": "eva"}, authorizer=authorizer)[0] == 200
    resumption = stack.records(run_id)[-1].resumption
    assert resumption is not None
    assert (resumption.by, resumption.payload.get("named")) == (who, named)


def test_who_cancels_is_whom_the_gateway_knows(deployed: Deploy) -> None:
    stack = deployed(ASKS, STEPS)
    run_id = stack.start()
    stack.deliver()
    assert stack.call("POST", f"/runs/{run_id}/cancel")[1]["cancelled"] is True
    assert stack.run(run_id)["cancelled_by"] == ARN


def test_whom_a_body_names_is_told_with_the_caller_who_cancels(deployed: Deploy) -> None:
    stack = deployed(ASKS, STEPS)
    run_id = stack.start()
    stack.deliver()
    stack.call("POST", f"/runs/{run_id}/cancel", {"by": "eva"})
    assert stack.run(run_id)["cancelled_by"] == f"eva ({ARN})"


def test_a_body_in_base64_is_the_body(deployed: Deploy) -> None:
    stack = deployed(ASKS, STEPS)
    event = {**event_of("http"), "rawPath": "/workflows/flow/runs", "isBase64Encoded": True}
    event["requestContext"]["http"]["path"] = event["rawPath"]
    event["body"] = base64.b64encode(b'{"run_id": "mine"}').decode()
    answer = stack.function("api").handler(event, Invocation(stack.clock))
    assert (answer["statusCode"], json.loads(answer["body"])["run_id"]) == (201, "mine")


@pytest.mark.parametrize(
    ("raw", "proxy", "status"),
    [
        ("/flows/v1/workflows/flow/runs", "workflows/flow/runs", 201),
        ("/flows/v1/workflows/flo%25x/runs", "workflows/flo%x/runs", 404),  # of a workflow `flo%x`
        ("/flows/v1/workflows/flow/runs", "flow/runs", 404),  # of a mapping that ends like a route
    ],
)
def test_the_path_of_a_custom_domains_mapping_is_none_of_the_apis(
    deployed: Deploy, raw: str, proxy: str, status: int
) -> None:
    """API Gateway leaves the mapping's key in the path: the route that it chose tells where the API's own begins."""
    stack = deployed(ASKS, STEPS)
    event = event_of("http")
    event.update(rawPath=raw, pathParameters={"proxy": proxy}, body="{}")
    answer = stack.function("api").handler(event, Invocation(stack.clock))
    assert answer["statusCode"] == status
    if "%" in proxy:
        assert json.loads(answer["body"])["code"] == "unknown_workflow"


def test_a_link_below_the_path_of_a_custom_domain_is_served(deployed: Deploy) -> None:
    stack = deployed(ASKS, STEPS)
    event = event_of("link")
    event["rawPath"] = f"/flows{event['rawPath']}"
    answer = stack.function("api").handler(event, Invocation(stack.clock))
    assert (answer["statusCode"], answer["headers"]["Content-Type"]) == (404, "text/html; charset=utf-8")


def test_a_link_of_a_stack_without_its_key_leads_nowhere(deployed: Deploy) -> None:
    """As after an update of the code alone: nothing is open for want of a key."""
    stack = deployed(ASKS, STEPS)
    answer = stack.function("api").handler(event_of("link"), Invocation(stack.clock))
    assert (answer["statusCode"], answer["headers"]["Content-Type"]) == (404, "text/html; charset=utf-8")


def test_the_api_serves_no_webhooks(deployed: Deploy) -> None:
    stack = deployed(ASKS, STEPS, webhooks=HOOKS)
    assert stack.call("POST", "/webhooks/shop", {})[0] == 404


@pytest.mark.skipif(not is_built(), reason="the console is not built")
@pytest.mark.parametrize("has_login", [True, False])
def test_the_console_is_served_only_where_people_can_sign_in(
    deployed: Deploy, monkeypatch: pytest.MonkeyPatch, has_login: bool
) -> None:
    """The page names the issuer, and may talk to it and to the live feed alone."""
    login = {"issuer": "https://login.example.com/<a>", "client_id": "console", "audience": "stepwell",
             "origins": ["https://login.example.com", "https://tokens.example.com"]}  # fmt: skip
    monkeypatch.setenv("STEPWELL_LIVE_URL", "wss://live.example.com/live")
    if has_login:
        monkeypatch.setenv("STEPWELL_CONSOLE", json.dumps(login))
    event = event_of("http")
    event["requestContext"]["http"].update(method="GET", path="/")
    event.update(rawPath="/", rawQueryString="", body=None)
    event["headers"]["accept"] = "text/html"
    stack = deployed(ASKS, STEPS)
    found = stack.function("api").handler(event, Invocation(stack.clock))
    if not has_login:
        assert found["statusCode"] == 404
        return
    assert (
        'name="stepwell-login" content="{&quot;issuer&quot;: &quot;https://login.example.com/&lt;a&gt;' in found["body"]
    )
    allowed = "https://login.example.com https://tokens.example.com wss://live.example.com;"
    assert f"connect-src 'self' {allowed}" in found["headers"]["Content-Security-Policy"]


# -- webhooks


def hook(stack: Any, body: bytes, secret: bytes = SECRET, path: str = "/webhooks/shop") -> tuple[int, Any]:
    seconds = stack.clock.now_ms() // 1_000
    signature = hmac.digest(secret, f"msg_1.{seconds}.".encode() + body, hashlib.sha256)
    event = event_of("http")
    event["requestContext"]["http"].update(method="POST", path=path)
    event["headers"].update({
        "webhook-id": "msg_1", "webhook-timestamp": str(seconds),
        "webhook-signature": "v1," + base64.b64encode(signature).decode(),
    })  # fmt: skip
    event.update(rawPath=path, body=body.decode())
    answer = stack.function("webhooks").handler(event, Invocation(stack.clock))
    return answer["statusCode"], json.loads(answer["body"])


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_SECRET", "whsec_" + base64.b64encode(SECRET).decode())


@pytest.mark.usefixtures("shop")
def test_a_signed_webhook_resumes_the_run_that_waits_for_its_event(deployed: Deploy) -> None:
    wait = '{for: event, name: paid, key: "{{ input.order }}"}'
    definition = f"workflow: flow\ntimeline: [{{name: paid, wait: {wait}}}, {{name: b, run: python:m.b}}]"
    stack = deployed(definition, STEPS, webhooks=HOOKS)
    run_id = stack.start({"order": "4711"})
    stack.deliver()
    assert hook(stack, b'{"type": "paid", "order": "4711"}')[0] == 202
    stack.deliver()
    assert stack.run(run_id)["result"] == "done"


@pytest.mark.usefixtures("shop")
def test_a_webhook_that_another_signed_is_refused(deployed: Deploy) -> None:
    stack = deployed(ASKS, STEPS, webhooks=HOOKS)
    status, problem = hook(stack, b'{"type": "paid", "order": "1"}', secret=b"anothers")
    assert (status, problem["code"]) == (401, "bad_signature")


@pytest.mark.usefixtures("shop")
def test_the_webhooks_handler_serves_nothing_else(deployed: Deploy) -> None:
    """Nobody checks who calls it but the route of webhooks itself."""
    stack = deployed(ASKS, STEPS, webhooks=HOOKS)
    for path in ("/runs", "/workflows/flow/runs", "/events"):
        assert hook(stack, b"{}", path=path)[0] == 404


@pytest.mark.usefixtures("shop")
def test_what_a_webhook_brought_is_taken_again_behind_the_api(deployed: Deploy) -> None:
    stack = deployed(ASKS, STEPS, webhooks={"sources": {"shop": {**HOOKS["sources"]["shop"], "keep": "7d"}}})
    assert hook(stack, b'{"type": "paid"}')[0] == 400
    (refused,) = stack.call("GET", "/deliveries")[1]["items"]
    assert (refused["source"], refused["id"], refused["outcome"]) == ("shop", "msg_1", "refused")
    again = {"source": "shop", "delivery": "msg_1"}
    assert stack.call("POST", "/deliveries:replay", again)[0] == 400
    assert hook(stack, b'{"type": "paid", "order": "1"}')[0] == 202
    assert stack.call("POST", "/deliveries:replay", again)[1]["code"] == "already_taken"
    told = stack.call("POST", "/deliveries:replay", {**again, "again": True})
    assert told == (202, {"event_id": "shop:msg_1~replay-1", "replay": 1})


def test_a_folder_without_webhooks_has_no_source(deployed: Deploy) -> None:
    stack = deployed(ASKS, STEPS)
    assert hook(stack, b"{}")[1]["code"] == "unknown_source"


# -- the authorizer


class SecretsManager:
    """Secrets Manager, with one secret."""

    def __init__(self, value: str) -> None:
        self.value, self.calls = value, 0

    def get_secret_value(self, **request: Any) -> dict[str, Any]:
        assert request == {"SecretId": "arn:aws:secretsmanager:eu-west-1:123456789012:secret:ApiKey-a1b2c3"}
        self.calls += 1
        return {"SecretString": self.value}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> VirtualClock:
    made = VirtualClock(1_700_000_000_000)
    monkeypatch.setattr("stepwell.runtime.stores.clocks.RealClock", lambda: made)
    return made


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> SecretsManager:
    made = SecretsManager("key-of-the-api")
    monkeypatch.setattr("stepwell.aws.clients.Clients.secretsmanager", lambda self: made)
    secret = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:ApiKey-a1b2c3"  # noqa: S105 - its name
    monkeypatch.setenv("STEPWELL_API_KEY_SECRET", secret)
    return made


def authorizer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("handler_authorizer", ROOT / "functions" / "authorizer.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.usefixtures("manager", "root_logger")
def test_the_key_lets_its_holder_in(clock: VirtualClock) -> None:
    assert authorizer().handler(event_of("authorizer"), Invocation(clock)) == {"isAuthorized": True}


@pytest.mark.usefixtures("manager", "root_logger")
@pytest.mark.parametrize("headers", [
    {"x-api-key": "key-of-the-ap"}, {"x-api-key": "key-of-the-api "}, {"x-api-key": ""}, {"x-api-key": "\ud800"},
    {}, None,
])  # fmt: skip
def test_anything_else_does_not(clock: VirtualClock, headers: Any) -> None:
    event = {**event_of("authorizer"), "headers": headers}
    assert authorizer().handler(event, Invocation(clock)) == {"isAuthorized": False}


@pytest.mark.usefixtures("manager", "root_logger")
@pytest.mark.parametrize(
    ("key", "more", "is_in"),
    [
        ("key-of-the-api", {}, True),
        ("key-of-the-ap", {}, False),
        ("key-of-the-api/x", {}, False),
        ("key-of-the-api", {"x-api-key": "another"}, False),
        ("AKIDEXAMPLE", {"x-api-key": "key-of-the-api"}, True),
    ],
)
def test_a_key_in_place_of_an_access_keys_id_lets_boto3_in(
    clock: VirtualClock, key: str, more: dict[str, str], is_in: bool
) -> None:
    signed = {"authorization": signed_by(key), **more}
    event = {**event_of("authorizer"), "headers": signed}
    assert authorizer().handler(event, Invocation(clock)) == {"isAuthorized": is_in}


def signed_by(key: str) -> str:
    """The header Authorization of a call of the API of Step Functions."""
    found: list[str] = []
    client = sfn("https://api.example.com", key)

    def answer(request: Any, **_: Any) -> Sent:
        found.append(request.headers["Authorization"].decode())
        return Sent(request.url, {"statusCode": 200, "headers": {}, "body": "{}"})

    client.meta.events.register("before-send.sfn", answer)
    client.list_state_machines()
    return found[0]


@pytest.mark.usefixtures("root_logger")
def test_a_new_key_counts_after_five_minutes(clock: VirtualClock, manager: SecretsManager) -> None:
    handler = authorizer().handler
    event = event_of("authorizer")
    for _ in range(3):
        handler(event, Invocation(clock))
    assert manager.calls == 1
    manager.value = "the-next-key"
    assert handler(event, Invocation(clock))["isAuthorized"]
    clock.advance(300_000)
    assert not handler(event, Invocation(clock))["isAuthorized"]


@pytest.mark.usefixtures("root_logger")
def test_an_empty_secret_lets_nobody_in(clock: VirtualClock, manager: SecretsManager) -> None:
    manager.value = ""
    event = {**event_of("authorizer"), "headers": {"x-api-key": ""}}
    with pytest.raises(PortError, match="empty"):
        authorizer().handler(event, Invocation(clock))


@pytest.mark.usefixtures("root_logger")
def test_an_authorizer_without_the_name_of_its_secret_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STEPWELL_API_KEY_SECRET", raising=False)
    with pytest.raises(UserError, match="STEPWELL_API_KEY_SECRET"):
        authorizer()
