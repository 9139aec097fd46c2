"""Every write, on every kind of bad day: its answers, and what it leaves in the table, are those of a good day."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError

from stepwell.aws.scheduler_timers import NEAR_MS
from stepwell.aws.store.store import DynamoStore
from stepwell.engine.records import Status
from stepwell.errors import PortError
from stepwell.limits import ITEM_BYTES
from stepwell.runtime.ports import Lane
from stepwell.runtime.ports.headers import RunQuery, StatusChange
from tests.contract.emulated import Cloud, answer, aws_queue, items_of, s3_blobs, table_of
from tests.contract.kit import NOW_MS, ORDER, event, header, run, waiter

AWS = "com.amazonaws.dynamodb.v20120810#"
LARGE = "x" * (ITEM_BYTES + 1)
pytestmark = pytest.mark.usefixtures("client")  # once with each client of AWS
cloud_of = cache(Cloud)  # one for all that are about the store alone: clients take long to make
FAR_MS = NOW_MS + 2 * NEAR_MS


@dataclass(frozen=True)
class Write:
    """A write of the store: the API's operation it is made of, and what went before it."""

    operation: str
    call: Callable[[DynamoStore], Any]
    before: Callable[[DynamoStore], Any] | None = None


def change(rev: int = 1) -> StatusChange:
    return StatusChange("r1", rev, Status.RUNNING, NOW_MS, started_ms=NOW_MS)


async def erase(store: DynamoStore) -> int:
    return store.erase("r1", ())[0]


WRITES = {
    "append": Write("PutItem", lambda store: store.append("r1", "0", 0, "body")),
    "append to a taken slot": Write(
        "PutItem",
        lambda store: store.append("r1", "0", 0, "body"),
        lambda store: store.append("r1", "0", 0, "other"),
    ),
    "create a run": Write("PutItem", lambda store: store.create_run(header())),
    "create a run with a large input": Write("PutItem", lambda store: store.create_run(header(input="x" * 2_000))),
    "create a run that is there": Write(
        "PutItem", lambda store: store.create_run(header(tags={"a": "b"})), lambda store: store.create_run(header())
    ),
    "the first run of a workflow": Write("UpdateItem", lambda store: store.create_run(header(workflow="new"))),
    "change a status": Write(
        "UpdateItem", lambda store: store.change_status(change()), lambda store: store.create_run(header())
    ),
    "change a status too late": Write(
        "UpdateItem", lambda store: store.change_status(change(-2)), lambda store: store.create_run(header())
    ),
    "change the status of nothing": Write("UpdateItem", lambda store: store.change_status(change())),
    "arrive": Write(
        "UpdateItem", lambda store: store.arrive("r1", "j", "a"), lambda store: store.arrive("r1", "j", "b")
    ),
    "save a snapshot": Write("PutItem", lambda store: store.save_snapshot("r1", "0", 3, "folded")),
    "save an old snapshot": Write(
        "PutItem",
        lambda store: store.save_snapshot("r1", "0", 3, "folded"),
        lambda store: store.save_snapshot("r1", "0", 4, "newer"),
    ),
    "put an event": Write("PutItem", lambda store: store.put_event(event())),
    "put an event again": Write(
        "PutItem", lambda store: store.put_event(event(payload=2)), lambda store: store.put_event(event())
    ),
    "put a waiter": Write("PutItem", lambda store: store.put_waiter(waiter())),
    "forget a waiter": Write(
        "DeleteItem", lambda store: store.forget_waiter(waiter()), lambda store: store.put_waiter(waiter())
    ),
    "put a definition": Write("PutItem", lambda store: store.put_definition("v1", "text")),
    "consume": Write(
        "TransactWriteItems",
        lambda store: store.append("r1", "0", 0, "resumed", consumes=(ORDER, "e1")),
        lambda store: store.put_event(event()),
    ),
    "consume what is not there": Write(
        "TransactWriteItems", lambda store: store.append("r1", "0", 0, "resumed", consumes=(ORDER, "e1"))
    ),
    "erase": Write("BatchWriteItem", erase, lambda store: store.append("r1", "0", 0, "body")),
}


