"""The sweeper's door: what stands still is woken, told, and counted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwell.runtime.loop import sweeper
from tests.functions.conftest import Deploy
from tests.functions.kit import Deployment, Invocation, event_of

FLOW = "workflow: flow\ntimeline: [{name: b, run: python:m.b, timeout: 1m}]"
ASKS = "workflow: flow\ntimeline: [{name: ok, wait: {for: approval, timeout: 1h}}]"
STEPS = "def b(): return 'done'"


def sweep(stack: Deployment, timeout_seconds: float = 290) -> dict[str, int]:
    counts: dict[str, int] = stack.door("sweeper").handler(
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
    assert sweep(stack) == {"Overdue": 0, "NoProgress": 0, "Unreadable": 0}
    told = metrics(capsys.readouterr().out)
    assert [told[name] for name in ("Overdue", "NoProgress", "Unreadable")] == [[0], [0], [0]]
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
