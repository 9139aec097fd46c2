"""The coordinator's handler: timers, events, and wakes that killed their worker."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from unittest import mock

import pytest

from stepwell.runtime import dispatch
from stepwell.runtime.loop.driving import run_now
from tests.contract.emulated import items_of
from tests.functions.conftest import Deploy
from tests.functions.kit import Deployment, Invocation

SLEEPS = "workflow: flow\ntimeline: [{name: nap, sleep: 40m}, {name: b, run: python:m.b}]"
LISTENS = "workflow: flow\ntimeline: [{name: paid, wait: {for: event, name: paid}}, {name: b, run: python:m.b}]"
STEPS = "def b(): return 'done'"


class Died(BaseException):
    """What ends a worker at once: no handler of ours may catch it."""


def kill(stack: Deployment) -> int:
    """Each worker that takes the queue's message dies of its step. Returns how many did."""
    died, steps = 0, stack.function("worker").entry.parts.worker._steps
    with mock.patch.object(steps, "run", side_effect=Died):
        while (event := stack.messages("default"))["Records"]:
            with pytest.raises(Died):
                stack.invoke("default", event)
            died += 1
            stack.pass_time(901)
    return died


def throttle(stack: Deployment) -> int:
    """No worker can be started for the queue's message. Returns how often it was put back."""
    times = 0
    while stack.messages("default")["Records"]:
        times += 1
        stack.pass_time(901)
    return times


def is_noted(stack: Deployment, body: str) -> bool:
    """Whether a worker has left a note that it began the message's last delivery."""
    parts = stack.function("worker").entry.parts
    return run_now(parts.ports.notes.get_note(*dispatch._last_try(json.loads(body)))) is not None


def notes_left(stack: Deployment) -> list[str]:
    """The kinds of notes about deliveries that are still there."""
    kinds = (item["pk"]["S"].removeprefix("NOTES#") for item in items_of(stack.table))
    return [kind for kind in kinds if kind.startswith(("begun", "last_try"))]


def test_a_long_sleep_ends_at_its_second(deployed: Deploy) -> None:
    stack = deployed(SLEEPS, STEPS)
    run_id = stack.start()
    stack.deliver()
    assert "CreateSchedule" in stack.cloud.calls
    stack.pass_time(40 * 60 - 1)
    stack.deliver()
    assert stack.run(run_id)["status"] == "waiting"
    stack.pass_time(1)
    stack.deliver()
    assert stack.run(run_id)["result"] == "done"


def test_an_event_sent_through_the_api_resumes_the_run_that_waits_for_it(deployed: Deploy) -> None:
    stack = deployed(LISTENS, STEPS)
    run_id = stack.start()
    stack.deliver()
    assert stack.call("POST", "/events", {"name": "paid", "payload": {"n": 1}})[0] == 202
    stack.deliver()
    assert stack.run(run_id)["result"] == "done"


