"""Signatures: the published vectors, rotation, replays, and forgeries, of which none gets anything queued."""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
from collections.abc import Callable

import pytest

from stepwell.errors import PortError
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports.headers import RunQuery
from tests.api.kit import START_MS
from tests.api.webhook_kit import ENVIRONMENT, KEY, NOW, WebhookWorld, github, plain, standard, told

BODY = '{"type":"paid","order":"A-1","data":{"amount":7}}'


@pytest.fixture
def world() -> WebhookWorld:
    return WebhookWorld()


# -- what others have published


def test_the_vector_of_standard_webhooks_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENVIRONMENT, "STANDARD", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    world = WebhookWorld(
        "sources: {shop: {scheme: standard-webhooks, secret: env:STANDARD, event: \"'test'\", payload: body.test}}"
    )
    world.clock.set(1_614_265_330_000)
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    assert world.deliver("shop", '{"test": 2432232314}', headers).status == 202
    assert [event.payload for event in world.queued] == [2432232314]
    svix = {name.replace("webhook-", "svix-"): value for name, value in headers.items()}
    assert world.deliver("shop", '{"test": 2432232314}', svix).status == 202
    assert told(world.deliver("shop", '{"test": 2432232315}', headers)) == (401, "bad_signature")


def test_the_vector_of_github_has_the_right_signature() -> None:
    world = WebhookWorld(
        "sources: {github: {scheme: github, secret: env:GITHUB, event: \"'hello'\", payload: \"'said'\"}}"
    )
    signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    headers = {"X-Hub-Signature-256": signature, "X-GitHub-Delivery": "1", "content-type": "text/plain"}
    reply = world.deliver("github", "Hello, World!", headers)
    assert told(reply) == (400, "bad_json")  # the signature is right; the text is no JSON
    headers["X-Hub-Signature-256"] = signature.replace("757", "758")
    assert told(world.deliver("github", "Hello, World!", headers)) == (401, "bad_signature")


# -- what is accepted


@pytest.mark.parametrize("body", [BODY, BODY.encode()])
def test_the_signature_is_over_the_bytes_whether_they_came_in_base64_or_not(
    world: WebhookWorld, body: str | bytes
) -> None:
    assert world.deliver("shop", body, standard(BODY)).status == 202
    (event,) = world.queued
    assert (event.topic.name, event.topic.key, event.payload) == ("paid", "=A-1", {"amount": 7})


def test_a_body_whose_bytes_are_not_those_of_its_json_is_taken_as_it_was_sent(world: WebhookWorld) -> None:
    body = '{ "type" : "paid",\r\n "order":"\\u00e4", "data": "ä" }'.encode()
    assert world.deliver("shop", body, standard(body)).status == 202
    assert [(event.topic.key, event.payload) for event in world.queued] == [("=ä", "ä")]


@pytest.mark.parametrize("key", [b"the key before it", KEY])
def test_during_a_rotation_both_secrets_are_good(world: WebhookWorld, key: bytes) -> None:
    assert world.deliver("shop", BODY, standard(BODY, key=key)).status == 202


def test_a_sender_may_show_several_signatures_of_several_kinds(world: WebhookWorld) -> None:
    headers = standard(BODY)
    other = standard(BODY, key=b"another")["Webhook-Signature"]
    headers["Webhook-Signature"] = f"v1a,{'A' * 86}== {other} {headers['Webhook-Signature']}"
    assert world.deliver("shop", BODY, headers).status == 202


def test_another_digest_another_encoding_and_a_prefix_of_its_own(world: WebhookWorld) -> None:
    digest = hmac.new(b"plain secret", b'{"number":5}', hashlib.sha512).digest()
    headers = {"x-signature": "v=" + base64.b64encode(digest).decode()}
    assert world.deliver("long", '{"number":5}', headers).json == {"event_id": "long:5"}


def test_a_secret_that_is_gone_does_not_stop_the_others(world: WebhookWorld) -> None:
    assert world.deliver("lost", BODY, github(BODY)).status == 202


# -- replays


@pytest.mark.parametrize("seconds", [-300, 0, 300])
def test_a_delivery_within_five_minutes_of_its_time_is_accepted(world: WebhookWorld, seconds: int) -> None:
    assert world.deliver("shop", BODY, standard(BODY, at=NOW + seconds)).status == 202


