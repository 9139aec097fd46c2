"""What a function tells of its work: logs with ids, metrics, and nothing of what a run is about."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from stepwell.aws.observing import Observing
from stepwell.memory.clocks import VirtualClock
from tests.functions.conftest import Deploy
from tests.functions.kit import Invocation

SECRETS = ("4242424242424242", "hush-payload", "hush-input", "hush-result", "hush-header", "hush-key", "hush-body")
FLOW = """
workflow: flow
timeline:
  - {name: a, run: python:m.a, retry: {max_retries: 1, initial_delay: 1s, on: [ValueError]}}
  - {name: heard, wait: {for: event, name: paid, key: "{{ input.key }}"}}
  - {name: b, run: python:m.b}
"""
STEPS = """
import logging, world

def a(ctx, card: int):
    logging.getLogger("shop").warning("charging")
    ctx.logger.info("once more")
    world.said.append(card)
    if len(world.said) == 1:
        raise ValueError("no luck")
    return {"ok": "hush-result"}

def b(n: int):
    return n
"""


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def told(found: list[dict[str, Any]], message: str) -> dict[str, Any]:
    return next(line for line in found if message in str(line.get("message")))


def test_every_line_of_a_step_names_run_token_and_step(deployed: Deploy, capsys: pytest.CaptureFixture[str]) -> None:
    stack = deployed(FLOW, STEPS)
    run_id = stack.start({"card": 4242424242424242, "key": "hush-key"})
    stack.deliver("default")
    found = lines(capsys)
    for message in ("charging", "once more", "a failed: ValueError"):
        line = told(found, message)
        assert (line["run_id"], line["token"], line["step"], line["attempt"]) == (run_id, "0", "a", 1)
        assert line["function_request_id"]
    assert "no luck" in told(found, "a failed")["exception"]


def test_the_ids_of_one_message_are_not_in_the_lines_of_another(
    deployed: Deploy, capsys: pytest.CaptureFixture[str]
) -> None:
    stack = deployed(FLOW, STEPS)
    stack.start({"card": 1, "key": "k"})
    stack.send("default", "not json")
    event = stack.messages("default", 2)
    event["Records"].sort(key=lambda record: str(record["body"] == "not json"))
    stack.invoke("default", event)
    failed = told(lines(capsys), "delivery 1 of message")
    assert not {"run_id", "token", "step", "workflow", "attempt"} & failed.keys()


@pytest.mark.parametrize("level", ["info", "debug"])
def test_nothing_that_a_run_is_about_is_told(
    deployed: Deploy, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    """Not its input, results, events and headers; nor what of them an error is about."""
    monkeypatch.setenv("STEPWELL_LOG_LEVEL", level)
    stack = deployed(FLOW, STEPS)
    run_id = stack.start({"card": 4242424242424242, "key": "hush-key", "more": "hush-input"})
    stack.deliver()
    stack.pass_time(1)
    stack.deliver()
    stack.call("POST", "/events", {"name": "paid", "key": "hush-key", "payload": {"n": "hush-payload"}})
    stack.deliver()
    stack.call("POST", "/workflows/flow/runs", {"input": {}, "hush-body": 1}, authorizer={"hush-header": 1})
    for queue in ("default", "resume"):
        for body in ("hush-body", '{"type": "greeting"}', '{"type": "publish", "payload": "hush-payload"}'):
            stack.send(queue, body)
        stack.deliver(queue)
    assert stack.run(run_id)["error"]["type"] == "step_input"  # b was given what is no number
    printed = capsys.readouterr().out
    assert "b failed" in printed
    assert [secret for secret in SECRETS if secret in printed] == []


def test_a_workers_metrics_are_one_line_for_each_invocation(
    deployed: Deploy, capsys: pytest.CaptureFixture[str]
) -> None:
    stack = deployed(FLOW, STEPS)
    stack.start({"card": 1, "key": "k"})
    stack.deliver("default")
    stack.pass_time(1)
    stack.deliver("default")
    first, second = [line for line in lines(capsys) if "_aws" in line]
    names = ("Steps", "StepFailures", "StepRetries", "FailedDeliveries")
    assert [first[name] for name in names] == [[1], [1], [0], [0]]
    assert [second[name] for name in names] == [[1], [0], [1], [0]]
    assert (first["service"], first["pool"]) == ("stepwell", "default")
    assert first["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["pool", "service"]]


def test_a_message_that_failed_and_a_dead_letter_are_counted(
    deployed: Deploy, capsys: pytest.CaptureFixture[str]
) -> None:
    stack = deployed(FLOW, STEPS)
    stack.send("resume", "not json")
    stack.send("dead-default", '{"type": "wake", "run_id": "r", "token": "0", "slot": 1}')
    stack.deliver("resume", "dead-default")
    found = [line for line in lines(capsys) if "_aws" in line]
    assert [line["FailedDeliveries"] for line in found] == [[1], [0]]
    assert [line.get("DeadLetters") for line in found] == [None, [1]]


@pytest.mark.usefixtures("root_logger")
def test_a_line_may_be_written_while_another_thread_changes_the_ids(capsys: pytest.CaptureFixture[str]) -> None:
    observing = Observing("info", {})

    class Id:
        """Looked at in the midst of a line."""

        def __bool__(self) -> bool:
            with observing.about(other="1"):
                return True

        def __str__(self) -> str:
            return "mine"

    with observing.about(run_id=Id(), slot=3):
        logging.getLogger("shop").info("hello")
    assert [(line["run_id"], line["slot"]) for line in lines(capsys)] == [("mine", 3)]


class Tracing:
    """What Powertools' Tracer is asked."""

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}
        self.annotations: list[tuple[str, Any]] = []

    def capture_lambda_handler(self, handler: Any, **options: Any) -> Any:
        self.options = options
        return handler

    def put_annotation(self, key: str, value: Any) -> None:
        self.annotations.append((key, value))


def test_a_trace_names_the_run_and_holds_no_answer(deployed: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    tracing = Tracing()
    monkeypatch.setattr("stepwell.aws.observing._tracer", lambda: tracing)
    monkeypatch.setenv("STEPWELL_TRACE", "1")
    stack = deployed(FLOW, STEPS)
    run_id = stack.start({"card": 1, "key": "k"})
    stack.deliver("default")
    assert tracing.options["capture_response"] is False
    assert tracing.annotations == [("run_id", run_id)]


@pytest.mark.usefixtures("root_logger")
def test_a_real_tracer_takes_a_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("aws_xray_sdk")
    monkeypatch.setenv("POWERTOOLS_TRACE_DISABLED", "1")
    handler = Observing("info", {}, trace=True).invocation(lambda event, context: event)
    assert handler({"n": 1}, Invocation(VirtualClock())) == {"n": 1}


@pytest.mark.usefixtures("root_logger")
def test_libraries_do_not_log_their_requests(capsys: pytest.CaptureFixture[str]) -> None:
    Observing("debug", {})
    logging.getLogger("botocore.endpoint").debug("Making request with params: %s", "hush")
    logging.getLogger("urllib3.connectionpool").info("hush")
    logging.getLogger("shop").debug("mine")
    assert [line["message"] for line in lines(capsys)] == ["mine"]
