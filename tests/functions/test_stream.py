"""The stream's handler: what an event of the table's stream leads to, and from which record on it is to come again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from ministack.services import dynamodb, eventbridge

from stepwell.errors import UserError
from tests.contract.emulated import answer
from tests.functions.conftest import Deploy
from tests.functions.kit import Deployment, Invocation, event_of

GREET = "workflow: flow\nsnapshot: on_end\ntimeline: [{name: greet, run: python:m.greet}]"
STEPS = "def greet(name): return f'hello {name}'"


@pytest.fixture
def followed(deployed: Deploy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    """A stack with a bus, whose table has a stream."""
    stack = deployed(GREET, STEPS)
    monkeypatch.setenv("STEPWELL_BUS", "stack-bus")
    monkeypatch.setenv("STEPWELL_EVENTS", "all")
    stack.cloud.connect("events").create_event_bus(Name="stack-bus")
    view = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
    table = stack.function("stream").entry.deployment.table
    stack.cloud.connect("dynamodb").update_table(TableName=table, StreamSpecification=view)
    yield stack
    eventbridge.reset()


def call(stack: Deployment, records: list[dict[str, Any]]) -> list[str]:
    """The sequence numbers that the handler wants again."""
    found = stack.function("stream").handler({"Records": json.loads(json.dumps(records))}, Invocation(stack.clock, 300))
    return [item["itemIdentifier"] for item in found["batchItemFailures"]]


def written(stack: Deployment) -> list[dict[str, Any]]:
    """What the table's stream holds."""
    return list(dynamodb.stream_live_records(stack.function("stream").entry.deployment.table))


def told() -> list[str]:
    """What the bus was sent."""
    return [event["DetailType"] for event in eventbridge._events_log_list()]


def metrics(printed: str) -> list[dict[str, Any]]:
    """The lines of the embedded metric format."""
    return [found for line in printed.splitlines() if line.startswith("{") and "_aws" in (found := json.loads(line))]


def test_an_event_of_the_stream_goes_to_the_bus(followed: Deployment) -> None:
    records = event_of("dynamodb_stream")["Records"]
    assert call(followed, records) == []
    assert told() == ["run.created", "run.started", "step.completed", "run.completed"]
    sent = json.loads(eventbridge._events_log_list()[2]["Detail"])
    assert (sent["id"], sent["workflow"], sent["tags"]) == ("order-4711/0@0.3", "flow", {"team": "shop"})
    assert sent["entry"]["data"]["output"] == "hello ana"


def test_a_run_through_the_deployed_handlers_is_told_and_kept(followed: Deployment) -> None:
    run_id = followed.start({"name": "ana"})
    followed.deliver()
    assert call(followed, written(followed)) == []
    assert told() == ["run.created", "run.started", "step.completed", "run.completed"]
    bucket = followed.function("stream").entry.deployment.bucket
    kept = followed.cloud.connect("s3").get_object(Bucket=bucket, Key=f"runs/flow/{run_id}.jsonl")["Body"].read()
    run = json.loads(kept.splitlines()[0])
    shown = followed.run(run_id)
    assert run == shown


def test_runs_are_counted_by_workflow_and_by_how_they_ended(
    followed: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    records = event_of("dynamodb_stream")["Records"]
    capsys.readouterr()
    call(followed, records[:4])
    started, ended = metrics(capsys.readouterr().out)
    assert (started["RunsStarted"], started["workflow"], started["service"]) == ([1.0], "flow", "stepwell")
    assert (ended["RunsEnded"], ended["status"], ended["RunSeconds"]) == ([1.0], "completed", [0.0])
    (described,) = ended["_aws"]["CloudWatchMetrics"]
    assert described["Namespace"] == "Stepwell"
    assert described["Dimensions"] == [["service"], ["service", "workflow", "status"]]
    assert {one["Name"]: one["Unit"] for one in described["Metrics"]} == {"RunsEnded": "Count", "RunSeconds": "Seconds"}


def test_what_fails_is_wanted_again_from_its_first_record_on_and_counted_then(
    followed: Deployment, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepwell.aws.calls.Retry.wait", lambda *_: None)
    records = event_of("dynamodb_stream")["Records"][:4]
    followed.cloud.before = lambda operation, _: answer(500, "{}") if operation == "PutEvents" else None
    capsys.readouterr()
    assert call(followed, records) == [records[0]["dynamodb"]["SequenceNumber"]]
    assert metrics(capsys.readouterr().out) == []
    followed.cloud.heal()
    assert call(followed, records) == []
    assert len(metrics(capsys.readouterr().out)) == 2


def test_a_broken_record_is_counted_and_its_content_is_not_logged(
    followed: Deployment, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    records = event_of("dynamodb_stream")["Records"][:4]
    records[2]["dynamodb"]["NewImage"]["body"]["S"] = '{"slot": 0, "secret": "hunter2"'
    capsys.readouterr()
    assert call(followed, records) == []
    counted = metrics(capsys.readouterr().out)
    assert [line["PassedOver"] for line in counted if "PassedOver" in line] == [[1.0]]
    assert "RUN#order-4711/LOG#0#0000000000 cannot be told" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_stack_that_names_no_bus_is_told_so_at_once(deployed: Deploy) -> None:
    stack = deployed(GREET, STEPS)
    with pytest.raises(UserError, match="STEPWELL_BUS"):
        stack.function("stream")
