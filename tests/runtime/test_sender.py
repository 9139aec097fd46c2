"""The sender: how a notification goes over the wire, and what each answer makes of it."""

from __future__ import annotations

import base64
from itertools import pairwise
from pathlib import Path

import pytest

from stepwell.definition.targets import parse_hosts
from stepwell.limits import ANSWER_BYTES, DAY_MS, HOUR_MS, NOTIFICATION_DELAYS_MS, NOTIFICATION_REFUSALS
from stepwell.memory.clocks import VirtualClock
from stepwell.runtime.notify.endpoints import Endpoint, Notification
from stepwell.runtime.notify.sender import Fate, Sender, signatures
from stepwell.runtime.steps.secrets import EnvironmentSecrets, SecretsByKind, base64_key
from tests.api.kit import START_MS
from tests.api.webhook_kit import ENVIRONMENT, STANDARD, WebhookWorld
from tests.runtime.http_kit import HOST, Server, World, certificate, reply

ENDPOINT = Endpoint("crm", f"https://{HOST}/hooks?from=stepwell", ("env:STANDARD", "env:OLD"), frozenset())
NOTIFICATION = Notification("crm", "msg_1", {"type": "run.completed", "data": {"who": "Grüße", "order": "A-1"}})


class Sent:
    """A sender whose endpoint is a server of this machine, over TLS."""

    def __init__(self, folder: Path, *replies: bytes, address: str = "93.184.216.34", hosts: str = HOST) -> None:
        server_tls, client_tls = certificate(folder)
        self.server = Server(*replies, tls=server_tls)
        self.clock = VirtualClock(START_MS)
        self.environ = dict(ENVIRONMENT)
        self.sender = Sender(
            {"crm": ENDPOINT}, SecretsByKind({"env": EnvironmentSecrets(self.environ)}), parse_hosts([hosts]),
            self.clock, jitter=lambda: 0.5, network=World(self.server, client_tls, [address]).network,
        )  # fmt: skip

    def exhaust(self, notification: Notification = NOTIFICATION) -> tuple[Fate, list[int]]:
        """How it ends, and the milliseconds before each try."""
        delays, began = list[int](), self.clock.now_ms()
        while (verdict := self.sender.send(notification)).fate is Fate.AGAIN:
            notification = verdict.notification
            delays.append(notification.at_ms - began)
            self.clock.set(notification.at_ms)
        return verdict.fate, delays


def answering(folder: Path, *statuses: int) -> Sent:
    return Sent(folder, *(reply(f"{status} X", "said") for status in statuses))


@pytest.mark.parametrize(
    ("secret", "expected"),
    [
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "v1,N6KbJpAU5CTJ2kTsNgVh5/3F75S52/TwQB99s4lhhkk="),
        ("whsec_bm90IHRoaXMgb25lLCBidXQgYW5vdGhlcg==", "v1,Rv0J+b/wzuFRDRHFl4Yh0YguLDSrxYWRJC2LgZhlEiI="),
    ],
)
def test_signatures_are_those_of_standardwebhooks(secret: str, expected: str) -> None:
    """Expected is what standardwebhooks 1.1.0 signs."""
    body = '{"type":"run.completed","timestamp":"2027-01-15T08:00:00Z","data":{"name":"Grüße","n":1.5}}'
    keys = [base64_key(secret, "env:A")]
    assert signatures(keys, "msg_0123456789abcdef", 1_800_000_000, body.encode()) == expected


def test_the_published_vector_of_standard_webhooks_is_signed_as_published() -> None:
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    published = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert signatures([key], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body) == published


@pytest.mark.parametrize("known", ["STANDARD", "OLD"])
def test_what_goes_out_is_taken_by_whoever_knows_one_of_its_secrets(tmp_path: Path, known: str) -> None:
    sent = answering(tmp_path, 204)
    with sent.server:
        assert sent.sender.send(NOTIFICATION).fate is Fate.TAKEN
    head, _, body = sent.server.asked[0].partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    assert first == "POST /hooks?from=stepwell HTTP/1.1"
    headers = dict(line.split(": ", 1) for line in lines)
    assert headers["Content-Type"] == "application/json"
    source = "sources: {a: {scheme: standard-webhooks, secret: env:KNOWN, event: body.type, payload: body.data}}"
    world = WebhookWorld(source, {"KNOWN": ENVIRONMENT[known]})
    assert world.deliver("a", body, headers).status == 202
    (event,) = world.queued
    assert (event.topic.name, event.id, event.payload) == ("run.completed", "a:msg_1", NOTIFICATION.content["data"])


@pytest.mark.parametrize(
    ("status", "fate", "refusals"),
    [
        (200, Fate.TAKEN, 0),
        (299, Fate.TAKEN, 0),
        (302, Fate.AGAIN, 1),
        (400, Fate.AGAIN, 1),
        (404, Fate.AGAIN, 1),
        (408, Fate.AGAIN, 0),
        (410, Fate.GONE, 0),
        (429, Fate.AGAIN, 0),
        (500, Fate.AGAIN, 0),
        (503, Fate.AGAIN, 0),
    ],
)
def test_an_answer_decides_what_becomes_of_the_notification(
    tmp_path: Path, status: int, fate: Fate, refusals: int
) -> None:
    sent = answering(tmp_path, status)
    with sent.server:
        verdict = sent.sender.send(NOTIFICATION)
    assert (verdict.fate, verdict.notification.refusals) == (fate, refusals)
    assert verdict.notification.id == NOTIFICATION.id


def test_a_2xx_counts_however_long_its_body_is(tmp_path: Path) -> None:
    sent = Sent(tmp_path, reply("200 X", "x" * (ANSWER_BYTES + 1)))
    with sent.server:
        assert sent.sender.send(NOTIFICATION).fate is Fate.TAKEN


