"""Each scheme against signatures that others made: what is genuine comes in once, what is forged does not."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import parse_qsl, urlencode

import pytest

from stepwell.engine.waits import event_topic
from stepwell.runtime.loop.driving import run_now
from tests.api.kit import Reply
from tests.api.webhook_kit import WebhookWorld, told
from tests.api.webhook_vectors import (
    DOCUSIGN_BODY,
    FORM,
    SLACK_SECONDS,
    SLACK_SECRET,
    TWILIO_FORM,
    TWILIO_HASH,
    TWILIO_URL,
    VECTORS,
    Vector,
)

OTHER = {  # the secret that a rotation has brought in; nothing here is signed with it
    "standard-webhooks": "whsec_bm90IHRoaXMgb25l",
    "basic": "Aladdin:not this one",
}


def world_of(vector: Vector, **changed: str) -> WebhookWorld:
    """Serves the vector's source alone, at its time."""
    scheme = vector.source.partition("scheme: ")[2].partition(",")[0]
    secrets = {"SECRET": vector.secret, "OTHER": OTHER.get(scheme, "not this one"), **changed}
    world = WebhookWorld(f"sources: {{source: {vector.source}}}", secrets)
    world.clock.set(vector.seconds * 1_000)
    return world


def deliver(world: WebhookWorld, vector: Vector, body: bytes | None = None) -> Reply:
    return world.deliver("source", vector.body if body is None else body, vector.headers, vector.query)


def id_of(reply: Reply) -> str:
    return reply.headers["Stepwell-Event-Id"] if reply.status == 200 else reply.json["event_id"]


def with_proof(vector: Vector, change: Callable[[str], str]) -> Vector:
    return replace(vector, headers={**vector.headers, vector.proof: change(vector.headers[vector.proof])})


@pytest.mark.parametrize("vector", VECTORS.values(), ids=list(VECTORS))
def test_a_genuine_delivery_is_one_event_however_often_it_comes(vector: Vector) -> None:
    """As text or in base64, at once or at the ends of its window."""
    world = world_of(replace(vector, seconds=vector.seconds - 300))
    replies = []
    for seconds in (-300, 0, 300):
        world.clock.set((vector.seconds + seconds) * 1_000)
        replies += [deliver(world, vector), deliver(world, vector, vector.body.encode())]
    assert {reply.status for reply in replies} == {vector.status}, replies[0].text
    (event_id,) = {id_of(reply) for reply in replies}
    assert event_id.startswith(vector.event_id)
    world.drain()
    assert len(run_now(world.store.pending_events(event_topic("came", ""), world.clock.now_ms()))) == 1


def _one_off(text: str) -> str:
    """Another character near the end, where base64 has no spare bits."""
    at = len(text) - 8
    return text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]


def _again(vector: Vector) -> str:
    if vector.headers.get("content-type") == FORM:
        return urlencode(list(reversed(parse_qsl(vector.body, keep_blank_values=True))))
    return json.dumps(json.loads(vector.body), indent=1)


def _versions(value: str) -> str:
    for one, other in (("v1", "v2"), ("v0=", "v1="), ("sha256=", "sha1=")):
        if one in value:
            return value.replace(one, other)
    raise AssertionError(value)


def _body(vector: Vector, body: str) -> tuple[WebhookWorld, Vector]:
    return world_of(vector), replace(vector, body=body)


def _proof(vector: Vector, change: Callable[[str], str]) -> tuple[WebhookWorld, Vector]:
    return world_of(vector), with_proof(vector, change)