class Day:
    """The first calls of one operation go wrong: before they happen, or after."""

    def __init__(self, operation: str, before: Any = None, after: Any = None, times: int = 2) -> None:
        self._operation, self._before, self._after, self._left = operation, before, after, times

    def spoil(self, cloud: Cloud) -> None:
        cloud.before = lambda operation, _: self._go(operation, self._before)
        cloud.after = lambda operation, response: (
            self._go(operation, self._after) if response.status_code == 200 else None
        )

    def _go(self, operation: str, act: Any) -> AWSResponse | None:
        if act is None or operation != self._operation or not self._left:
            return None
        self._left -= 1
        made: AWSResponse = act(operation)
        return made


def says(code: str, status: int = 400) -> Callable[[str], AWSResponse]:
    def act(_: str) -> AWSResponse:
        return answer(status, json.dumps({"__type": f"{AWS}{code}", "message": "a bad day"}))

    return act


def conflicts(operation: str) -> AWSResponse:
    """A transaction has a reason for each item; a single write an exception of its own."""
    if operation != "TransactWriteItems":
        return says("TransactionConflictException")("")
    reasons = [{"Code": "TransactionConflict"}, {"Code": "None"}]
    body = {"__type": f"{AWS}TransactionCanceledException", "message": "", "CancellationReasons": reasons}
    return answer(400, json.dumps(body))


def times_out(_: str) -> AWSResponse:
    raise ReadTimeoutError(endpoint_url="http://emulated")


def hangs_up(_: str) -> AWSResponse:
    raise ConnectionClosedError(endpoint_url="http://emulated")


DAYS: dict[str, dict[str, Any]] = {
    "conflict": {"before": conflicts},
    "throttled": {"before": says("ThrottlingException")},
    "time-out before": {"before": times_out},
    "time-out after": {"after": times_out},
    "hung up after": {"after": hangs_up},
    "error after": {"after": says("InternalServerError", 500)},
}


def outcome(write: Write, day: dict[str, Any] | None, client: str) -> tuple[Any, list[Any], int]:
    """The write's answer, everything in the table after it, and how often it was sent."""
    with table_of(cloud := cloud_of(client), now_ms=lambda: NOW_MS) as table:
        store = DynamoStore(table)
        run(store.create_run(header("warm")))
        if write.before is not None:
            run(write.before(store))
        if day is not None:
            Day(write.operation, **day).spoil(cloud)
        cloud.calls.clear()
        answered = run(write.call(store))
        sent = cloud.calls.count(write.operation)
        cloud.heal()
        return answered, sorted(items_of(table.name), key=json.dumps), sent


@cache
def good_day(write: Write, client: str) -> tuple[Any, list[Any], int]:
    return outcome(write, None, client)


@pytest.mark.parametrize("day", DAYS.values(), ids=DAYS.keys())
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
def test_a_write_answers_and_leaves_behind_what_it_does_on_a_good_day(
    client: str, write: Write, day: dict[str, Any]
) -> None:
    answered, left, sent = good_day(write, client)
    assert sent > 0
    on_bad_day = outcome(write, day, client)
    assert on_bad_day[:2] == (answered, left)
    assert on_bad_day[2] > sent or "after" in day  # what is refused has no answer to lose


@pytest.mark.parametrize("day", DAYS.values(), ids=DAYS.keys())
def test_a_list_and_a_log_are_read_on_a_bad_day_as_on_a_good_one(client: str, day: dict[str, Any]) -> None:
    with table_of(cloud := cloud_of(client)) as table:
        store = DynamoStore(table)
        run(store.create_run(header()))
        run(store.save_snapshot("r1", "0", 0, "folded"))
        run(store.append("r1", "0", 1, "body"))
        for operation, call in (
            ("Query", lambda: store.list_runs(RunQuery())),
            ("BatchGetItem", lambda: store.list_runs(RunQuery())),
            ("GetItem", lambda: store.load("r1", "0")),
        ):
            cloud.heal()
            expected = run(call())
            Day(operation, **day).spoil(cloud)
            assert run(call()) == expected


