"""Who is told of alarms: what a deployment asks once, and `stepwell alarms`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer
from botocore.exceptions import ClientError

from stepwell.aws import alarm_states
from stepwell.cli.deploying.alarming import OUTPUT, with_address
from stepwell.errors import NotFound, UserError
from stepwell.project import project_of

from .conftest import Cli

NOBODY = "nobody is told of alarms; stepwell deploy --alarms-to ADDRESS"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[tool.stepwell]\nworkflows = "flows"\n')
    (tmp_path / "flows").mkdir()
    return tmp_path


def asked(project: Path, given: str = "", before: Mapping[str, str] | None = None, **more: Any) -> Any:
    contexts = (more.get("properties", {}), project_of(project / "flows").properties)
    return with_address(given, contexts, before or {}, yes=False)


def test_the_commands_address_goes_first(project: Path) -> None:
    assert asked(project, "ops@example.com", {OUTPUT: "old@example.com"}) == ({"alarm_email": "ops@example.com"}, "")
    assert asked(project, "none", {OUTPUT: "old@example.com"}) == ({}, "")
    with pytest.raises(UserError, match="not an address") as refused:
        asked(project, "ops")
    assert refused.value.code == "bad_address"


def test_the_address_of_the_deployment_before_is_kept_without_a_question(project: Path) -> None:
    assert asked(project, before={OUTPUT: "ops@example.com"}) == ({"alarm_email": "ops@example.com"}, "")
    assert asked(project, before={OUTPUT: "none"}) == ({}, NOBODY)


def test_a_project_that_names_somebody_or_wants_no_alarms_is_not_asked(project: Path) -> None:
    for line in ('alarms = "ops@example.com"', "alarms = false", 'alarm_email = "ops@example.com"'):
        (project / "pyproject.toml").write_text(f"[tool.stepwell]\nworkflows = 'flows'\n{line}\n")
        assert asked(project) == ({}, "")
    assert asked(project, properties={"alarm_email": "a@b.c"}) == ({"alarm_email": "a@b.c"}, "")


def test_a_person_is_asked_once_and_a_program_is_told(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(project) == ({}, NOBODY)  # nobody can be asked
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    answers = iter(["ops@example.com", "none"])
    monkeypatch.setattr(typer, "prompt", lambda *_, **__: next(answers))
    assert asked(project) == ({"alarm_email": "ops@example.com"}, "")
    assert asked(project) == ({}, NOBODY)


class Pages:
    """A client of boto3 whose every list has one page, or fails. `asked`: what its lists were asked for."""

    def __init__(self, **pages: Any) -> None:
        self._pages = pages
        self.asked: list[Any] = []

    def get_paginator(self, name: str) -> Any:
        page, asked = self._pages[name], self.asked

        class Paginator:
            def paginate(self, **given: Any) -> list[Any]:
                asked.append(given)
                if isinstance(page, Exception):
                    raise page
                return [page]

        return Paginator()


TOPIC = "arn:aws:sns:eu-west-1:1:told"
AT = datetime(2026, 3, 1, 13, tzinfo=UTC)
FORMATION = Pages(
    list_stack_resources={
        "StackResourceSummaries": [
            {"ResourceType": "AWS::CloudWatch::Alarm", "PhysicalResourceId": "Shop-Overdue"},
            {"ResourceType": "AWS::SQS::Queue", "PhysicalResourceId": "q"},
        ]
    }
)
WATCH = Pages(
    describe_alarms={
        "MetricAlarms": [
            {"AlarmName": "Shop-Age", "StateValue": "OK", "AlarmActions": [TOPIC]},
            {"AlarmName": "Shop-Overdue", "StateValue": "ALARM", "AlarmDescription": "Runs waited.",
             "StateUpdatedTimestamp": AT, "AlarmActions": [TOPIC]},
        ]
    }
)  # fmt: skip
NOTICES = Pages(
    list_subscriptions_by_topic={
        "Subscriptions": [
            {"Endpoint": "ops@example.com", "SubscriptionArn": "arn:aws:sns:x"},
            {"Endpoint": "new@example.com", "SubscriptionArn": "PendingConfirmation"},
        ]
    }
)


def test_alarms_that_ring_come_first_with_who_is_told(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    found = alarm_states.read_states(FORMATION, WATCH, NOTICES, "Shop")
    monkeypatch.setattr(alarm_states, "alarm_states", lambda *_: found)
    told = cli("alarms", "--stack", "Shop")
    assert told.exit_code == 1
    lines = told.stdout.splitlines()
    assert [line.split()[-1] for line in lines if line.startswith(("ALARM", "OK"))] == ["Shop-Overdue", "Shop-Age"]
    assert "since 2026-03-01T13:00:00+00:00: Runs waited." in told.stdout
    assert "told: ops@example.com, new@example.com (not confirmed: see its mail)" in told.stdout
    assert '"confirmed": false' in cli("alarms", "--json").stdout


@pytest.mark.parametrize(
    ("url", "region"),
    [("http://127.0.0.1:8787", "eu-west-1"), ("https://a1.execute-api.us-east-2.amazonaws.com", "us-east-2")],
)
def test_the_region_is_that_of_the_api_or_of_the_environment(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, url: str, region: str
) -> None:
    """boto3 itself does not read AWS_REGION."""
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("STEPWELL_URL", url)
    asked: list[str] = []
    monkeypatch.setattr(alarm_states, "alarm_states", lambda _, where, __: asked.append(where) or ([], []))
    assert cli("alarms").exit_code == 0
    assert asked == [region]


def test_a_stack_without_alarms_is_named() -> None:
    with pytest.raises(NotFound, match="no alarms"):
        alarm_states.read_states(Pages(list_stack_resources={"StackResourceSummaries": []}), WATCH, NOTICES, "Shop")


def test_a_stack_that_is_not_there_is_no_fault_of_the_credentials() -> None:
    missing = ClientError(
        {"Error": {"Code": "ValidationError", "Message": "Stack with id Shop does not exist"}}, "List"
    )
    with pytest.raises(NotFound, match="no stack Shop") as refused:
        alarm_states.read_states(Pages(list_stack_resources=missing), WATCH, NOTICES, "Shop")
    assert refused.value.code == "no_stack"
    refusal = ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "List")
    with pytest.raises(ClientError, match="AccessDenied"):
        alarm_states.read_states(Pages(list_stack_resources=refusal), WATCH, NOTICES, "Shop")


def test_all_alarms_of_a_large_stack_are_looked_at() -> None:
    """CloudWatch describes a hundred in one request. One that rings must not be left out."""
    names = [f"Alarm-{number}" for number in range(250)]
    resources = [{"ResourceType": "AWS::CloudWatch::Alarm", "PhysicalResourceId": name} for name in names]
    watch = Pages(describe_alarms={"MetricAlarms": []})
    alarm_states.read_states(Pages(list_stack_resources={"StackResourceSummaries": resources}), watch, NOTICES, "Shop")
    assert [len(one["AlarmNames"]) for one in watch.asked] == [100, 100, 50]
    assert [name for one in watch.asked for name in one["AlarmNames"]] == names


def test_an_alarm_of_the_users_may_call_a_function_which_has_no_addresses() -> None:
    calls = "arn:aws:lambda:eu-west-1:1:function:mend"
    alarm = {"AlarmName": "Shop-Own", "StateValue": "OK", "AlarmActions": [calls, TOPIC]}
    notices = Pages(list_subscriptions_by_topic={"Subscriptions": []})
    alarm_states.read_states(FORMATION, Pages(describe_alarms={"MetricAlarms": [alarm]}), notices, "Shop")
    assert notices.asked == [{"TopicArn": TOPIC}]