Forge = Callable[[Vector], tuple[WebhookWorld, Vector]]
ANY: Callable[[Vector], bool] = lambda vector: True  # noqa: E731 - a row of the table below
FORGERIES: dict[str, tuple[Callable[[Vector], bool], Forge]] = {
    "one byte of the body": (lambda one: one.covers_body, lambda one: _body(one, _one_off(one.body))),
    "truncated": (lambda one: one.covers_body, lambda one: _body(one, one.body[:-3])),
    "longer": (lambda one: one.covers_body, lambda one: _body(one, one.body + "&a=1")),
    "re-encoded": (lambda one: one.covers_body and not one.reads_fields, lambda one: _body(one, _again(one))),
    "one byte of the proof": (ANY, lambda one: _proof(one, _one_off)),
    "half of the proof": (ANY, lambda one: _proof(one, lambda value: value[: len(value) // 2])),
    "no proof": (ANY, lambda one: (world_of(one), replace(one, headers={**one.headers, one.proof: ""}))),
    "no header": (
        ANY,
        lambda one: (world_of(one), replace(one, headers={n: v for n, v in one.headers.items() if n != one.proof})),
    ),
    "the header twice": (ANY, lambda one: _proof(one, lambda value: f"{value},{value}")),
    "no ASCII": (ANY, lambda one: _proof(one, lambda value: value[:-4] + "äöü٣")),
    "another version": (lambda one: one.versioned, lambda one: _proof(one, _versions)),
    "old": (lambda one: one.timed, lambda one: (world_of(replace(one, seconds=one.seconds + 301)), one)),
    "of the future": (lambda one: one.timed, lambda one: (world_of(replace(one, seconds=one.seconds - 301)), one)),
    "another secret": (ANY, lambda one: (world_of(one, SECRET=one.secret[:-2] + "=="), one)),
    "another query": (lambda one: bool(one.query), lambda one: (world_of(one), replace(one, query="foo=1&bar=3"))),
}
FORGED = [
    pytest.param(vector, forge, id=f"{name}, {how}")
    for name, vector in VECTORS.items()
    for how, (applies, forge) in FORGERIES.items()
    if applies(vector)
]


@pytest.mark.parametrize(("vector", "forge"), FORGED)
def test_a_forgery_is_refused_writes_nothing_and_learns_nothing(
    vector: Vector, forge: Forge, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    world, forged = forge(vector)
    reply = deliver(world, forged)
    assert told(reply) == (401, "bad_signature"), reply.text
    assert world.messages == []
    learnt = reply.text + str(reply.headers) + caplog.text
    assert vector.secret not in learnt
    right = vector.headers[vector.proof].rpartition("=" if vector.versioned else " ")[2] or vector.headers[vector.proof]
    assert right not in learnt


# -- stripe


def test_of_several_stripe_signatures_one_is_enough_and_old_kinds_do_not_count() -> None:
    vector = VECTORS["stripe"]
    rolled = with_proof(vector, lambda value: value.replace(",v1=", f",v1={'0' * 64},v1=") + f",v0={'1' * 64}")
    assert deliver(world_of(vector), rolled).status == 202
    untimed = with_proof(vector, lambda value: value.partition(",")[2])
    assert deliver(world_of(vector), untimed).status == 401


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda value: value + "," + value, "occurs more than once"),  # as a gateway joins a repeated header
        (lambda value: value + ",t=1", "occurs more than once"),
        (lambda value: value.replace(",v1=", ",v1=,v1="), "has an empty signature"),
        (lambda value: value + ",", "has an empty part"),
        (lambda value: value.replace(",v1=", ", ,v1="), "has an empty part"),
    ],
)
def test_a_stripe_signature_with_a_repeated_time_or_an_empty_part_is_refused(
    change: Callable[[str], str], why: str
) -> None:
    reply = deliver(world_of(VECTORS["stripe"]), with_proof(VECTORS["stripe"], change))
    assert (reply.status, reply.json["code"]) == (401, "bad_signature")
    assert reply.json["detail"] == f"the header stripe-signature {why}"


def test_a_second_stripe_header_without_a_time_is_more_entries_of_the_first() -> None:
    forged = with_proof(VECTORS["stripe"], lambda value: f"{value},v1={'0' * 64}")
    assert deliver(world_of(VECTORS["stripe"]), forged).status == 202


def test_an_empty_signature_beside_a_good_one_is_refused() -> None:
    vector = VECTORS["standard-webhooks"]
    reply = deliver(world_of(vector), with_proof(vector, lambda value: value + " v1,"))
    assert (reply.status, reply.json["detail"]) == (401, "the header webhook-signature has an empty signature")


def test_a_stripe_event_starts_one_run() -> None:
    source = "{scheme: stripe, secret: env:SECRET, workflow: quick, input: '{\"amount\": body.created}'}"
    vector = replace(VECTORS["stripe"], source=source)
    world = world_of(vector)
    runs = {deliver(world, vector).json["run_id"] for _ in range(3)}
    assert len(runs) == 1


# -- slack


def slack(body: str, signature: str, content_type: str = "application/json") -> Vector:
    headers = {
        "x-slack-signature": f"v0={signature}",
        "x-slack-request-timestamp": str(SLACK_SECONDS),
        "content-type": content_type,
    }
    source = "{scheme: slack, secret: env:SECRET, event: \"'slack.' + body.type\", payload: body}"
    return Vector(source, SLACK_SECRET, headers, body, "", SLACK_SECONDS)


CHALLENGE = slack(
    '{"token":"Jhj5dZrVaK7ZwHHjRyZWjbDl","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P",'
    '"type":"url_verification"}',
    "f9bd80929259f3f6d5fe3a3186c453c89cd1ad4862815a15837584f31c993652",
)
PRESSED = slack(
    "payload=%7B%22type%22%3A%22block_actions%22%2C%22user%22%3A%7B%22id%22%3A%22U2CERLKJA%22%7D%2C%22trigger_id%22%3A"
    "%2212321423423.333649436676.d8c1bb837935619ccad0f624c448ffb3%22%2C%22actions%22%3A%5B%7B%22action_id%22%3A"
    "%22approve%22%2C%22value%22%3A%22A-1%22%7D%5D%7D",
    "59ae841214a6f589333e6d6f09a42810035c93c965d5e17267e7fde9c46df90c",
    FORM,
)


def test_the_challenge_of_slack_is_answered_only_where_slack_asks() -> None:
    world = world_of(CHALLENGE)
    reply = deliver(world, CHALLENGE)
    assert (reply.status, reply.json) == (200, {"challenge": "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"})
    assert deliver(world, with_proof(CHALLENGE, _one_off)).status == 401
    assert world.messages == []


def test_a_button_of_slack_is_its_json_and_the_answer_is_empty() -> None:
    """Slack shows a person what a button or a command is answered."""
    world = world_of(PRESSED)
    reply = deliver(world, PRESSED)
    assert (reply.status, reply.text) == (200, "")
    (event,) = world.queued
    assert event.topic.name == "slack.block_actions"
    assert event.payload["actions"][0] == {"action_id": "approve", "value": "A-1"}


def test_a_form_of_github_is_its_json_too() -> None:
    headers = {
        "x-hub-signature-256": "sha256=1fc8bf6145b8e3b76b01404760bc7e884a641ad0fe4b9b66ced27d4a983cce1c",
        "x-github-delivery": "1",
        "content-type": FORM,
    }
    body = "payload=%7B%22zen%22%3A%22Keep+it+logically+awesome.%22%7D"
    world = world_of(VECTORS["github"])
    assert deliver(world, replace(VECTORS["github"], headers=headers, body=body)).status == 202
    assert [event.payload for event in world.queued] == [{"zen": "Keep it logically awesome."}]


# -- shopify


def test_shopify_may_name_its_headers_without_the_x() -> None:
    vector = VECTORS["shopify"]
    renamed = {name.removeprefix("x-"): value for name, value in vector.headers.items()}
    assert deliver(world_of(vector), replace(vector, headers=renamed)).json == {"event_id": vector.event_id}


# -- twilio


@pytest.mark.parametrize(
    ("url", "signature", "body"),
    [
        (TWILIO_URL, "kvajT1Ptam85bY51eRf/AJRuM3w=", TWILIO_FORM),  # signed with the usual port
        ("https://mycompany.com:1234/myapp.php", "RSOYDt4T1cUTdK1PDd93/VVr8B8=", TWILIO_FORM),  # and without another
        (TWILIO_URL, "IK+Dwps556ElfBT0I3Rgjkr1wJU=", "Sid=CA123&SidAccount=AC123&Digits=5678&Digits=1234&Digits=1234"),
    ],
)
def test_twilio_signs_by_its_own_rules_of_ports_and_repeated_fields(url: str, signature: str, body: str) -> None:
    vector = VECTORS["twilio: a form"]
    moved = replace(vector, source=vector.source.replace(TWILIO_URL, url), body=body)
    assert deliver(world_of(moved), with_proof(moved, lambda _: signature)).status == 200


def test_twilio_may_sign_with_sha256_and_says_so() -> None:
    vector = with_proof(VECTORS["twilio: a form"], lambda _: "033hgUJA9M/hXIZsYjwkerEP/DBm35nEri5FhCYjA5s=")
    settings = "x-twilio-webhooks-signature-settings"
    for algorithm, status in (("HMAC_SHA256", 200), ("HMAC_SHA1", 401), ("MD5", 401)):
        headers = {**vector.headers, settings: f"key=webhooks_sharedkey_1,algorithm={algorithm}"}
        assert deliver(world_of(vector), replace(vector, headers=headers)).status == status
    assert deliver(world_of(vector), vector).status == 401


def test_the_url_that_twilio_signs_is_the_one_it_called_unless_the_source_says_another() -> None:
    vector = VECTORS["twilio: a form"]
    source = vector.source.replace(f", url: '{TWILIO_URL}'", "")
    headers = {**vector.headers, "host": "api.example.com", vector.proof: "AdF61dT6jlgb7pH+TWewUyJVu8k="}
    called = replace(vector, source=source, headers=headers, query="")
    reply = deliver(world_of(called), called)
    assert (reply.status, reply.headers["Content-Type"]) == (200, "text/xml")
    assert reply.text.endswith("<Response/>")
    for host in ("evil.example.com", "a,b", "[::1", "", "::", "http://x/"):
        assert deliver(world_of(called), replace(called, headers={**headers, "host": host})).status == 401


OF_THE_URL = "zYQTYrRWXE7LtzbG4PfP7/bkkGo="  # the signatures of the URLs alone
WITH_ITS_HASH = "a9nBmqA0ju/hNViExpshrM61xv4="


@pytest.mark.parametrize(
    ("body", "content_type", "query", "signature"),
    [
        ('{"amount": 1}', "application/json", "foo=1&bar=2", OF_THE_URL),
        ("a=%FF", FORM, "foo=1&bar=2", OF_THE_URL),
        ("", FORM, f"foo=1&bar=2&bodySHA256={TWILIO_HASH}", WITH_ITS_HASH),  # a form in place of the JSON
        ('{"amount": 1}', "application/json", f"foo=1&bar=2&bodySHA256={TWILIO_HASH}", WITH_ITS_HASH),
        ('{"property": "value", "boolean": true}', "application/json",
         f"bodySHA256={TWILIO_HASH}&bodySHA256={'0' * 64}", "03tjhr6coR/r5VRPGTS30NYMc7U="),
    ],
)  # fmt: skip
def test_a_body_that_the_signature_of_a_url_does_not_cover_is_refused(
    body: str, content_type: str, query: str, signature: str
) -> None:
    """Although the URL itself is signed."""
    vector = VECTORS["twilio: JSON"]
    headers = {"x-twilio-signature": signature, "content-type": content_type}
    world = world_of(vector)
    reply = deliver(world, replace(vector, headers=headers, body=body, query=query))
    assert told(reply) == (401, "bad_signature")
    assert world.messages == []


def test_the_hash_of_a_form_stands_for_its_fields() -> None:
    vector = VECTORS["twilio: a form"]
    query = "bodySHA256=7ff5f5e8aa2f59e9e4958d3779bcfedc75baf44652736a1c49a7a2371f0717ab"
    hashed = with_proof(replace(vector, query=query), lambda _: "M2daTd2yPympdpWTC4aWFUfXqfA=")
    assert deliver(world_of(vector), hashed).status == 200


# -- docusign


def test_docusign_signs_with_each_of_its_keys_and_one_is_enough() -> None:
    vector = VECTORS["docusign"]
    headers = {"x-docusign-signature-1": "A" * 43 + "=", "x-docusign-signature-12": vector.headers[vector.proof]}
    assert deliver(world_of(vector), replace(vector, headers=headers)).status == 202
    assert deliver(world_of(vector), replace(vector, headers={"x-docusign-signature-x": headers[
        "x-docusign-signature-12"]})).status == 401  # fmt: skip


def test_a_retry_of_docusign_counts_itself_and_is_the_same_event() -> None:
    vector = VECTORS["docusign"]
    world = world_of(vector)
    retry = replace(
        vector,
        headers={"x-docusign-signature-1": "bOcWHU/6JEXVM0xiKxtLMGc0n0RCuuPKS45zlWN38h8="},
        body=DOCUSIGN_BODY.replace('"retryCount":0', '"retryCount":1'),
    )
    first, again = deliver(world, vector).json, deliver(world, retry).json
    assert again == {**first, "duplicate": True}


# -- basic and none


def test_who_comes_without_a_password_is_asked_for_one() -> None:
    vector = VECTORS["basic"]
    reply = deliver(world_of(vector), replace(vector, headers={}))
    assert (reply.status, reply.headers["WWW-Authenticate"]) == (401, 'Basic realm="source"')
    for wrong in ("Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "Basic", "Basic ???", "QWxhZGRpbjpvcGVuIHNlc2FtZQ=="):
        assert deliver(world_of(vector), replace(vector, headers={"authorization": wrong})).status == 401
    broken = {"SECRET": "no colon", "OTHER": ""}
    assert told(deliver(world_of(vector, **broken), vector)) == (503, "secret_unavailable")


def test_a_source_that_is_unsigned_by_its_own_word_takes_what_comes() -> None:
    vector = Vector("{scheme: none, secret: none, event: body.type}", "", {}, '{"type":"came"}', "")
    world = world_of(vector)
    ids = [deliver(world, vector).json["event_id"] for _ in range(2)]
    assert ids[0] == ids[1]
    assert ids[0].startswith("source:sha256:")
