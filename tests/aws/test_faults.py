"""What AWS does on a bad day, put into the wire: conflicts, throttles, broken connections, answers that were lost."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import (
    ConnectTimeoutError,
    FlexibleChecksumError,
    IncompleteReadError,
    ReadTimeoutError,
    SSLError,
)

from stepwell.aws.calls import Retry
from stepwell.aws.store.store import DynamoStore
from stepwell.aws.store.table import Table
from stepwell.engine.records import Status
from stepwell.errors import EngineFault, InvalidInput, PortError
from stepwell.runtime.ports import Appended, EventTaken, Lane, Saved
from stepwell.runtime.ports.headers import StatusChange
from tests.contract.emulated import Cloud, answer, aws_queue, s3_blobs, table_of
from tests.contract.kit import NOW_MS, ORDER, event, header, run, waiter

pytestmark = pytest.mark.usefixtures("client")  # once with each client of AWS
SLEPT: list[float] = []
FOUR_TRIES = Retry(attempts=4, base_seconds=0.1, most_seconds=0.3, sleep=SLEPT.append, random=lambda: 0.5)
CHANGE = StatusChange("r1", 1, Status.RUNNING, NOW_MS, started_ms=NOW_MS)


@pytest.fixture
def cloud(client: str) -> Cloud:
    SLEPT.clear()
    return Cloud()


@pytest.fixture
def table(cloud: Cloud) -> Iterator[Table]:
    with table_of(cloud, retry=FOUR_TRIES) as made:
        yield made


@pytest.fixture
def store(table: Table) -> DynamoStore:
    return DynamoStore(table)


def error(code: str, status: int = 400, **parts: Any) -> AWSResponse:
    """An error as DynamoDB sends it."""
    body = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "a bad day", **parts}
    return answer(status, json.dumps(body), {"Content-Type": "application/x-amz-json-1.0"})


def first(times: int, operation: str, act: Callable[[], Any]) -> Callable[[str, Any], Any]:
    """Acts on the first calls of an operation."""
    left = [times]

    def hook(called: str, _: Any) -> Any:
        if called != operation or not left[0]:
            return None
        left[0] -= 1
        return act()

    return hook


def times_out() -> None:
    raise ReadTimeoutError(endpoint_url="http://emulated")


def does_not_connect() -> None:
    raise ConnectTimeoutError(endpoint_url="http://emulated")


def cancelled(*codes: str) -> AWSResponse:
    reasons = [{"Code": code, "Message": code} for code in codes]
    return error("TransactionCanceledException", CancellationReasons=reasons)


BAD_DAYS = {
    "throttled": lambda: error("ThrottlingException"),
    "too fast": lambda: error("ProvisionedThroughputExceededException"),
    "conflict": lambda: error("TransactionConflictException"),
    "server": lambda: error("InternalServerError", 500),
    "unavailable": lambda: answer(503, ""),
    "no connection": does_not_connect,
    "no answer": times_out,
}


@pytest.mark.parametrize("day", BAD_DAYS.values(), ids=BAD_DAYS.keys())
def test_a_call_is_made_again_on_a_bad_day(cloud: Cloud, store: DynamoStore, day: Callable[[], Any]) -> None:
    cloud.before = first(3, "PutItem", day)
    assert run(store.append("r1", "0", 0, "body")) is None
    assert len(SLEPT) == 3


def test_the_pauses_grow_are_bounded_and_are_drawn_by_full_jitter(cloud: Cloud, store: DynamoStore) -> None:
    cloud.before = first(3, "PutItem", BAD_DAYS["throttled"])
    run(store.append("r1", "0", 0, "body"))
    assert SLEPT == [0.5 * 0.1, 0.5 * 0.2, 0.5 * 0.3]


@pytest.mark.parametrize("day", BAD_DAYS.values(), ids=BAD_DAYS.keys())
@pytest.mark.parametrize("operation", ["PutItem", "Query", "UpdateItem", "TransactWriteItems", "DeleteItem", "GetItem"])
def test_a_bad_day_without_end_is_a_port_error(
    cloud: Cloud, store: DynamoStore, operation: str, day: Callable[[], Any]
) -> None:
    calls: dict[str, Callable[[], Any]] = {
        "PutItem": lambda: store.append("r1", "0", 0, "body"),
        "Query": lambda: store.read_log("r1", "0"),
        "UpdateItem": lambda: store.change_status(CHANGE),
        "TransactWriteItems": lambda: store.append("r1", "0", 0, "body", consumes=(ORDER, "e1")),
        "DeleteItem": lambda: store.forget_waiter(waiter()),
        "GetItem": lambda: store.get_definition("v1"),
    }
    cloud.before = first(99, operation, day)
    with pytest.raises(PortError, match=f"{operation}: 4 attempts"):
        run(calls[operation]())
    assert len(SLEPT) == 3


@pytest.mark.parametrize("code", ["AccessDeniedException", "ResourceNotFoundException", "ExpiredTokenException"])
def test_what_no_second_try_can_mend_is_a_port_error_at_once(cloud: Cloud, store: DynamoStore, code: str) -> None:
    cloud.before = first(1, "PutItem", lambda: error(code))
    with pytest.raises(PortError, match=code):
        run(store.append("r1", "0", 0, "body"))
    assert SLEPT == []


def test_an_append_whose_answer_was_lost_knows_its_own_record(cloud: Cloud, store: DynamoStore) -> None:
    cloud.after = first(1, "PutItem", times_out)
    assert run(store.append("r1", "0", 0, "body")) is None
    assert cloud.calls.count("PutItem") == 2
    assert run(store.append("r1", "0", 0, "body")) == "body"  # a later call is another writer


def test_an_append_that_timed_out_and_then_finds_another_record_lost(cloud: Cloud, store: DynamoStore) -> None:
    run(store.append("r1", "0", 0, "other"))
    cloud.after = first(1, "PutItem", times_out)
    assert run(store.append("r1", "0", 0, "body")) == "other"


def test_a_run_an_event_and_a_status_whose_answers_were_lost_are_not_taken_for_anothers(
    cloud: Cloud, store: DynamoStore
) -> None:
    run(store.create_run(header("warm")))
    cloud.after = first(1, "PutItem", times_out)
    assert run(store.create_run(header())) is None
    cloud.after = first(1, "PutItem", times_out)
    assert run(store.put_event(event()))
    cloud.after = first(1, "UpdateItem", times_out)
    assert run(store.change_status(CHANGE))
    assert not run(store.change_status(CHANGE))


def test_an_arrival_whose_answer_was_lost_counts_once(cloud: Cloud, store: DynamoStore) -> None:
    cloud.after = first(1, "UpdateItem", times_out)
    assert run(store.arrive("r1", "j", "a")).members == {"a"}


def test_a_consumption_whose_answer_was_lost_is_done_once(cloud: Cloud, store: DynamoStore) -> None:
    run(store.put_event(event()))
    cloud.after = first(1, "TransactWriteItems", times_out)
    assert run(store.append("r1", "0", 4, "resumed", consumes=(ORDER, "e1"))) is None
    assert cloud.calls.count("TransactWriteItems") == 2
    assert run(store.read_log("r1", "0")) == [Saved(4, "resumed")]


def test_a_consumption_of_which_no_answer_ever_came_is_read_back(cloud: Cloud, store: DynamoStore) -> None:
    run(store.put_event(event()))
    cloud.after = first(99, "TransactWriteItems", times_out)
    assert run(store.append("r1", "0", 4, "resumed", consumes=(ORDER, "e1"))) is None
    cloud.after = Cloud().after
    cloud.before = first(99, "TransactWriteItems", times_out)
    run(store.put_event(event("e2")))
    with pytest.raises(PortError):
        run(store.append("r1", "0", 5, "resumed", consumes=(ORDER, "e2")))
    assert [found.id for found in run(store.pending_events(ORDER, NOW_MS))] == ["e2"]


def test_a_consumption_whose_answers_are_lost_takes_no_other_record_for_its_own(
    cloud: Cloud, store: DynamoStore
) -> None:
    """Another worker consumed the same event into the same slot."""
    run(store.put_event(event()))
    assert run(store.append("r1", "0", 4, "another's", consumes=(ORDER, "e1"))) is None
    cloud.before = first(99, "TransactWriteItems", times_out)
    with pytest.raises(PortError):
        run(store.append("r1", "0", 4, "mine", consumes=(ORDER, "e1")))


@pytest.mark.parametrize(
    "reasons",
    [
        ("TransactionConflict", "None"),
        ("None", "TransactionConflict"),
        ("ThrottlingError", "None"),
        ("None", "ProvisionedThroughputExceeded"),
        ("TransactionConflict", "ConditionalCheckFailed"),
    ],
)
def test_a_conflict_of_transactions_is_tried_again(cloud: Cloud, store: DynamoStore, reasons: tuple[str, str]) -> None:
    run(store.put_event(event()))
    cloud.before = first(2, "TransactWriteItems", lambda: cancelled(*reasons))
    assert run(store.append("r1", "0", 4, "resumed", consumes=(ORDER, "e1"))) is None
    assert len(SLEPT) == 2


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        (("ConditionalCheckFailed", "None"), "timeout"),
        (("ConditionalCheckFailed", "ConditionalCheckFailed"), "timeout"),
        (("ConditionalCheckFailed", "TransactionConflict"), "timeout"),
        (("None", "ConditionalCheckFailed"), EventTaken()),
    ],
)
def test_a_refused_transaction_is_read_item_by_item(
    cloud: Cloud, store: DynamoStore, reasons: tuple[str, str], expected: Appended
) -> None:
    run(store.append("r1", "0", 4, "timeout"))
    cloud.before = first(1, "TransactWriteItems", lambda: cancelled(*reasons))
    assert run(store.append("r1", "0", 4, "resumed", consumes=(ORDER, "e1"))) == expected
    assert SLEPT == []


def test_what_dynamodb_cannot_hold_is_invalid_input(store: DynamoStore) -> None:
    for refused in (
        store.append("r1", "0", 0, "half a pair \ud800"),
        store.append("\ud800", "0", 0, "body"),
        store.create_run(header(created_ms=-1)),
    ):
        with pytest.raises(InvalidInput):
            run(refused)


def test_an_item_that_is_too_large_after_all_is_invalid_input(cloud: Cloud, store: DynamoStore) -> None:
    body = json.dumps({"__type": "a#ValidationException", "message": "Item size has exceeded the maximum allowed size"})
    cloud.before = first(1, "PutItem", lambda: answer(400, body))
    with pytest.raises(InvalidInput, match="Item size"):
        run(store.append("r1", "0", 0, "body"))


def test_a_defect_of_ours_is_an_engine_fault(cloud: Cloud, table: Table, store: DynamoStore) -> None:
    cloud.before = first(1, "PutItem", lambda: error("ValidationException"))
    with pytest.raises(EngineFault):
        run(store.append("r1", "0", 0, "body"))
    with pytest.raises(EngineFault):
        table.get({"pk": "not a value"})  # type: ignore[dict-item]  # it has no type, as every value in DynamoDB


def test_keys_that_a_batch_left_unread_are_asked_for_again(cloud: Cloud, table: Table, store: DynamoStore) -> None:
    for number in range(5):
        run(store.append("r1", "0", number, f"{number}"))
    keys = [{"pk": item["pk"], "sk": item["sk"]} for item in table.query("pk = :pk", {":pk": "RUN#r1"})]
    body = json.dumps({"Responses": {}, "UnprocessedKeys": {table.name: {"Keys": keys}}})
    cloud.before = first(2, "BatchGetItem", lambda: answer(200, body))
    assert len(table.get_many(keys)) == 5
    assert len(SLEPT) == 2
    cloud.before = first(99, "BatchGetItem", lambda: answer(200, body))
    with pytest.raises(PortError, match="left undone"):
        table.get_many(keys)
    assert len(SLEPT) == 2 + 3  # four attempts, and no pause after the last one


def test_deletes_that_a_batch_left_undone_are_sent_again(cloud: Cloud, table: Table, store: DynamoStore) -> None:
    for number in range(60):
        run(store.append("r1", "0", number, f"{number}"))
    keys = [{"pk": item["pk"], "sk": item["sk"]} for item in table.query("pk = :pk", {":pk": "RUN#r1"})]
    body = json.dumps({"UnprocessedItems": {table.name: [{"DeleteRequest": {"Key": key}} for key in keys[:25]]}})
    cloud.before = first(1, "BatchWriteItem", lambda: answer(200, body))
    assert store.erase("r1", ())[0] == 60
    assert run(store.read_log("r1", "0")) == []
    assert cloud.calls.count("BatchWriteItem") == 4


def test_the_queue_the_timers_and_the_blobs_try_again_and_give_up_in_the_same_way() -> None:
    with aws_queue() as queue:
        calls: dict[str, Callable[[], Any]] = {
            "SendMessage": lambda: queue.send(Lane.WORK, {"m": 1}),
            "CreateSchedule": lambda: queue.set("t", Lane.WORK, {"m": 1}, NOW_MS + 10**9),
        }
        for operation, call in calls.items():
            queue.cloud.before = first(2, operation, times_out)
            run(call())
            queue.cloud.before = first(9_999, operation, lambda: answer(503, ""))
            with pytest.raises(PortError):
                run(call())
    cloud = Cloud()
    with s3_blobs(cloud=cloud) as blobs:
        cloud.before = first(2, "PutObject", times_out)
        reference = run(blobs.put(b"data"))
        cloud.before = first(2, "GetObject", lambda: answer(503, ""))
        assert run(blobs.get(reference)) == b"data"
        cloud.before = first(1, "GetObject", lambda: answer(200, b"other"))
        with pytest.raises(PortError, match="damaged"):
            run(blobs.get(reference))


@pytest.mark.parametrize(
    "lost",
    [
        SSLError(endpoint_url="https://s3", error="EOF occurred in violation of protocol"),
        IncompleteReadError(actual_bytes=3, expected_bytes=4),
        FlexibleChecksumError(error_msg="another checksum"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_an_answer_that_is_cut_off_or_damaged_is_asked_for_again(lost: Exception) -> None:
    cloud = Cloud()
    with s3_blobs(cloud=cloud) as blobs:
        reference = run(blobs.put(b"data"))

        def breaks() -> None:
            raise lost

        cloud.before = first(2, "GetObject", breaks)
        assert run(blobs.get(reference)) == b"data"


def test_processes_from_one_snapshot_do_not_come_again_at_the_same_moments() -> None:
    """Each has the state that Python's random numbers had in the snapshot."""

    def pauses() -> list[float]:
        slept: list[float] = []
        retry = Retry(sleep=slept.append)
        random.seed("in the snapshot")
        retry.wait(0)
        retry.wait(1)
        return slept

    assert pauses() != pauses()
