"""The lines that a run's code logged on AWS, from the log groups of its stack's workers in CloudWatch Logs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from stepwell.aws.failures import code_of
from stepwell.aws.identity import credentials_error
from stepwell.errors import NotFound, StepwellError, UserError
from stepwell.runtime.stores.log_lines import LogLine

_WORKER = re.compile(r"worker\w*Logs[0-9A-F]{8}$")  # the logical id of a worker's log group
_DENIED = frozenset({"AccessDenied", "AccessDeniedException"})


def lines_of(profile: str, region: str, stack: str, run_id: str) -> Callable[[int], list[LogLine]]:
    """Returns a reader of the run's lines. Raises NotFound `no_stack`, or a credentials error."""
    import boto3  # noqa: PLC0415 - signing needs none of it

    try:
        session = boto3.Session(profile_name=profile or None, region_name=region or None)
        return reader(session.client("cloudformation"), session.client("logs"), stack, run_id)
    except BotoCoreError as error:
        raise credentials_error(error) from error


def reader(formation: Any, logs: Any, stack: str, run_id: str) -> Callable[[int], list[LogLine]]:
    """As `lines_of`, with these clients of boto3."""
    groups = _answered(lambda: _groups(formation, stack))
    if not groups:
        hint = "give its name: --stack NAME; and the region that it is in: --region NAME"
        raise NotFound(f"the stack {stack} has no worker whose logs could be read", code="no_stack", hint=hint)
    return lambda since_ms: _answered(lambda: _lines(logs, groups, run_id, since_ms))


def _groups(formation: Any, stack: str) -> list[str]:
    pages = formation.get_paginator("list_stack_resources").paginate(StackName=stack)
    found = [one for page in pages for one in page["StackResourceSummaries"]]
    return [
        str(one["PhysicalResourceId"])
        for one in found
        if one["ResourceType"] == "AWS::Logs::LogGroup" and _WORKER.search(one["LogicalResourceId"])
    ]


def _lines(logs: Any, groups: list[str], run_id: str, since_ms: int) -> list[LogLine]:
    found: list[LogLine] = []
    for group in groups:
        asked = {"logGroupName": group, "startTime": since_ms, "filterPattern": f'{{ $.run_id = "{run_id}" }}'}
        for page in logs.get_paginator("filter_log_events").paginate(**asked):
            found += [line for event in page["events"] if (line := _line(event, run_id))]
    return sorted(found, key=lambda line: line.at_ms)


def _line(event: Mapping[str, Any], run_id: str) -> LogLine | None:
    """The line of an event; None for one of another run: the emulator ignores the filter."""
    try:
        told = json.loads(event["message"])
    except ValueError:
        return None
    if not isinstance(told, dict) or told.get("run_id") != run_id:
        return None
    message = told.get("message")
    text = message if isinstance(message, str) else json.dumps(message)
    if trace := told.get("exception"):
        text = f"{text}\n{trace}"
    name = event.get("eventId") or f"{event['timestamp']} {event['message']}"  # the emulator gives none
    return LogLine(str(name), int(event["timestamp"]), str(told.get("level", "")).lower(),
                   str(told.get("step") or ""), int(told.get("attempt") or 0), text)  # fmt: skip


def _answered(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except ClientError as error:
        raise _refused(error) from error
    except BotoCoreError as error:
        raise credentials_error(error) from error


def _refused(error: ClientError) -> StepwellError:
    if code_of(error) == "ValidationError":
        message = str(error.response.get("Error", {}).get("Message", error))
        return NotFound(message, code="no_stack", hint="give its name and region: --stack NAME --region NAME")
    if code_of(error) in _DENIED:
        hint = "the caller needs cloudformation:ListStackResources on the stack and logs:FilterLogEvents on its groups"
        return UserError(f"the logs may not be read: {error}", code="logs_denied", hint=hint)
    return credentials_error(error)
