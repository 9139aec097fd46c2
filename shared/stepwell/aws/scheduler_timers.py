"""Timers on EventBridge Scheduler: a one-time schedule sends the message early, and the queue delays the rest.

    set ─── schedule fires LEAD before the time, up to a minute late ──▶ queue ──▶ receiver: too early, sends it
                                                                                   again with the delay that is left

So a timer is precise to the second, although the Scheduler is precise to the minute. It deletes itself after firing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from stepwell.aws.calls import Retry
from stepwell.aws.failures import code_of
from stepwell.aws.protocols import SchedulerClient
from stepwell.aws.queues import Queues
from stepwell.definition.graph import Json
from stepwell.limits import MINUTE_MS, SECOND_MS
from stepwell.runtime.ports import Clock, Lane, Queue
from stepwell.runtime.stores.jsontext import encode
from stepwell.values import dataclass

LEAD_MS = 2 * MINUTE_MS  # one minute for the Scheduler, and one for the queue
NEAR_MS = 10 * MINUTE_MS  # nearer than this the queue's own delay is used


@dataclass(frozen=True, slots=True)
class Schedules:
    """The settings of schedules: their group, their role, and their queues."""

    group: str
    role_arn: str
    queues: Queues


class SchedulerTimers:
    """The Timers port. A name is taken until its schedule has fired; a second call changes nothing.

    A time nearer than NEAR_MS goes to the queue, which has no names: a timer set twice fires twice.
    """

    def __init__(
        self,
        schedules: Schedules,
        client: Callable[[], SchedulerClient],
        queue: Queue,
        clock: Clock,
        retry: Retry | None = None,
    ) -> None:
        self._schedules, self._client, self._queue, self._clock = schedules, client, queue, clock
        self._retry = retry or Retry()

    async def set(self, name: str, lane: Lane, message: Mapping[str, Json], at_ms: int) -> None:
        if at_ms - self._clock.now_ms() <= NEAR_MS:
            await self._queue.send(lane, message, at_ms)
            return
        body = encode(message)
        self._retry.call("CreateSchedule", lambda: self._create(
            name, self._schedules.queues.of(lane, message).arn, body, at_ms - LEAD_MS))  # fmt: skip

    def _create(self, name: str, queue_arn: str, body: str, fires_ms: int) -> None:
        try:
            self._client().create_schedule(
                Name=schedule_name(name),
                GroupName=self._schedules.group,
                ScheduleExpression=at_expression(fires_ms),
                ScheduleExpressionTimezone="UTC",
                FlexibleTimeWindow={"Mode": "OFF"},
                ActionAfterCompletion="DELETE",
                Target={
                    "Arn": queue_arn,
                    "RoleArn": self._schedules.role_arn,
                    "Input": body,
                },
            )
        except Exception as error:
            if code_of(error) != "ConflictException":
                raise  # otherwise it is already set


def schedule_name(name: str) -> str:
    """Hashes a timer's name, because a schedule's name has at most 64 characters of a small set."""
    return hashlib.sha256(name.encode()).hexdigest()


def at_expression(at_ms: int) -> str:
    """Formats a time to the second."""
    return f"at({datetime.fromtimestamp(at_ms // SECOND_MS, UTC):%Y-%m-%dT%H:%M:%S})"
