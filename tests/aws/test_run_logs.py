"""`stepwell logs` on AWS: which log groups are read, how they are asked, and what a refusal says. boto3 is stubbed."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from stepwell.aws.run_logs import reader
from stepwell.errors import NotFound, UserError
from stepwell.runtime.stores.log_lines import LogLine

RUN = "run_01JABC"


def _client(service: str) -> Any:
    return boto3.client(service, region_name="eu-west-1", aws_access_key_id="a", aws_secret_access_key="b")


def _resource(kind: str, logical: str, physical: str) -> dict[str, Any]:
    return {
        "ResourceType": kind,
        "LogicalResourceId": logical,
        "PhysicalResourceId": physical,
        "LastUpdatedTimestamp": "2026-01-01T00:00:00Z",
        "ResourceStatus": "CREATE_COMPLETE",
    }


STACK = [
    _resource("AWS::Logs::LogGroup", "EngineworkerdefaultLogs0A1B2C3D", "group-default"),
    _resource("AWS::Logs::LogGroup", "EngineworkergpuLogsFFFFFFFF", "group-gpu"),
    _resource("AWS::Logs::LogGroup", "EngineapiLogs0A1B2C3D", "group-api"),
    _resource("AWS::Lambda::Function", "EngineworkerdefaultFunction0A1B2C3D", "worker"),
]


def _event(number: int, at_ms: int, **told: Any) -> dict[str, Any]:
    return {"eventId": str(number), "timestamp": at_ms, "message": json.dumps({"run_id": RUN} | told)}


def _answers(group: str, events: list[dict[str, Any]], stub: Stubber, **more: str) -> None:
    asked = {"logGroupName": group, "startTime": 5, "filterPattern": f'{{ $.run_id = "{RUN}" }}'}
    stub.add_response("filter_log_events", {"events": events}, {**asked, **more})


def test_the_lines_of_a_run_come_from_all_workers_in_order() -> None:
    """Each group is asked for the run's lines alone, page by page. What else an emulator returns is left out."""
    formation, logs = _client("cloudformation"), _client("logs")
    with Stubber(formation) as stacks, Stubber(logs) as stub:
        stacks.add_response("list_stack_resources", {"StackResourceSummaries": STACK}, {"StackName": "Shop"})
        read = reader(formation, logs, "Shop", RUN)
        first = [_event(1, 10, level="INFO", message="hello", step="speak", attempt=2)]
        asked = {"logGroupName": "group-default", "startTime": 5, "filterPattern": f'{{ $.run_id = "{RUN}" }}'}
        stub.add_response("filter_log_events", {"events": first, "nextToken": "more"}, asked)
        _answers("group-default", [_event(2, 30, level="WARNING", message="no", exception="Traceback")], stub,
                 nextToken="more")  # fmt: skip
        others = [
            _event(4, 15, run_id="run_other", message="no"),
            {"eventId": "5", "timestamp": 16, "message": "print"},
        ]
        _answers("group-gpu", [*others, _event(3, 20, level="INFO", message={"trained": 3})], stub)
        assert read(5) == [
            LogLine("1", 10, "info", "speak", 2, "hello"),
            LogLine("3", 20, "info", "", 0, '{"trained": 3}'),
            LogLine("2", 30, "warning", "", 0, "no\nTraceback"),
        ]
        stub.assert_no_pending_responses()


def test_an_event_without_an_id_is_told_by_its_time_and_text() -> None:
    formation, logs = _client("cloudformation"), _client("logs")
    with Stubber(formation) as stacks, Stubber(logs) as stub:
        stacks.add_response("list_stack_resources", {"StackResourceSummaries": STACK[:1]}, {"StackName": "Shop"})
        event = _event(0, 10, level="INFO", message="hello")
        del event["eventId"]
        _answers("group-default", [event, {**event, "timestamp": 11}], stub)
        first, second = reader(formation, logs, "Shop", RUN)(5)
    assert (first.message, second.message, first.id != second.id) == ("hello", "hello", True)


def test_a_stack_without_workers_is_refused_by_name() -> None:
    formation = _client("cloudformation")
    with Stubber(formation) as stacks:
        stacks.add_response("list_stack_resources", {"StackResourceSummaries": STACK[2:]})
        with pytest.raises(NotFound, match="Shop") as refused:
            reader(formation, None, "Shop", RUN)
    assert refused.value.code == "no_stack"


@pytest.mark.parametrize(
    ("code", "kind", "hint"),
    [("ValidationError", NotFound, "--stack"), ("AccessDenied", UserError, "cloudformation:ListStackResources")],
)
def test_a_refusal_says_what_to_do(code: str, kind: type[Exception], hint: str) -> None:
    formation = _client("cloudformation")
    with Stubber(formation) as stacks:
        stacks.add_client_error("list_stack_resources", code, "Stack with id Shop does not exist")
        with pytest.raises(kind) as refused:
            reader(formation, None, "Shop", RUN)
    assert hint in str(getattr(refused.value, "hint", ""))
