"""The sender's handler: what becomes of a message of the notifications' queue, and what is told of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from stepwell.limits import HOUR_MS
from stepwell.runtime.steps.failures import CallError
from stepwell.runtime.steps.http_call import Answer, Sending
from tests.api.webhook_kit import STANDARD
from tests.contract.emulated import answer
from tests.functions.conftest import Deploy
from tests.functions.kit import Deployment, Invocation, event_of

GREET = "workflow: flow\ntimeline: [{name: greet, run: python:m.greet}]"
OUT = {"crm": {"url": "https://crm.example.com/hooks", "secret": ["secretsmanager:shop/crm#key"],
               "events": ["run.completed"], "workflows": None}}  # fmt: skip


class Posted:
    """A stack with one endpoint, whose answers are `statuses`, the last one ever after; and what it was sent."""

    def __init__(self, stack: Deployment) -> None:
        self.stack, self.statuses, self.sent = stack, [204], list[Sending]()

    def send(self, sending: Sending, *_: object) -> Answer:
        self.sent.append(sending)
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        if not status:
            raise CallError("http_connection", "transient", "crm.example.com does not answer")
        return Answer(status, {}, b"")

    def take(self) -> list[str]:
        """An event as AWS sends it. Returns what failed."""
        found = self.stack.function("sender").handler(event_of("notification"), Invocation(self.stack.clock, 30))
        return [item["itemIdentifier"] for item in found["batchItemFailures"]]

    def pass_hours(self, hours: int) -> None:
        """The queue comes round while time goes by, a minute at a time."""
        for _ in range(hours * 60):
            self.stack.deliver("notifications")
            self.stack.pass_time(60)


@pytest.fixture
def posted(deployed: Deploy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Posted]:
    stack = deployed(GREET, webhooks={"sources": {}, "out": OUT})
    monkeypatch.setenv("STEPWELL_HTTP_HOSTS", "*.example.com")
    client = stack.cloud.connect("secretsmanager")
    client.create_secret(Name="shop/crm", SecretString=json.dumps({"key": STANDARD}))
    made = Posted(stack)
    monkeypatch.setattr("stepwell.runtime.notify.sender.send", made.send)
    yield made
    client.delete_secret(SecretId="shop/crm", ForceDeleteWithoutRecovery=True)


def counted(printed: str, name: str) -> float:
    lines = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    return sum(sum(line[name]) for line in lines if "_aws" in line and name in line)


def dead(posted: Posted) -> list[dict[str, Any]]:
    return [json.loads(one["body"]) for one in posted.stack.messages("dead-notifications", 10)["Records"]]


def test_a_notification_is_sent_signed_and_done_with(posted: Posted, capsys: pytest.CaptureFixture[str]) -> None:
    assert posted.take() == []
    (sending,) = posted.sent
    notification = json.loads(event_of("notification")["Records"][0]["body"])
    assert (sending.method, sending.target.origin) == ("POST", "https://crm.example.com")
    assert json.loads(sending.body or b"") == notification["content"]
    assert sending.headers["webhook-id"] == notification["id"]
    assert posted.stack.deliver("notifications") == 0
    printed = capsys.readouterr().out
    assert counted(printed, "WebhooksTaken") == 1
    assert "run.completed" not in printed, "what a notification holds is not logged"


def test_an_outage_of_an_hour_loses_no_notification(posted: Posted) -> None:
    posted.statuses = [0, 503, 0, 502, 500, 200]
    assert posted.take() == []
    posted.pass_hours(1)
    assert len(posted.sent) == 6
    assert {one.headers["webhook-id"] for one in posted.sent} == {posted.sent[0].headers["webhook-id"]}
    assert dead(posted) == []


def test_a_wait_longer_than_a_queues_longest_delay_is_made_of_several(posted: Posted) -> None:
    posted.statuses = [500]
    body = json.loads(event_of("notification")["Records"][0]["body"])
    began_ms = posted.stack.clock.now_ms()
    posted.stack.send("notifications", json.dumps({**body, "tries": 5, "at_ms": began_ms + HOUR_MS}))
    while not posted.sent:
        posted.stack.deliver("notifications")
        posted.stack.pass_time(60)
    assert HOUR_MS <= posted.stack.clock.now_ms() - began_ms <= HOUR_MS + 120_000


def test_what_an_endpoint_refuses_a_few_times_lies_with_the_dead_as_it_was_at_first(
    posted: Posted, capsys: pytest.CaptureFixture[str]
) -> None:
    posted.statuses = [400]
    posted.take()
    posted.pass_hours(1)
    assert len(posted.sent) == 5
    (notification,) = dead(posted)
    assert (notification["tries"], notification["refusals"]) == (0, 0), "sent back, it has all its tries again"
    printed = capsys.readouterr().out
    assert (counted(printed, "WebhooksPutOff"), counted(printed, "WebhooksDead")) == (4, 1)
    assert "it answered 400" in printed


def test_an_endpoint_that_is_gone_is_sent_nothing_more_and_that_is_counted(
    posted: Posted, capsys: pytest.CaptureFixture[str]
) -> None:
    posted.statuses = [410]
    assert [posted.take(), posted.take()] == [[], []]
    assert len(posted.sent) == 1
    printed = capsys.readouterr().out
    assert counted(printed, "WebhooksGone") == 2
    assert "endpoint crm answered 410" in printed
    assert (posted.stack.deliver("notifications"), dead(posted)) == (0, [])


def test_a_notification_that_cannot_be_put_back_comes_again_by_itself(
    posted: Posted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepwell.aws.calls.Retry.wait", lambda *_: None)
    posted.statuses = [500]
    posted.stack.cloud.before = lambda operation, _: answer(500, "{}") if operation == "SendMessage" else None
    assert posted.take() == [event_of("notification")["Records"][0]["messageId"]]