@pytest.mark.parametrize("seconds", [-301, 301, -(10**9), 10**10])
def test_one_from_the_past_or_from_the_future_is_refused(world: WebhookWorld, seconds: int) -> None:
    reply = world.deliver("shop", BODY, standard(BODY, at=NOW + seconds))
    assert told(reply) == (401, "bad_signature")
    assert reply.json["hint"].startswith("write the time of the sending")
    assert world.queued == []


def test_the_hint_of_a_refused_delivery_is_about_its_cause(world: WebhookWorld) -> None:
    unsigned = world.deliver("shop", BODY, {})
    wrong = world.deliver("shop", BODY, standard("another"))
    assert [unsigned.json["hint"].partition(":")[0], wrong.json["hint"].partition(" that")[0]] == [
        "send it with each delivery",
        "sign the raw body with the secret",
    ]


def test_a_delivery_that_was_recorded_is_refused_later(world: WebhookWorld) -> None:
    headers = standard(BODY)
    assert world.deliver("shop", BODY, headers).status == 202
    world.clock.set(START_MS + 300_001)
    assert world.deliver("shop", BODY, headers).status == 401
    assert len(world.queued) == 1


# -- forgeries

FORGERIES: dict[str, Callable[[dict[str, str]], tuple[str, dict[str, str]]]] = {
    "another body": lambda signed: (BODY.replace("7", "8"), signed),
    "one byte more": lambda signed: (BODY + " ", signed),
    "no signature": lambda signed: (BODY, {**signed, "Webhook-Signature": ""}),
    "no headers": lambda signed: (BODY, {}),
    "another id": lambda signed: (BODY, {**signed, "Webhook-Id": "msg_2"}),
    "no id": lambda signed: (BODY, {name: value for name, value in signed.items() if name != "Webhook-Id"}),
    "another time": lambda signed: (BODY, {**signed, "Webhook-Timestamp": str(NOW + 1)}),
    "no time": lambda signed: (BODY, {**signed, "Webhook-Timestamp": ""}),
    "a time in other digits": lambda signed: (BODY, standard(BODY, at="١٨٠٠٠٠٠٠٠٠")),
    "a time with a fraction": lambda signed: (BODY, standard(BODY, at=f"{NOW}.0")),
    "a time with a sign": lambda signed: (BODY, standard(BODY, at=f"+{NOW}")),
    "two times": lambda signed: (BODY, standard(BODY, at=f"{NOW},{NOW}")),
    "two ids": lambda signed: (BODY, standard(BODY, id="msg_1,msg_1")),
    "two signature headers": lambda signed: (
        BODY,
        {**signed, "Webhook-Signature": f"v1,AAAA,{signed['Webhook-Signature']}"},
    ),
    "another secret": lambda signed: (BODY, standard(BODY, key=b"guessed")),
    "an empty secret": lambda signed: (BODY, standard(BODY, key=b"")),
    "the secret undecoded": lambda signed: (BODY, standard(BODY, key=ENVIRONMENT["STANDARD"].encode())),
    "another version": lambda signed: (
        BODY,
        {**signed, "Webhook-Signature": signed["Webhook-Signature"].replace("v1", "v2")},
    ),
    "a part of it": lambda signed: (BODY, {**signed, "Webhook-Signature": signed["Webhook-Signature"][:-5]}),
    "more than it": lambda signed: (BODY, {**signed, "Webhook-Signature": signed["Webhook-Signature"] + "A"}),
    "no ASCII": lambda signed: (BODY, {**signed, "Webhook-Signature": "v1,ÄÖÜ"}),
    "an empty one": lambda signed: (BODY, {**signed, "Webhook-Signature": "v1,"}),
    "the parts shifted": lambda signed: (f"{NOW}.{BODY}", {**signed, "Webhook-Id": "msg_1", "Webhook-Timestamp": ""}),
    "another scheme's": lambda signed: (BODY, github(BODY, key=ENVIRONMENT["STANDARD"])),
    "another source's": lambda signed: (
        BODY,
        {**signed, **plain(BODY), "Webhook-Signature": plain(BODY)["X-Signature"]},
    ),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=list(FORGERIES))
def test_a_forgery_is_refused_and_nothing_is_queued(
    world: WebhookWorld, forge: Callable[[dict[str, str]], tuple[str, dict[str, str]]]
) -> None:
    body, headers = forge(standard(BODY))
    reply = world.deliver("shop", body, headers)
    assert told(reply) == (401, "bad_signature"), reply.text
    assert world.queued == []
    assert world.deliver("shop", BODY, standard(BODY)).status == 202  # the same world takes what is genuine


