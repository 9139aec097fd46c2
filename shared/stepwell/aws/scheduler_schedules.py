"""Schedules that callers create, as recurring EventBridge schedules that send to the resume queue.

The stack has those of definitions. The message contains the schedule itself, so a firing reads nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from stepwell.aws.calls import Retry
from stepwell.aws.failures import code_of
from stepwell.aws.protocols import SchedulerClient
from stepwell.aws.scheduler_timers import Schedules
from stepwell.definition.graph import Json
from stepwell.definition.timetable import Rate, parse_schedule
from stepwell.runtime.ports import Clock, Schedule
from stepwell.runtime.stores.jsontext import encode


class SchedulerSchedules:
    """The Schedules port."""

    def __init__(
        self, place: Schedules, client: Callable[[], SchedulerClient], clock: Clock, retry: Retry | None = None
    ) -> None:
        self._place, self._client, self._clock, self._retry = place, client, clock, retry or Retry()

    async def set(self, schedule: Schedule, message: Mapping[str, Json]) -> None:
        request = self._request(schedule, encode(message))
        self._retry.call("CreateSchedule", lambda: self._unless(
            "ConflictException", lambda: self._client().create_schedule(**request)))  # fmt: skip

    async def drop(self, name: str) -> None:
        where = {"Name": self._name(name), "GroupName": self._place.group}
        self._retry.call("DeleteSchedule", lambda: self._unless(
            "ResourceNotFoundException", lambda: self._client().delete_schedule(**where)))  # fmt: skip

    def _unless(self, code: str, send: Callable[[], object]) -> None:
        """Ignores an error whose code means that the state is already as requested."""
        try:
            send()
        except Exception as error:
            if code_of(error) != code:
                raise

    def _request(self, schedule: Schedule, body: str) -> dict[str, Any]:
        table = parse_schedule(schedule.expression, schedule.timezone)
        request: dict[str, Any] = {
            "Name": self._name(schedule.name),
            "GroupName": self._place.group,
            "Description": f"Stepwell: {schedule.name}",
            "ScheduleExpression": table.aws,
            "ScheduleExpressionTimezone": schedule.timezone,
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "Target": {"Arn": self._place.queues.resume.arn, "RoleArn": self._place.role_arn, "Input": body},
        }
        if isinstance(table, Rate):  # without it, the first firing is immediate; a date that is over is refused
            starts_ms = table.after(self._clock.now_ms(), schedule.since_ms)
            request["StartDate"] = datetime.fromtimestamp(starts_ms / 1_000, UTC)
        return request

    def _name(self, name: str) -> str:
        """Returns an AWS name that differs between deployments and from timers (64 hexadecimal digits)."""
        cause = f"{self._place.queues.resume.arn} {name}"
        return f"schedule-{hashlib.sha256(cause.encode()).hexdigest()[:48]}"
