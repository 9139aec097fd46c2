"""The sweeper's handler: what stands still is woken, told, and counted."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from stepwell import limits
from stepwell.engine.stored.formats import FORMAT, KEY
from stepwell.limits import DELIVERIES
from stepwell.runtime import dispatch
from stepwell.runtime.log.retries import again
from stepwell.runtime.loop import sweeper
from stepwell.runtime.loop.coordinator import Coordinator
from tests.functions.conftest import Deploy
from tests.functions.kit import Deployment, Invocation, event_of

FLOW = "workflow: flow\ntimeline: [{name: b, run: python:m.b, timeout: 1m}]"
ASKS = "workflow: flow\ntimeline: [{name: ok, wait: {for: approval, timeout: 1h}}]"
LISTENS = "workflow: flow\ntimeline: [{name: paid, wait: {for: event, name: paid}}]"
STEPS = "def b(): return 'done'"


def sweep(stack: Deployment, timeout_seconds: float = 290) -> dict[str, int]:
    counts: dict[str, int] = stack.function("sweeper").handler(
        event_of("schedule"), Invocation(stack.clock, timeout_seconds)
    )
    return counts


def lose(stack: Deployment, queue: str) -> None:
    """Whoever should have sent the queue's messages died before."""
    for record in stack.messages(queue, 10)["Records"]:
        stack.sqs.delete_message(QueueUrl=stack.urls[queue], ReceiptHandle=record["receiptHandle"])


def metrics(printed: str) -> dict[str, Any]:
    found = [json.loads(line) for line in printed.splitlines()]
    return next(line for line in found if "_aws" in line)


def test_a_healthy_system_counts_nothing_and_says_so(deployed: Deploy, capsys: pytest.CaptureFixture[str]) -> None:
    stack = deployed(FLOW, STEPS)
    stack.start()
    stack.deliver()
    capsys.readouterr()
    assert sweep(stack) == dict.fromkeys(("Overdue", "NoProgress", "NothingWakes", "Unreadable", "Republished"), 0)
    told = metrics(capsys.readouterr().out)
    assert [told[name] for name in ("Overdue", "NoProgress", "NothingWakes", "Unreadable", "Republished")] == [[0]] * 5
    assert told["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "Stepwell"
    assert told["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["service"]]


def test_a_run_whose_wake_was_lost_is_woken_and_named(deployed: Deploy, capsys: pytest.CaptureFixture[str]) -> None:
    stack = deployed(FLOW, STEPS)
    run_id = stack.start()
    lose(stack, "default")
    stack.pass_time(7 * 60)
    assert sweep(stack)["NoProgress"] == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["level"], line["run_id"]) for line in lines if "why" in line] == [("WARNING", run_id)]
    stack.deliver()
    assert stack.run(run_id)["status"] == "completed"


def test_a_wait_whose_timer_was_lost_is_overdue(deployed: Deploy) -> None:
    stack = deployed(ASKS, STEPS)
    run_id = stack.start()
    stack.deliver("default")
    stack.cloud.connect("scheduler").delete_schedule(
        Name=stack.cloud.connect("scheduler").list_schedules()["Schedules"][0]["Name"]
    )
    stack.pass_time(3_600 + 301)
    assert sweep(stack)["Overdue"] == 1
    stack.deliver()
    assert stack.run(run_id)["status"] != "waiting"


def test_what_there_was_no_time_for_is_looked_at_by_the_next_sweep(
    deployed: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeper, "PAGE_ITEMS_MAX", 2)
    stack = deployed(FLOW, STEPS)
    runs = [stack.start() for _ in range(5)]
    lose(stack, "default")
    stack.pass_time(7 * 60)
    woken = [sweep(stack, timeout_seconds=20)["NoProgress"] for _ in range(3)]
    assert woken == [2, 2, 1]
    stack.deliver()
    assert {stack.run(run_id)["status"] for run_id in runs} == {"completed"}


def test_a_sweep_with_time_looks_at_all_pages(deployed: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeper, "PAGE_ITEMS_MAX", 2)
    stack = deployed(FLOW, STEPS)
    for _ in range(5):
        stack.start()
    lose(stack, "default")
    stack.pass_time(7 * 60)
    assert sweep(stack)["NoProgress"] == 5


