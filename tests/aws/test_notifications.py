"""From the stream to the queue of notifications: who is written to, what comes again, what a failing queue stops."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from botocore.awsrequest import AWSResponse

from stepwell.runtime.notify.endpoints import Endpoint, Notification
from tests.aws.stream_kit import Streamed, streamed
from tests.contract.emulated import answer

FLOWS = [f"workflow: {name}\ntimeline: [{{name: a, run: python:m.a}}, {{name: b, run: python:m.b}}]"
         for name in ("flow", "other")]  # fmt: skip


def endpoint(name: str, *events: str, workflows: frozenset[str] | None = None) -> Endpoint:
    return Endpoint(name, f"https://{name}.example.com/", (f"env:{name}",), frozenset(events), workflows)


@pytest.fixture
def at() -> Iterator[Streamed]:
    with streamed(*FLOWS) as made:
        made.endpoints = (
            endpoint("crm", "run.completed", workflows=frozenset({"flow"})),
            endpoint("audit", "run.created", "step.completed", "run.completed"),
        )
        made.restart()
        yield made


def ran(at: Streamed, *workflows: str) -> list[str]:
    started = [at.world.start(workflow) for workflow in workflows]
    at.world.deliver()
    return started


def told(notifications: list[Notification]) -> list[tuple[str, str, str]]:
    return sorted((one.endpoint, one.content["data"]["workflow"], one.content["type"]) for one in notifications)


def test_endpoints_are_written_to_of_what_they_want_as_the_bus_is_told(at: Streamed) -> None:
    ran(at, "flow", "other")
    at.take()
    notifications = at.notifications()
    audit = ["run.completed", "run.created", "step.completed", "step.completed"]
    assert told(notifications) == [
        ("audit", "flow", audit[0]), ("audit", "flow", audit[1]), ("audit", "flow", audit[2]),
        ("audit", "flow", audit[3]), ("audit", "other", audit[0]), ("audit", "other", audit[1]),
        ("audit", "other", audit[2]), ("audit", "other", audit[3]), ("crm", "flow", "run.completed"),
    ]  # fmt: skip
    events = {event["id"]: event for event in at.events()}
    for notification in notifications:
        sent = events[notification.content["data"]["id"]]
        assert notification.content["data"] == {name: sent[name] for name in notification.content["data"]}


def test_a_batch_that_comes_again_makes_the_same_notifications_again(at: Streamed) -> None:
    ran(at, "flow")
    records = at.records()
    at.take(records)
    first = at.notifications()
    at.restart()
    at.take(records)
    again = at.notifications()
    key = [(one.endpoint, one.id) for one in first]
    assert sorted(key) == sorted((one.endpoint, one.id) for one in again)
    assert len({one.id for one in first}) == 4
    assert len(set(key)) == len(first) == 5


def test_while_the_queue_does_not_answer_the_changes_whose_notifications_it_did_not_take_come_again(
    at: Streamed,
) -> None:
    ran(at, *["flow"] * 6)  # 30 notifications: three requests
    records, seen = at.records(), []

    def second_fails(operation: str, _: object) -> AWSResponse | None:
        seen.append(operation)
        return answer(500, "{}") if operation == "SendMessageBatch" and seen.count(operation) > 1 else None

    at.cloud.before = second_fails
    (taken,) = at.take(records)
    assert 0 < taken.done < len(records)
    at.cloud.heal()
    posted = at.notifications()
    assert len(posted) == 10
    at.take(records[taken.done :])
    assert len({(one.endpoint, one.id) for one in [*posted, *at.notifications()]}) == 30


def test_what_the_bus_does_not_take_is_not_posted_yet(at: Streamed) -> None:
    ran(at, "flow")
    records = at.records()
    at.cloud.before = lambda operation, _: answer(500, "{}") if operation == "PutEvents" else None
    (taken,) = at.take(records)
    assert taken.done < len(records)
    assert at.notifications() == []
