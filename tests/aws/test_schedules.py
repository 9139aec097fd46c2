"""Callers' schedules on EventBridge Scheduler: what it is asked for, and that a firing reaches the coordinator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from moto import mock_aws

from stepwell.aws.calls import Retry
from stepwell.aws.queues import Queues
from stepwell.aws.scheduler_schedules import SchedulerSchedules
from stepwell.aws.scheduler_timers import Schedules
from stepwell.errors import PortError
from stepwell.runtime.log.messages import Scheduled, from_json, to_json
from stepwell.runtime.ports import Lane, Schedule
from stepwell.runtime.stores.clocks import RealClock
from stepwell.settings import QueuePlace
from tests.contract.emulated import AwsQueue, answer, aws_queue
from tests.contract.kit import NOW_MS, run

ROLE = "arn:aws:iam::000000000000:role/scheduler"
OFTEN = Schedule("often", "flow", "rate(5 minutes)", "UTC", {"n": 1}, "skip", None, NOW_MS)
DAILY = Schedule("daily", "flow", "30 2 * * 1-5", "Europe/Madrid", since_ms=NOW_MS)


def message(schedule: Schedule) -> dict[str, Any]:
    return to_json(Scheduled(schedule.name, made=schedule))


@pytest.fixture
def queue() -> Iterator[AwsQueue]:
    with aws_queue() as opened:
        yield opened


def on(queue: AwsQueue) -> SchedulerSchedules:
    place: Schedules = queue.timers._schedules
    return SchedulerSchedules(place, queue.cloud.clients.scheduler, queue.clock, Retry(sleep=lambda _: None))


def there(queue: AwsQueue) -> list[dict[str, Any]]:
    client = queue.cloud.connect("scheduler")
    return [
        client.get_schedule(Name=one["Name"], GroupName=one["GroupName"])
        for one in client.list_schedules(NamePrefix="schedule-")["Schedules"]
    ]


def test_a_schedule_is_made_once_and_deleted_once(queue: AwsQueue) -> None:
    schedules = on(queue)
    for _ in range(2):
        run(schedules.set(DAILY, message(DAILY)))
    (made,) = there(queue)
    assert (made["ScheduleExpression"], made["ScheduleExpressionTimezone"]) == (
        "cron(30 2 ? * 2,3,4,5,6 *)", "Europe/Madrid"
    )  # fmt: skip
    assert made["FlexibleTimeWindow"] == {"Mode": "OFF"}
    assert made["Target"]["Arn"] == queue.timers._schedules.queues.resume.arn
    sent = json.loads(made["Target"]["Input"].replace("<aws.scheduler.scheduled-time>", "2030-01-31T01:30:00Z"))
    assert from_json(sent) == Scheduled("daily", 1_896_053_400_000, DAILY)
    for _ in range(2):
        run(schedules.drop("daily"))
    assert there(queue) == []


def test_a_rate_fires_for_the_first_time_when_a_period_is_over(queue: AwsQueue) -> None:
    run(on(queue).set(OFTEN, message(OFTEN)))
    (made,) = there(queue)
    assert made["StartDate"] == datetime.fromtimestamp(NOW_MS / 1_000 + 300, UTC)


def test_a_rate_that_is_set_again_starts_at_its_next_time(queue: AwsQueue) -> None:
    """The Scheduler refuses a start that is over: as of a schedule that was lost, and is set again after a restore."""
    queue.clock.set(NOW_MS + 700_000)
    run(on(queue).set(OFTEN, message(OFTEN)))
    (made,) = there(queue)
    assert made["StartDate"] == datetime.fromtimestamp(NOW_MS / 1_000 + 900, UTC)


def test_a_firing_arrives_on_the_resume_queue(queue: AwsQueue) -> None:
    run(on(queue).set(OFTEN, message(OFTEN)))
    came = [queue.receive((Lane.RESUME,), NOW_MS + minutes * 60_000, 60_000) for minutes in range(12)]
    firings = [from_json(delivery.message) for delivery in came if delivery is not None]
    assert firings
    assert set(map(str, firings)) == {str(Scheduled("often", 0, OFTEN))}  # the emulator does not say when


def test_a_service_that_does_not_answer_is_a_port_error(queue: AwsQueue) -> None:
    schedules = on(queue)
    queue.cloud.connect("scheduler")
    queue.cloud.before = lambda *_: answer(500, "{}")
    with pytest.raises(PortError):
        run(schedules.set(OFTEN, message(OFTEN)))
    with pytest.raises(PortError):
        run(schedules.drop("often"))


def test_the_request_has_the_shape_that_the_service_model_asks_for() -> None:
    """On moto, which checks more of it than the emulator does."""
    with mock_aws():
        client = boto3.client("scheduler", region_name="us-east-1")
        place = Schedules("default", ROLE, Queues(QueuePlace("url", "arn:aws:sqs:us-east-1:000000000000:resume"), {}))
        schedules = SchedulerSchedules(place, lambda: client, RealClock())
        for schedule in (OFTEN, DAILY):
            for _ in range(2):
                run(schedules.set(schedule, message(schedule)))
        assert len(client.list_schedules(NamePrefix="schedule-")["Schedules"]) == 2
        for _ in range(2):
            run(schedules.drop("daily"))
        assert len(client.list_schedules(NamePrefix="schedule-")["Schedules"]) == 1