@pytest.mark.parametrize("operation", ["BatchGetItem", "BatchWriteItem"])
def test_a_batch_that_is_never_let_through_is_a_port_error(client: str, operation: str) -> None:
    with table_of(cloud := cloud_of(client)) as table:
        store = DynamoStore(table)
        run(store.create_run(header()))
        Day(operation, before=says("ThrottlingException"), times=10_000).spoil(cloud)
        with pytest.raises(PortError, match=operation):
            run(store.list_runs(RunQuery()) if operation == "BatchGetItem" else erase(store))


def test_a_deletion_that_waits_for_its_turn_deletes_no_more_than_it_was_asked() -> None:
    cloud = Cloud()
    with table_of(cloud) as table:
        store = DynamoStore(table)
        for run_id in ("r1", "r2"):
            run(store.append(run_id, "0", 0, "body"))
        Day("BatchWriteItem", before=conflicts, times=1).spoil(cloud)
        assert store.erase("r1", ())[0] == 1
        assert len(run(store.read_log("r2", "0"))) == 1


@pytest.mark.parametrize("day", [{"before": times_out}, {"after": times_out}, {"before": says("Throttling")}])
def test_a_message_may_be_sent_twice_and_is_never_lost(day: dict[str, Any]) -> None:
    with aws_queue() as queue:
        Day("SendMessage", **day).spoil(queue.cloud)
        run(queue.send(Lane.WORK, {"m": 1}))
        queue.cloud.heal()
        found = []
        while (delivery := queue.receive([Lane.WORK], NOW_MS, 60_000)) is not None:
            found.append(delivery.message)
            queue.delete(delivery)
        assert found == [{"m": 1}] * (3 if "after" in day else 1)


@pytest.mark.parametrize("day", [{"before": times_out}, {"after": times_out}, {"before": says("ThrottlingException")}])
def test_a_schedule_is_made_once_however_often_it_is_asked_for(day: dict[str, Any]) -> None:
    with aws_queue() as queue:
        Day("CreateSchedule", **day).spoil(queue.cloud)
        run(queue.set("t", Lane.RESUME, {"m": 1}, FAR_MS))
        queue.cloud.heal()
        assert len(queue.cloud.connect("scheduler").list_schedules()["Schedules"]) == 1


@pytest.mark.parametrize("day", [{"before": times_out}, {"after": times_out}, {"after": hangs_up}])
def test_a_large_record_is_one_object_and_one_item_however_often_it_is_put(day: dict[str, Any]) -> None:
    cloud = Cloud()
    with s3_blobs(cloud=cloud) as blobs, table_of(cloud, blobs=blobs) as table:
        store = DynamoStore(table)
        Day("PutObject", **day).spoil(cloud)
        assert run(store.append("r1", "0", 0, LARGE)) is None
        Day("PutItem", **day).spoil(cloud)
        assert run(store.append("r1", "0", 1, LARGE)) is None
        Day("GetObject", **day).spoil(cloud)
        assert [saved.body for saved in run(store.read_log("r1", "0"))] == [LARGE] * 2
        cloud.heal()
        assert len(cloud.connect("s3").list_objects_v2(Bucket=blobs._bucket)["Contents"]) == 1


def test_a_body_that_s3_takes_for_too_slow_is_sent_again() -> None:
    """S3 says so with the status 400, in XML."""
    too_slow = b"<Error><Code>RequestTimeout</Code><Message>not read from in time</Message></Error>"
    cloud = Cloud()
    with s3_blobs(cloud=cloud) as blobs:
        Day("PutObject", before=lambda _: answer(400, too_slow)).spoil(cloud)
        assert run(blobs.get(run(blobs.put(b"large")))) == b"large"


def test_a_record_whose_blob_cannot_be_put_takes_no_slot() -> None:
    cloud = Cloud()
    with s3_blobs(cloud=cloud) as blobs, table_of(cloud, blobs=blobs) as table:
        store = DynamoStore(table)
        Day("PutObject", before=says("SlowDown", 503), times=10_000).spoil(cloud)
        with pytest.raises(PortError):
            run(store.append("r1", "0", 0, LARGE))
        cloud.heal()
        assert run(store.append("r1", "0", 0, "small")) is None