def test_an_event_for_more_waits_than_an_invocation_has_time_for_goes_on_in_the_next(
    deployed: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the function would be killed over and over, with the messages of the same batch."""
    stack = deployed(f"{LISTENS}\nevents: {{paid: {{consume_on_read: false}}}}", STEPS)
    runs = [stack.start() for _ in range(5)]
    stack.deliver()
    assert stack.call("POST", "/events", {"name": "paid", "payload": {"n": 1}})[0] == 202
    for left in (3, 1, 0):
        left_ms = iter([60_000] * 2)  # for the message, and for the wait after the first
        monkeypatch.setattr(Invocation, "get_remaining_time_in_millis", lambda self, left=left_ms: next(left, 0))
        assert stack.invoke("resume", stack.messages("resume")) == []
        assert sum(stack.token(run_id).resumption is None for run_id in runs) == left
    assert stack.messages("resume")["Records"] == []


def test_a_wake_that_killed_its_workers_fails_its_step_as_worker_lost(deployed: Deploy) -> None:
    stack = deployed("workflow: flow\ntimeline: [{name: b, run: python:m.b}]", STEPS)
    run_id = stack.start()
    body = stack.messages("default")["Records"][0]["body"]
    stack.pass_time(901)
    assert kill(stack) == 4
    assert is_noted(stack, body)
    stack.deliver()
    error = stack.run(run_id)["error"]
    assert (error["type"], error["category"], error["step"]) == ("worker_lost", "worker_lost", "b")
    assert stack.messages("dead")["Records"] == []
    assert not is_noted(stack, body)


def test_a_wake_that_no_worker_has_seen_fails_nothing(deployed: Deploy) -> None:
    """The function was throttled at each delivery, or could not start: each counts, till it is a letter."""
    stack = deployed("workflow: flow\ntimeline: [{name: b, run: python:m.b}]", STEPS)
    run_id = stack.start()
    for _ in range(3):
        assert throttle(stack) == 5
        assert stack.deliver("dead-default") == 1
    stack.deliver()
    assert stack.run(run_id)["result"] == "done"


@pytest.mark.parametrize(("throttled", "is_lost"), [(2, True), (3, True), (4, False)])
def test_a_worker_that_dies_once_behind_throttled_deliveries_fails_nothing(
    deployed: Deploy, throttled: int, is_lost: bool
) -> None:
    """Two that die one after the other do, however often the function was throttled before."""
    stack = deployed("workflow: flow\ntimeline: [{name: b, run: python:m.b}]", STEPS)
    run_id = stack.start()
    for _ in range(throttled):
        assert stack.messages("default")["Records"]
        stack.pass_time(901)
    assert kill(stack) == 5 - throttled
    stack.deliver()
    assert stack.run(run_id)["status"] == ("failed" if is_lost else "completed")
    assert not notes_left(stack)


def test_a_wake_whose_last_delivery_was_handled_leaves_no_note(deployed: Deploy) -> None:
    stack = deployed("workflow: flow\ntimeline: [{name: b, run: python:m.b}]", STEPS)
    run_id = stack.start()
    for _ in range(4):
        body = stack.messages("default")["Records"][0]["body"]
        stack.pass_time(901)
    stack.deliver()
    assert stack.run(run_id)["result"] == "done"
    assert not is_noted(stack, body)
    assert not notes_left(stack)


def test_a_step_may_say_what_follows_when_its_worker_is_lost(deployed: Deploy) -> None:
    retry = "{max_retries: 1, initial_delay: 1s, on: [worker_lost]}"
    stack = deployed(f"workflow: flow\ntimeline: [{{name: b, run: python:m.b, retry: {retry}}}]", STEPS)
    run_id = stack.start()
    kill(stack)
    for _ in range(3):
        stack.deliver()
        stack.pass_time(1)
    run = stack.run(run_id)
    assert (run["status"], run["steps"]["b"]["attempts"]) == ("completed", 2)


def test_the_same_wake_on_the_resume_queue_goes_to_a_worker(deployed: Deploy) -> None:
    """Only where it comes from tells a wake that is to be forwarded from one that is dead."""
    stack = deployed("workflow: flow\ntimeline: [{name: b, run: python:m.b}]", STEPS)
    run_id = stack.start()
    wake = stack.messages("default")["Records"][0]["body"]
    stack.send("resume", wake)
    assert stack.deliver("resume") == 1
    stack.deliver("default")
    assert stack.run(run_id)["result"] == "done"


def test_a_dead_letter_that_is_no_wake_of_ours_ends_with_a_person(deployed: Deploy) -> None:
    stack = deployed(SLEEPS, STEPS)
    stack.send("dead-default", '{"type": "greeting"}')
    for _ in range(12):
        stack.deliver("dead-default")
        stack.pass_time(61)
    assert [record["body"] for record in stack.messages("dead")["Records"]] == ['{"type": "greeting"}']


@pytest.mark.parametrize("body", ["not json", "{}", '{"type": "timer"}', "null"])
def test_a_message_that_is_not_ours_fails_alone(deployed: Deploy, body: str) -> None:
    stack = deployed(LISTENS, STEPS)
    run_id = stack.start()
    stack.deliver()
    stack.send("resume", body)
    stack.call("POST", "/events", {"name": "paid"})
    event = stack.messages("resume", 10)
    bad = next(record["messageId"] for record in event["Records"] if record["body"] == body)
    assert stack.invoke("resume", event) == [bad]
    stack.deliver("default")
    assert stack.run(run_id)["result"] == "done"


def test_messages_that_there_is_no_time_for_come_again(deployed: Deploy) -> None:
    stack = deployed(LISTENS, STEPS)
    stack.send("resume", json.dumps({"type": "deadline", "run_id": "nobody"}))
    event = stack.messages("resume")
    assert stack.invoke("resume", event, timeout_seconds=5) == [event["Records"][0]["messageId"]]


def test_events_and_firings_start_runs_and_are_counted(deployed: Deploy, capsys: pytest.CaptureFixture[str]) -> None:
    trigger = "triggers: [{event: begin, key: '{{ event.id }}'}, {schedule: 'rate(1 hour)'}]"
    stack = deployed(f"workflow: flow\n{trigger}\ntimeline: [{{name: ask, wait: {{for: approval}}}}]", STEPS)
    for event in ({"id": 1}, {"id": 1}, {"id": None}):
        assert stack.call("POST", "/events", {"name": "begin", "payload": event})[0] == 202
    now = datetime.fromtimestamp(stack.clock.now_ms() // 1_000, UTC)
    for minutes in (0, 0, 1):
        at = (now - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
        stack.send("resume", json.dumps({"type": "scheduled", "schedule": "flow:1", "at": at}))
    stack.deliver()
    _, page = stack.call("GET", "/runs")
    assert [run["status"] for run in page["items"]] == ["waiting", "waiting"]
    metrics = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]
    told = {name: sum(sum(one[name]) for one in metrics if name in one)
            for name in ("TriggeredRuns", "SkippedFirings", "RefusedTriggers")}  # fmt: skip
    assert told == {"TriggeredRuns": 2, "SkippedFirings": 1, "RefusedTriggers": 1}
