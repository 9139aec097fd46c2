"""The alarms of a deployed stack, their states, and who is told of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from stepwell.aws.identity import credentials_error
from stepwell.definition.graph import Json
from stepwell.errors import NotFound
from stepwell.values import dataclass

_ASKED = 100  # names in one request: CloudWatch takes no more
_KIND = "AWS::CloudWatch::Alarm"


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
    pages = formation.get_paginator("list_stack_resources").paginate(StackName=stack)
    names = [
        one["PhysicalResourceId"]
        for page in pages
        for one in page["StackResourceSummaries"]
        if one["ResourceType"] == _KIND
    ]
    if not names:
        hint = "give its name, --stack NAME, and its region, --region NAME; or deploy with alarms"
        raise NotFound(f"the stack {stack} has no alarms", code="no_stack", hint=hint)
    described = [one for begin in range(0, len(names), _ASKED)
                 for page in watch.get_paginator("describe_alarms").paginate(AlarmNames=names[begin : begin + _ASKED])
                 for one in page["MetricAlarms"]]  # fmt: skip
    found = [_state(one) for one in described]
    topics = {topic for one in described for topic in one.get("AlarmActions", ())}
    return sorted(found, key=lambda one: (one.state != "ALARM", one.name)), list(_told(notices, sorted(topics)))


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