# -- the dead-letter queue


def break_coordinator(patch: pytest.MonkeyPatch) -> None:
    """A deploy after which the coordinator can handle nothing."""

    async def handle(*given: object) -> None:
        raise RuntimeError("a bug")

    patch.setattr(Coordinator, "handle", handle)


def let_fail(stack: Deployment) -> None:
    """The coordinator fails at all that the resume queue holds, until the queue holds nothing."""
    for _ in range(DELIVERIES + 1):
        stack.deliver("resume")
        stack.pass_time(61)


def test_an_event_that_a_bad_deploy_could_not_handle_is_published_again_and_resumes_its_run(deployed: Deploy) -> None:
    stack = deployed(LISTENS, STEPS)
    run_id = stack.start()
    stack.deliver()
    stack.call("POST", "/events", {"name": "paid", "payload": 7})
    with pytest.MonkeyPatch.context() as patch:
        break_coordinator(patch)
        let_fail(stack)
    assert sweep(stack)["Republished"] == 1
    assert sweep(stack)["Republished"] == 0
    stack.pass_time(61)
    stack.deliver()
    assert (stack.run(run_id)["status"], stack.messages("dead")["Records"]) == ("completed", [])


def test_a_message_that_always_fails_is_published_again_a_bounded_number_of_times_later_each_time(
    deployed: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then it stays in the dead-letter queue, as it was but for the count."""
    monkeypatch.setattr(dispatch, "REPUBLISHED", 3)
    break_coordinator(monkeypatch)
    stack = deployed(LISTENS, STEPS)
    stack.send("resume", '{"type": "deadline", "run_id": "nobody"}')
    delays = []
    while True:
        let_fail(stack)
        if not sweep(stack)["Republished"]:
            break
        sent_ms = stack.clock.now_ms()
        while not stack.messages("resume")["Records"]:
            stack.pass_time(1)
        delays.append(round((stack.clock.now_ms() - sent_ms) / 1_000))
        stack.pass_time(61)
    assert delays == [60, 120, 240]
    stack.pass_time(61)
    (left,) = stack.messages("dead", 10)["Records"]
    assert json.loads(left["body"]) == again({"type": "deadline", "run_id": "nobody", "republished": 3})


@pytest.mark.parametrize(
    "body",
    ["not json", '{"type": "greeting"}', '{"type": "wake", "run_id": "r", "token": "0", "slot": 1}',
     '{"type": "update", "run_id": "r", "event_id": "e"}'],
)  # fmt: skip
def test_what_the_coordinator_cannot_take_stays_for_a_person(deployed: Deploy, body: str) -> None:
    stack = deployed(LISTENS, STEPS)
    stack.send("dead", body)
    stack.send("dead", '{"type": "deadline", "run_id": "nobody"}')
    assert sweep(stack)["Republished"] == 1
    stack.pass_time(61)
    assert [record["body"] for record in stack.messages("dead", 10)["Records"]] == [body]


def test_a_message_of_newer_code_is_published_again_as_it_is(deployed: Deploy) -> None:
    stack = deployed(LISTENS, STEPS)
    body = {"type": "unheard_of", KEY: FORMAT + 1}
    stack.send("dead", json.dumps(body))
    assert sweep(stack)["Republished"] == 1
    stack.pass_time(61)
    (record,) = stack.messages("resume")["Records"]
    assert json.loads(record["body"]) == again({**body, "republished": 1})


def test_a_run_whose_input_is_lost_keeps_no_other_from_the_sweeper(deployed: Deploy) -> None:
    stack = deployed(FLOW, STEPS)
    broken, sound = stack.start({"text": "x" * limits.CLAIM_CHECK_BYTES}), stack.start()
    lose(stack, "default")
    s3, bucket = stack.cloud.connect("s3"), os.environ["STEPWELL_BUCKET"]
    (blob,) = [one["Key"] for one in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    s3.delete_object(Bucket=bucket, Key=blob)
    stack.pass_time(7 * 60)
    counts = sweep(stack)
    assert (counts["NoProgress"], counts["Unreadable"]) == (1, 1)
    stack.deliver()
    assert stack.run(sound)["status"] == "completed"
    assert {one["run_id"] for one in stack.call("GET", "/runs")[1]["items"]} == {broken, sound}