@pytest.mark.parametrize(
    "signature",
    ["", "sha256=", "sha1=" + "0" * 40, "757107ea", "sha256=" + "0" * 64, "sha256=" + "0" * 64 + "," + "sha256="],
)
def test_a_forged_github_delivery_is_refused_and_nothing_is_queued(world: WebhookWorld, signature: str) -> None:
    headers = {**github(BODY), "X-Hub-Signature-256": signature}
    assert told(world.deliver("github", BODY, headers)) == (401, "bad_signature")
    assert world.queued == []


@pytest.mark.parametrize("source", ["github", "shop"])
def test_a_genuine_signature_that_came_twice_is_refused_for_that(world: WebhookWorld, source: str) -> None:
    headers = {**github(BODY), **standard(BODY)}
    doubled = {name: f"{value},{value}" if "ignature" in name else value for name, value in headers.items()}
    reply = world.deliver(source, BODY, doubled)
    assert told(reply) == (401, "bad_signature")
    assert reply.json["detail"].endswith("occurs more than once")


def test_hexadecimal_digits_of_a_signature_may_be_in_upper_case(world: WebhookWorld) -> None:
    digest = hmac.new(b"plain secret", BODY.encode(), hashlib.sha256).hexdigest()
    assert world.deliver("plain", BODY, {"x-signature": digest.upper()}).status == 202


def test_a_github_signature_of_an_upper_case_scheme_or_of_sha1_is_none(world: WebhookWorld) -> None:
    upper = github(BODY)
    upper["X-Hub-Signature-256"] = upper["X-Hub-Signature-256"].upper()
    assert world.deliver("github", BODY, upper).status == 401
    sha1 = hmac.new(ENVIRONMENT["GITHUB"].encode(), BODY.encode(), hashlib.sha1).hexdigest()
    only = {"X-Hub-Signature": f"sha1={sha1}", "X-GitHub-Event": "push", "X-GitHub-Delivery": "1"}
    assert world.deliver("github", BODY, only).status == 401


@pytest.mark.parametrize(
    ("source", "key", "code"),
    [
        ("empty", b"", "secret_missing"),
        ("broken", b"a key", "secret_unavailable"),
        ("blank", b"", "secret_unavailable"),
    ],
)
def test_a_secret_that_is_empty_or_broken_proves_nothing(
    world: WebhookWorld, source: str, key: bytes, code: str
) -> None:
    """It is this side's fault: the sender is told to try again."""
    signature = hmac.new(key, BODY.encode(), hashlib.sha256).hexdigest()
    headers = {"X-Signature": signature, **standard(BODY, key=key)}
    reply = world.deliver(source, BODY, headers)
    assert told(reply) == (503, code)
    assert reply.json["detail"] == "a required secret is missing or cannot be read at the moment"
    assert "env:" not in reply.text
    assert world.queued == []


def test_when_the_right_secret_may_be_one_that_cannot_be_read_now_the_sender_is_to_try_again(
    world: WebhookWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = world.secrets.get

    def broken(reference: str) -> str:
        if reference == "env:OLD":
            raise PortError("throttled")
        return real(reference)

    monkeypatch.setattr(world.secrets, "get", broken)
    assert told(world.deliver("shop", BODY, standard(BODY, key=b"the key before it"))) == (503, "unavailable")
    assert world.queued == []
    assert world.deliver("shop", BODY, standard(BODY)).status == 202


def test_where_one_secret_is_gone_for_good_a_forgery_is_still_called_one(world: WebhookWorld) -> None:
    assert told(world.deliver("lost", BODY, github(BODY, key="another"))) == (401, "bad_signature")
    assert world.queued == []


# -- secrets stay secret


def test_no_secret_is_in_an_answer_a_log_a_repr_or_what_is_stored(
    world: WebhookWorld, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secrets = [value.strip() for value in ENVIRONMENT.values() if value not in {"", "whsec_"}] + [KEY.decode()]
    told = [repr(world.sources), repr(world.secrets)]
    for source in world.sources:
        for headers in (standard(BODY), github(BODY), plain(BODY), github(BODY, key="x"), {}):
            reply = world.deliver(source, BODY, headers)
            told += [reply.text, str(reply.headers)]
    runs = world.parts.service.runs(RunQuery())
    told += [str(message) for message in world.messages] + [str(run_now(runs).headers), caplog.text]
    assert not [secret for secret in secrets if any(secret in text for text in told)]
    assert "the variable GONE is not set" in caplog.text