def test_an_endpoint_that_is_down_is_tried_for_about_a_day_later_and_later(tmp_path: Path) -> None:
    sent = answering(tmp_path, 503)
    with sent.server:
        fate, at_ms = sent.exhaust()
    assert (fate, len(sent.server.asked)) == (Fate.DEAD, len(NOTIFICATION_DELAYS_MS) + 1)
    assert at_ms[0] == 5_500
    assert 23 * HOUR_MS < sum(NOTIFICATION_DELAYS_MS) < DAY_MS
    waits = [after - before for before, after in pairwise(at_ms)]
    assert waits == sorted(waits)


@pytest.mark.parametrize(
    ("status", "asked", "delay_ms"),
    [
        ("429 X", "90", 90_000),
        ("503 X", "Fri, 15 Jan 2027 08:02:00 GMT", 120_000),
        ("503 X", "999999999", NOTIFICATION_DELAYS_MS[-1]),
        ("503 X", "1", 5_500),
        ("500 X", "90", 5_500),
        ("503 X", "soon", 5_500),
    ],
)
def test_an_endpoint_that_asks_for_time_gets_it_within_bounds(
    tmp_path: Path, status: str, asked: str, delay_ms: int
) -> None:
    sent = Sent(tmp_path, reply(status, Retry_After=asked))
    with sent.server:
        assert sent.sender.send(NOTIFICATION).notification.at_ms - START_MS == delay_ms


def test_each_try_is_signed_at_its_own_time_under_the_same_id(tmp_path: Path) -> None:
    sent = answering(tmp_path, 500, 500, 200)
    with sent.server:
        assert sent.exhaust()[0] is Fate.TAKEN
    heads = [asked.partition(b"\r\n\r\n")[0].decode().split("\r\n") for asked in sent.server.asked]
    told = [dict(line.split(": ", 1) for line in head[1:]) for head in heads]
    assert {one["webhook-id"] for one in told} == {"msg_1"}
    assert [int(one["webhook-timestamp"]) - START_MS // 1_000 for one in told] == [0, 5, 38]


def test_an_endpoint_that_refuses_is_asked_a_few_times_and_outages_do_not_count(tmp_path: Path) -> None:
    sent = answering(tmp_path, 503, 400, 503, 401)
    with sent.server:
        assert sent.exhaust()[0] is Fate.DEAD
    assert len(sent.server.asked) == NOTIFICATION_REFUSALS + 2


def test_whoever_answers_410_is_left_alone_until_the_next_deploy(tmp_path: Path) -> None:
    sent = answering(tmp_path, 410, 200)
    with sent.server:
        assert [sent.sender.send(NOTIFICATION).fate for _ in range(3)] == [Fate.GONE] * 3
        assert len(sent.server.asked) == 1
        sent.sender.replace({"crm": ENDPOINT})
        assert sent.sender.send(NOTIFICATION).fate is Fate.TAKEN
        sent.sender.replace({})
        assert sent.sender.send(NOTIFICATION).fate is Fate.GONE


def test_a_notification_is_not_sent_before_its_time(tmp_path: Path) -> None:
    sent = answering(tmp_path, 200)
    early = Notification("crm", "msg_1", {}, tries=6, at_ms=START_MS + HOUR_MS)
    with sent.server:
        verdict = sent.sender.send(early)
        assert (verdict.fate, verdict.notification, sent.server.asked) == (Fate.AGAIN, early, [])


def test_a_notification_goes_to_the_host_that_is_called_in_place_of_its_endpoints_host() -> None:
    with Server(reply("204 No Content")) as server:
        hosts = parse_hosts([f"{HOST}=http://localhost:{server.port}"])
        secrets = SecretsByKind({"env": EnvironmentSecrets(ENVIRONMENT)})
        verdict = Sender({"crm": ENDPOINT}, secrets, hosts, VirtualClock(START_MS)).send(NOTIFICATION)
    assert verdict.fate is Fate.TAKEN
    assert server.asked[0].startswith(b"POST /hooks?from=stepwell HTTP/1.1\r\n")


def test_no_notification_goes_to_a_private_address_or_to_a_host_that_is_not_listed(tmp_path: Path) -> None:
    for sent in (
        Sent(tmp_path, reply(), address="169.254.169.254"),
        Sent(tmp_path, reply(), hosts="other.example.com"),
    ):
        with sent.server:
            verdict = sent.sender.send(NOTIFICATION)
        assert (verdict.fate, verdict.notification.refusals, sent.server.asked) == (Fate.AGAIN, 1, [])


def test_an_endpoint_that_does_not_answer_in_time_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepwell.runtime.notify.sender.NOTIFICATION_MS", 0)
    sent = answering(tmp_path, 200)
    with sent.server:
        verdict = sent.sender.send(NOTIFICATION)
    assert (verdict.fate, verdict.notification.refusals, verdict.why) == (Fate.AGAIN, 0, "no answer within 0 s")


def test_one_secret_is_enough_and_without_any_nothing_is_sent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sent = answering(tmp_path, 200)
    with sent.server:
        sent.environ["OLD"] = ""
        assert sent.sender.send(NOTIFICATION).fate is Fate.TAKEN
        assert "the variable OLD is not set" in caplog.text
        sent.environ["STANDARD"] = "no base64"
        verdict = sent.sender.send(NOTIFICATION)
    assert (verdict.fate, verdict.notification.refusals, len(sent.server.asked)) == (Fate.AGAIN, 0, 1)
    assert verdict.why == "env:STANDARD is not `whsec_` and base64"
    assert STANDARD.removeprefix("whsec_") not in caplog.text
