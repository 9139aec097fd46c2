"""Runs of small workflows, as deployed: through API Gateway, the queues, the coordinator and the worker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from stepwell.client.errors import ApiProblem
from tests.emulator.kit import CALLER, MAX_STEPS, World, until

LEAD = timedelta(minutes=2)  # a schedule fires so much before its time


def test_a_run_is_started_and_ends_with_its_result(world: World) -> None:
    run = world.end(world.start("greet", {"name": "you"}))
    assert (run["status"], run["result"]) == ("completed", "hello you")


def test_a_start_that_is_repeated_with_its_key_starts_nothing(world: World) -> None:
    first, second = (world.client.start("greet", {"name": "you"}, key="once") for _ in range(2))
    assert (first.is_new, second.is_new) == (True, False)
    assert first.id == second.id


def test_a_run_sleeps_and_goes_on(world: World) -> None:
    run = world.end(world.start("nap", {"name": "late riser"}))
    assert run["result"] == "hello late riser"
    slept, woke = (record["at_ms"] for record in world.records(run["run_id"])[:2])
    assert woke - slept >= 1_000


def test_an_approval_lets_a_run_go_on_and_a_second_one_is_refused(world: World) -> None:
    run_id = world.start("ask")
    assert world.waits(run_id)["waiting_for"] == "approval"
    world.client.handle(run_id).approve(by="ana")
    ended = world.end(run_id)
    assert ended["result"] == f"hello {CALLER}"  # who signed the call, whatever its body says
    received = next(one for one in world.client.handle(run_id).history() if one["type"] == "approval.received")
    assert received["data"]["named"] == "ana"
    with pytest.raises(ApiProblem) as refused:
        world.client.handle(run_id).approve(by="ben")
    assert refused.value.status == 409


def test_an_event_that_comes_after_its_wait_resumes_the_run(world: World) -> None:
    run_id = world.start("parcel", {"parcel": "after"})
    assert world.waits(run_id)["waiting_for"] == "event"
    world.client.send_event("parcel.sent", {"to": "ines"}, key="after")
    assert world.end(run_id)["result"] == "hello ines"


def test_an_event_that_came_before_its_wait_is_found_by_it(world: World) -> None:
    world.client.send_event("parcel.sent", {"to": "ines"}, key="before")
    until(lambda: not world.messages(world.queue()), "the event is published")
    run = world.end(world.start("parcel", {"parcel": "before"}))
    assert run["result"] == "hello ines"


def test_a_cancelled_run_is_over_at_once_and_stays_so(world: World) -> None:
    run_id = world.start("parcel", {"parcel": "cancelled"})
    world.waits(run_id)
    assert world.client.handle(run_id).cancel("changed my mind")["status"] == "cancelled"
    world.client.send_event("parcel.sent", {"to": "ines"}, key="cancelled")
    until(lambda: not world.messages(world.queue()), "the event is published")
    assert world.run(run_id)["status"] == "cancelled"
    assert [record["kind"] for record in world.records(run_id)] == ["waiting", "ended"]


def test_forty_laps_through_the_queues_are_not_taken_for_a_loop(world: World) -> None:
    assert world.end(world.start("laps"))["result"] == 40


def test_a_run_without_end_is_ended_at_the_deployment_s_bound(world: World) -> None:
    run = world.end(world.start("spin"))
    assert (run["status"], run["error"]["type"]) == ("failed", "step_limit")
    assert str(MAX_STEPS) in run["error"]["message"]
    assert MAX_STEPS <= len(world.records(run["run_id"])) <= MAX_STEPS + 2  # what was under way, and the end


def test_a_worker_whose_time_is_nearly_over_hands_the_run_to_the_next(world: World) -> None:
    run = world.end(world.start("relay"))
    assert run["status"] == "completed"
    wakes = [record["by"] for record in world.records(run["run_id"]) if record["kind"] != "ended"]
    assert len(set(wakes)) == len(wakes) == 3


def test_a_sleep_longer_than_a_queue_can_hold_is_a_schedule_that_fires_early(world: World) -> None:
    run_id = world.start("hibernate", {"name": "bear"})
    due = datetime.fromisoformat(world.waits(run_id)["waiting_until"])
    (found,) = world.schedules(run_id)
    assert found["ScheduleExpression"] == f"at({due.astimezone(UTC) - LEAD:%Y-%m-%dT%H:%M:%S})"
    assert found["ActionAfterCompletion"] == "DELETE"

    world.clock.advance(39 * 60)
    until(lambda: not world.schedules(run_id), "the schedule fires")
    until(lambda: any(run_id in one["Body"] and not one["IsVisible"] for one in world.messages(world.queue())),
          "the queue holds what is left of the time")  # fmt: skip
    assert world.run(run_id)["status"] == "waiting"
    world.clock.advance(60)
    run = world.end(run_id)
    assert run["result"] == "hello bear"
    assert world.records(run_id)[1]["at_ms"] >= due.timestamp() * 1_000


def test_a_webhook_without_its_signature_is_refused(world: World) -> None:
    body = b'{"action": "created", "issue": {"number": 1}}'
    assert world.deliver("hub", body, "issue_comment").status_code == 202
    assert world.deliver("hub", body, "issue_comment", secret="another").status_code == 401
