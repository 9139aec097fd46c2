"""Webhooks: what a genuine delivery becomes, once, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import urlencode

import pytest

from stepwell.api.routes import create_app
from stepwell.api.webhooks.route import webhook_routes
from stepwell.limits import BODY_BYTES
from stepwell.runtime.loop.driving import run_now
from tests.api.kit import event
from tests.api.webhook_kit import NOW, WebhookWorld, github, plain, standard, told

BODY = '{"type":"paid","order":"A-1","data":{"amount":7}}'
FORM = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}


@pytest.fixture
def world() -> WebhookWorld:
    return WebhookWorld()


# -- events


def test_a_delivery_resumes_the_run_that_waits_for_its_event(world: WebhookWorld) -> None:
    api = create_app(world.parts)
    started = api.resolve(event("POST", "/workflows/paid/runs", '{"input":{"order":"A-1"},"run_id":"r1"}'))
    assert started["statusCode"] == 201
    world.drain()
    reply = world.deliver("shop", BODY, standard(BODY))
    assert (reply.status, reply.json) == (202, {"event_id": "shop:msg_1"})
    world.drain()
    run = json.loads(api.resolve(event("GET", "/runs/r1"))["body"])
    assert (run["status"], run["state"]["wait"]) == ("completed", {"amount": 7})


def test_the_expressions_read_the_body_the_headers_and_the_query(world: WebhookWorld) -> None:
    body = '{"repository":{"full_name":"octo/hello"},"ref":"main"}'
    reply = world.deliver("github", body, github(body))
    assert reply.json == {"event_id": "github:72d3162e-cc78-11e3-81ab-4c9367dc0958"}
    (one,) = world.queued
    assert (one.topic.name, one.topic.key) == ("github.push", "=octo/hello")
    assert one.payload == json.loads(body)  # the whole body where there is no `payload`


@pytest.mark.parametrize("in_base64", [True, False])
def test_a_form_is_an_object(world: WebhookWorld, in_base64: bool) -> None:
    text = urlencode({"kind": "sms", "text": "grüße & mehr", "empty": ""}) + "&to=1&to=2"
    body = text.encode() if in_base64 else text
    reply = world.deliver(
        "form", body, plain(text, **FORM, Authorization="Basic abc", Cookie="a=b"), "a=1&b=%C3%A4&a=2"
    )
    assert reply.status == 202
    (one,) = world.queued
    assert one.topic.name == "sms"
    assert one.payload["body"] == {"kind": "sms", "text": "grüße & mehr", "empty": "", "to": ["1", "2"]}
    assert one.payload["query"] == {"a": ["1", "2"], "b": "ä"}
    assert {"authorization", "cookie"}.isdisjoint(one.payload["headers"])
    assert "x-signature" in one.payload["headers"]


# -- once


def test_however_often_a_delivery_is_retried_it_is_one_event(world: WebhookWorld) -> None:
    ids = set()
    for retry in range(4):
        body = BODY if retry % 2 else BODY.encode()
        ids.add(world.deliver("shop", body, standard(BODY, at=NOW + retry)).json["event_id"])
    assert ids == {"shop:msg_1"}
    world.drain()
    for order in ("r1", "r2"):
        world.app = create_app(world.parts)
        world.start("paid", run_id=order, input={"order": "A-1"})
    assert [world.get(f"/runs/{run}").json["status"] for run in ("r1", "r2")] == ["completed", "waiting"]


def test_another_delivery_is_another_event_even_with_the_same_body(world: WebhookWorld) -> None:
    for delivery in ("msg_1", "msg_2"):
        assert world.deliver("shop", BODY, standard(BODY, id=delivery)).status == 202
    assert [one.id for one in world.queued] == ["shop:msg_1", "shop:msg_2"]


def test_without_an_id_the_same_body_is_the_same_event(world: WebhookWorld) -> None:
    ids = [world.deliver("plain", body, plain(body)).json["event_id"] for body in ("{}", "{}", "{ }")]
    assert ids[0] == ids[1] != ids[2]
    assert ids[0].startswith("plain:sha256:")


def test_the_same_id_of_two_sources_is_two_deliveries(world: WebhookWorld) -> None:
    ids = {world.deliver(name, "{}", standard("{}")).json.get("run_id") for name in ("starts", "noisy", "checked")}
    assert len(ids) == 3


# -- runs


def test_a_delivery_can_start_a_run_and_its_retries_find_it(world: WebhookWorld) -> None:
    body = '{"amount":5}'
    runs = {world.deliver("starts", body, standard(body)).json["run_id"] for _ in range(3)}
    assert len(runs) == 1
    world.drain()
    world.app = create_app(world.parts)
    run = world.get(f"/runs/{runs.pop()}").json
    assert (run["status"], run["input"], run["result"]) == ("completed", {"amount": 5}, {"charged": 5})
    assert len(world.get("/runs").json["items"]) == 1


def test_a_retry_whose_input_would_be_another_finds_the_first_run_and_wakes_it(world: WebhookWorld) -> None:
    first = world.deliver("noisy", "{}", standard("{}"))
    assert world.messages  # lost: as if the first call had died before it could send the wake
    again = world.deliver("noisy", "{}", standard("{}", at=NOW + 60))
    assert (again.status, again.json) == (202, {**first.json, "duplicate": True})
    world.drain()
    world.app = create_app(world.parts)
    run = world.get(f"/runs/{first.json['run_id']}").json
    assert (run["status"], run["input"]) == ("completed", {"at": str(NOW)})


def test_a_retry_after_its_run_was_deleted_is_a_duplicate_and_starts_nothing(world: WebhookWorld) -> None:
    """The sender is not to try again for hours, until the id is free."""
    first = world.deliver("noisy", "{}", standard("{}"))
    world.drain()
    run_now(world.parts.eraser.delete(first.json["run_id"]))
    again = world.deliver("noisy", "{}", standard("{}", at=NOW + 60))
    assert (again.status, again.json) == (202, {**first.json, "duplicate": True})
    world.app = create_app(world.parts)
    assert world.get("/runs").json["items"] == []


# -- what cannot be mapped


UNMAPPABLE = [
    ("shop", "{}", "unmappable"),  # no `type`
    ("shop", '{"type":"paid","order":"A-1"}', "unmappable"),  # no `data`
    ("shop", '{"type":"","order":"A-1","data":1}', "unmappable"),
    ("shop", '{"type":["paid"],"order":"A-1","data":1}', "unmappable"),
    ("shop", '{"type":true,"order":"A-1","data":1}', "unmappable"),
    ("shop", '{"type":"paid","order":null,"data":1}', "unmappable"),
    ("shop", '{"type":"not a name","order":"A-1","data":1}', "bad_name"),
    ("shop", '{"type":"stepwell.alarm","order":"A-1","data":1}', "reserved_event"),
    ("shop", '{"type":"paid","order":"%s","data":1}' % ("x" * 600), "bad_key"),
    ("shop", '{"type":"paid","order":"a\\nb","data":1}', "bad_key"),
    ("shop", "", "unmappable"),
    ("shop", "type=paid", "bad_json"),
    ("shop", '{"type":"paid","type":"paid"}', "bad_json"),
    ("shop", '{"type":NaN}', "bad_json"),
    ("shop", "[" * 100 + "]" * 100, "too_deep"),
    ("shop", '{"type":1e999}', "not_finite"),
    ("shop", b"\xff\xfe", "bad_json"),
    ("checked", '{"amount":"many"}', "invalid_input"),  # the workflow's input_schema
    ("shop", '{"type":123456789012345678901234567890}', "number_too_large"),
    ("shop", '{"type":"\\ud800"}', "bad_text"),
]


@pytest.mark.parametrize(("source", "body", "code"), UNMAPPABLE)
def test_what_cannot_be_mapped_is_refused_and_nothing_is_queued(
    world: WebhookWorld, source: str, body: str | bytes, code: str
) -> None:
    assert told(world.deliver(source, body, standard(body))) == (400, code)
    assert world.messages == []


def test_the_page_of_webhooks_has_each_code_of_a_400() -> None:
    page = (Path(__file__).parents[2] / "docs/webhooks.md").read_text()
    table = page.partition("The code of a 400 says")[2].partition("A replay answers")[0]
    cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("|")]
    named = {code for cell in cells for code in re.findall("`([a-z_]+)`", cell)}
    assert named == {code for _, _, code in UNMAPPABLE}


def test_json_that_is_sent_as_a_form_is_told_to_be_one(world: WebhookWorld) -> None:
    """As curl sends it with -d alone."""
    body = '{"meter": "m-1", "reading": 7}'
    reply = world.deliver("form", body, plain(body, **{"Content-Type": "application/x-www-form-urlencoded"}))
    assert told(reply) == (400, "unmappable")
    assert reply.json["hint"].endswith("says that it is a form: send content-type: application/json")
    form = "reading=7"
    reply = world.deliver("form", form, plain(form, **{"Content-Type": "application/x-www-form-urlencoded"}))
    assert reply.json["hint"] == "check the source's expressions in webhooks.yaml"


def test_a_form_that_is_not_utf8_is_refused(world: WebhookWorld) -> None:
    for body in (b"kind=\xff", b"kind=%FF", b"kind=sms" + b"&a" * 2_000):
        assert told(world.deliver("form", body, plain(body, **FORM))) == (400, "unmappable")


def test_a_delivery_without_the_id_of_its_scheme_is_refused(world: WebhookWorld) -> None:
    body = '{"repository":{"full_name":"octo/hello"}}'
    for delivery in ("", "1,2"):
        reply = world.deliver("github", body, github(body, **{"X-GitHub-Delivery": delivery}))
        assert told(reply) == (400, "unmappable")


def test_an_expression_that_would_compute_too_long_is_stopped(world: WebhookWorld) -> None:
    body = json.dumps({"a": list(range(500))})
    assert told(world.deliver("loop", body, plain(body))) == (400, "unmappable")


def test_a_body_over_the_limit_is_refused_before_anything_is_computed(world: WebhookWorld) -> None:
    body = b'"' + b"x" * BODY_BYTES + b'"'
    for sent in (body, body.decode()):
        assert told(world.deliver("plain", sent, {})) == (413, "body_too_large")
    fits = b'"' + b"x" * (BODY_BYTES - 2) + b'"'
    assert world.deliver("plain", fits, plain(fits)).status == 202


# -- the route


@pytest.mark.parametrize("name", ["nothing", "SHOP", "shop%20", "..", "%2e%2e"])
def test_an_unknown_source_is_told(world: WebhookWorld, name: str) -> None:
    reply = world.deliver(name, BODY, standard(BODY))
    assert told(reply) == (404, "unknown_source")
    assert "shop" not in reply.text


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_another_method_is_refused(world: WebhookWorld, method: str) -> None:
    reply = world.send(event(method, "/webhooks/shop", BODY, headers=standard(BODY)))
    assert (*told(reply), reply.headers["Allow"]) == (405, "method_not_allowed", "POST, OPTIONS")
    assert world.messages == []


def test_the_door_of_webhooks_serves_nothing_else(world: WebhookWorld) -> None:
    assert world.get("/runs").status == 404
    assert world.post("/events", {"name": "paid"}).status == 404
    assert world.messages == []


def test_a_body_that_says_it_is_base64_and_is_not_is_refused(world: WebhookWorld) -> None:
    call = {**event("POST", "/webhooks/shop", "%%%", headers=standard("%%%")), "isBase64Encoded": True}
    assert told(world.send(call)) == (400, "bad_json")


def test_the_document_of_the_api_has_the_route(world: WebhookWorld) -> None:
    world.app = create_app(world.parts, webhook_routes(lambda: world.sources))
    found = world.get("/openapi.json").json
    operation = found["paths"]["/webhooks/{source}"]["post"]
    assert {"202", "400", "401", "404", "413"} <= operation["responses"].keys()
    assert "TakenView" in found["components"]["schemas"]


def test_sources_may_change_while_they_are_served(world: WebhookWorld) -> None:
    assert world.deliver("shop", BODY, standard(BODY)).status == 202
    world.sources = {}
    assert world.deliver("shop", BODY, standard(BODY)).status == 404
