"""The alarms of a deployed stack, their states, and who is told of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from stepwell.aws.failures import code_of
from stepwell.aws.identity import credentials_error
from stepwell.definition.graph import Json
from stepwell.errors import NotFound
from stepwell.values import dataclass

_KIND = "AWS::CloudWatch::Alarm"
_AT_ONCE = 100  # alarms that CloudWatch describes in one request
_TOPIC = re.compile(r"arn:[a-z-]+:sns:")
_HINT = "give its name, --stack NAME, and its region, --region NAME; or deploy with alarms"


@dataclass(frozen=True, slots=True)
class AlarmState:
    """An alarm: its name, state (OK, ALARM or INSUFFICIENT_DATA), since when, and what it means."""

    name: str
    state: str
    since: str
    means: str

    def as_json(self) -> dict[str, Json]:
        return asdict(self)


def alarm_states(profile: str, region: str, stack: str) -> tuple[list[AlarmState], list[dict[str, Json]]]:
    """The alarms, those that ring first; and the addresses, each with whether it is confirmed.

    Raises NotFound `no_stack`, or a credentials error.
    """
    import boto3  # noqa: PLC0415 - signing needs none of it

    try:
        session = boto3.Session(profile_name=profile or None, region_name=region or None)
        return read_states(session.client("cloudformation"), session.client("cloudwatch"), session.client("sns"), stack)
    except (BotoCoreError, ClientError) as error:
        raise credentials_error(error) from error


def read_states(formation: Any, watch: Any, notices: Any, stack: str) -> tuple[list[AlarmState], list[dict[str, Json]]]:
    """As `alarm_states`, with these clients of boto3."""
    names = _alarms_of(formation, stack)
    if not names:
        raise NotFound(f"the stack {stack} has no alarms", code="no_stack", hint=_HINT)
    described = [one for at in range(0, len(names), _AT_ONCE)
                 for page in watch.get_paginator("describe_alarms").paginate(AlarmNames=names[at : at + _AT_ONCE])
                 for one in page["MetricAlarms"]]  # fmt: skip
    found = [_state(one) for one in described]
    actions = {action for one in described for action in one.get("AlarmActions", ())}
    topics = sorted(action for action in actions if _TOPIC.match(action))  # an alarm may also call a function
    return sorted(found, key=lambda one: (one.state != "ALARM", one.name)), list(_told(notices, topics))


def _alarms_of(formation: Any, stack: str) -> list[str]:
    """Returns the names of a stack's alarms. Raises NotFound if there is no such stack."""
    try:
        pages = list(formation.get_paginator("list_stack_resources").paginate(StackName=stack))
    except ClientError as error:
        if code_of(error) == "ValidationError":
            raise NotFound(f"there is no stack {stack}", code="no_stack", hint=_HINT) from error
        raise
    resources = [one for page in pages for one in page["StackResourceSummaries"]]
    return [one["PhysicalResourceId"] for one in resources if one["ResourceType"] == _KIND]


def _state(alarm: Mapping[str, Any]) -> AlarmState:
    since = alarm.get("StateUpdatedTimestamp")
    return AlarmState(
        alarm["AlarmName"],
        alarm["StateValue"],
        since.isoformat(timespec="seconds") if since else "",
        alarm.get("AlarmDescription", ""),
    )


def _told(notices: Any, topics: Iterable[str]) -> Iterable[dict[str, Json]]:
    for topic in topics:
        for page in notices.get_paginator("list_subscriptions_by_topic").paginate(TopicArn=topic):
            for one in page["Subscriptions"]:
                yield {"address": one["Endpoint"], "confirmed": one["SubscriptionArn"].startswith("arn:")}
