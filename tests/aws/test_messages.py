"""Queue and timers as SQS and Scheduler see them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import pytest

from stepwell.aws.scheduler_timers import LEAD_MS, NEAR_MS, at_expression, schedule_name
from stepwell.aws.sqs_queue import MESSAGE_BYTES
from stepwell.errors import EngineFault, InvalidInput
from stepwell.runtime.ports import Lane
from stepwell.runtime.stores.jsontext import decode, encode
from tests.contract.emulated import AwsQueue, aws_queue
from tests.contract.kit import NOW_MS, run
from tests.contract.on_moto import moto_queue

YEAR_MS = 365 * 86_400_000
Opened: TypeAlias = Callable[[], AbstractContextManager[AwsQueue]]


def sent(queue: AwsQueue, operation: str) -> list[dict[str, Any]]:
    """The requests of an operation from now on."""
    requests: list[dict[str, Any]] = []

    def note(called: str, request: Any) -> None:
        if called == operation:
            requests.append({"path": request.url, **json.loads(request.body)})

    queue.cloud.before = note
    return requests


@pytest.mark.parametrize(
    ("away_ms", "seconds"),
    [(0, 0), (-5_000, 0), (1, 1), (999, 1), (1_000, 1), (1_001, 2), (900_000, 900),
     (960_000, 900)],  # of a clock that has stepped back since the time was chosen
)  # fmt: skip
def test_a_delay_is_in_whole_seconds_and_within_what_sqs_takes(away_ms: int, seconds: int) -> None:
    with aws_queue() as queue:
        requests = sent(queue, "SendMessage")
        run(queue.send(Lane.WORK, {"m": 1}, NOW_MS + away_ms))
        assert requests[0]["DelaySeconds"] == seconds


def test_a_time_beyond_a_queues_reach_is_a_defect() -> None:
    with aws_queue() as queue, pytest.raises(EngineFault, match="needs a timer"):
        run(queue.send(Lane.WORK, {"m": 1}, NOW_MS + 960_001))


def test_a_message_may_be_as_large_as_sqs_takes_and_no_larger() -> None:
    with aws_queue() as queue:
        run(queue.send(Lane.WORK, {"m": "x" * (MESSAGE_BYTES - 8)}))
        with pytest.raises(InvalidInput) as caught:
            run(queue.send(Lane.WORK, {"m": "x" * (MESSAGE_BYTES - 7)}))
        assert caught.value.code == "message_too_large"


@pytest.mark.parametrize("text", ["ä 🧀", "\ud800", "\ufffe", "\uffff", "\x00\x1f", "\u2028"])
def test_any_text_travels(text: str) -> None:
    assert decode(encode(text)) == text
    assert not re.search("[\ud800-\udfff\ufffe\uffff\x00-\x08]", encode(text))
    with aws_queue() as queue:
        run(queue.send(Lane.WORK, {"m": text}))
        delivery = queue.receive([Lane.WORK], NOW_MS, 1_000)
        assert delivery is not None
        assert delivery.message == {"m": text}


def test_a_far_timer_is_a_schedule_that_fires_early_once_and_is_gone() -> None:
    with aws_queue() as queue:
        requests = sent(queue, "CreateSchedule")
        at_ms = NOW_MS + YEAR_MS
        run(queue.set("run_1.timer:0:3", Lane.RESUME, {"m": 1}, at_ms))
        assert requests[0]["ActionAfterCompletion"] == "DELETE"
        assert requests[0]["FlexibleTimeWindow"] == {"Mode": "OFF"}
        assert requests[0]["ScheduleExpression"] == at_expression(at_ms - LEAD_MS)
        assert queue.receive([Lane.RESUME], at_ms - LEAD_MS - 1_000, 1_000) is None
        delivery = queue.receive([Lane.RESUME], at_ms - LEAD_MS, 1_000)
        assert delivery is not None
        queue.delete(delivery)
        assert queue.next_due_ms() is None


@pytest.mark.parametrize("opened", [aws_queue, moto_queue])
def test_a_timer_that_is_armed_already_is_no_error_and_another_is_another(opened: Opened) -> None:
    with opened() as queue:
        for _ in range(2):
            run(queue.set("t", Lane.RESUME, {"m": 1}, NOW_MS + YEAR_MS))
        run(queue.set("u", Lane.RESUME, {"m": 1}, NOW_MS + YEAR_MS))
        schedules = queue.cloud.connect("scheduler").list_schedules()["Schedules"]
        assert len(schedules) == 2


@pytest.mark.parametrize("opened", [aws_queue, moto_queue])
def test_a_schedule_is_kept_as_it_was_asked_for(opened: Opened) -> None:
    with opened() as queue:
        run(queue.set("ä🧀" * 500, Lane.RESUME, {"m": "ä🧀"}, NOW_MS + YEAR_MS))
        kept = queue.cloud.connect("scheduler").get_schedule(Name=schedule_name("ä🧀" * 500), GroupName="default")
        assert kept["ScheduleExpression"] == at_expression(NOW_MS + YEAR_MS - LEAD_MS)
        assert kept["ActionAfterCompletion"] == "DELETE"
        assert kept["Target"]["Arn"].rpartition(":")[2].startswith("resume")
        assert decode(kept["Target"]["Input"]) == {"m": "ä🧀"}


def test_a_near_timer_needs_no_schedule() -> None:
    with aws_queue() as queue:
        run(queue.set("t", Lane.RESUME, {"m": 1}, NOW_MS + NEAR_MS))
        assert "CreateSchedule" not in queue.cloud.calls
        run(queue.set("t", Lane.RESUME, {"m": 1}, NOW_MS + NEAR_MS + 1))
        assert "CreateSchedule" in queue.cloud.calls


@pytest.mark.parametrize("name", ["t", "", "run_1.timer:0/3.17:4", "ä🧀" * 500])
def test_a_schedules_name_is_one_the_scheduler_takes(name: str) -> None:
    assert re.fullmatch(r"[0-9a-zA-Z-_.]{1,64}", schedule_name(name))


def test_a_schedules_time_is_in_utc_and_in_whole_seconds() -> None:
    assert at_expression(1_700_000_000_999) == "at(2023-11-14T22:13:20)"
