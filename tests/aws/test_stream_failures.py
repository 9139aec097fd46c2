"""The stream when something fails or is broken, and when runs are gone: what comes again, what is passed over."""

from __future__ import annotations

import json
from collections import Counter
from itertools import count
from typing import Any

import pytest

from stepwell.aws.store.items import ttl
from stepwell.definition.graph import Json
from stepwell.engine.records import Status
from stepwell.errors import PortError
from stepwell.limits import CLAIM_CHECK_BYTES, DAY_MS, HOUR_MS, ITEM_BYTES, MINUTE_MS, YEAR_MS
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.stores.blobs import of_run
from tests.aws.stream_kit import Streamed, run_of, sort_of, streamed
from tests.contract.emulated import answer, items_of

CHAIN = "workflow: flow\ntimeline: [{name: a, run: python:m.a}, {name: b, run: python:m.b}]"
EVENT = "workflow: flow\ntimeline: [{name: hold, wait: {for: event, name: paid, key: k}}]"


def chained(at: Streamed) -> str:
    run_id = at.world.start()
    at.world.deliver()
    return run_id


def test_an_event_that_is_refused_for_now_is_sent_again_and_the_others_are_not() -> None:
    with streamed(CHAIN) as at:
        chained(at)
        sent: list[list[str]] = []

        def throttled(operation: str, request: Any) -> Any:
            if operation == "PutEvents":
                entries = json.loads(request.body)["Entries"]
                sent.append([entry["DetailType"] for entry in entries])
                if len(sent) == 1:
                    results: list[Json] = [{"EventId": "1"} for _ in entries]
                    results[1] = {"ErrorCode": "ThrottlingException", "ErrorMessage": "slowly"}
                    return answer(200, json.dumps({"FailedEntryCount": 1, "Entries": results}))
            return None

        at.cloud.before = throttled
        records = at.records()
        (taken,) = at.take(records)
        assert [len(entries) for entries in sent] == [5, 1]
        assert sent[1] == [sent[0][1]] == ["run.started"]
        assert taken.done == len(records)


def test_an_event_that_the_bus_will_never_take_is_logged_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with streamed(CHAIN) as at:
        chained(at)
        refused = {"FailedEntryCount": 5, "Entries": [{"ErrorCode": "MalformedDetail", "ErrorMessage": "no"}] * 5}
        at.cloud.before = lambda operation, _: answer(200, json.dumps(refused)) if operation == "PutEvents" else None
        (taken,) = at.take()
        assert len(taken.notices) == 5
        assert caplog.text.count("MalformedDetail") == 5


def test_when_the_bus_does_not_answer_the_batch_comes_again_from_its_first_event_on() -> None:
    with streamed(CHAIN) as at:
        for _ in range(4):
            chained(at)
        calls = count(1)

        def broken(operation: str, _: Any) -> Any:
            return answer(500, "{}") if operation == "PutEvents" and next(calls) > 1 else None

        at.cloud.before = broken
        records = at.records()
        (taken,) = at.take()
        assert 0 < taken.done < len(records)
        assert len(taken.notices) <= 10
        at.cloud.heal()
        (again,) = at.take(records[taken.done :])
        assert again.done == len(records) - taken.done
        assert {event["id"] for event in at.events()} == {n.id for n in taken.notices} | {n.id for n in again.notices}
        assert len(taken.notices) + len(again.notices) == 20


def test_when_the_table_does_not_answer_what_was_told_before_stands() -> None:
    with streamed(CHAIN) as at:
        first, second, third = (chained(at) for _ in range(3))
        followed = [one for one in at.records() if run_of(one) == first]
        unknown = [one for one in at.records() if run_of(one) == second and sort_of(one).startswith("LOG#")]
        behind = [one for one in at.records() if run_of(one) == third]
        at.cloud.before = lambda operation, _: answer(500, "{}") if operation == "Query" else None
        (taken,) = at.take([*followed, *unknown, *behind])
        assert taken.done == len(followed)
        assert {event["run_id"] for event in at.events()} == {first}
        at.cloud.heal()
        at.take([*unknown, *behind])
        assert at.types(second)[-1] == at.types(third)[-1] == "run.completed"


@pytest.mark.parametrize(
    "body", ["{", "[]", '{"kind": "step"}', '{"slot": 0, "kind": "no such", "by": "", "at_ms": 0}']
)
def test_a_broken_record_is_passed_over_and_the_others_are_told(body: str, caplog: pytest.LogCaptureFixture) -> None:
    with streamed(CHAIN) as at:
        first, second = chained(at), chained(at)
        records = json.loads(json.dumps(at.records()))
        broken = next(one for one in records if sort_of(one).startswith("LOG#"))
        broken["dynamodb"]["NewImage"]["body"] = {"S": body}
        (taken,) = at.take(records)
        assert (taken.done, taken.passed_over) == (len(records), 1)
        assert "passed over" in caplog.text
        assert at.types(second)[-1] == "run.completed"
        assert at.types(first)[-1] == "run.completed"  # what follows it is told from what the table holds


def test_what_is_neither_a_header_nor_a_record_is_nothing_to_tell() -> None:
    with streamed(EVENT) as at:
        chained(at)
        others = [one for one in at.records() if sort_of(one).split("#")[0] not in {"RUN", "LOG"}]
        assert {sort_of(one).split("#")[0] for one in others} >= {"W", "DEF", "WORKFLOWS"}
        (taken,) = at.take(others)
        assert (taken.done, taken.placed, taken.passed_over) == (len(others), [], 0)


def removed(at: Streamed, run_id: str, by: str | None) -> dict[str, Any]:
    """The header's deletion, as the stream has it."""
    key = {"pk": {"S": f"RUN#{run_id}"}, "sk": {"S": "RUN"}}
    last = [one for one in at.all_records() if one["dynamodb"]["Keys"] == key][-1]
    change = {name: value for name, value in last["dynamodb"].items() if name != "NewImage"}
    change["OldImage"] = last["dynamodb"]["NewImage"]
    identity = {"userIdentity": {"type": "Service", "principalId": by}} if by else {}
    return {**last, "eventName": "REMOVE", "dynamodb": change, **identity}


def expire(at: Streamed, run_id: str) -> None:
    key = {"pk": {"S": f"RUN#{run_id}"}, "sk": {"S": "RUN"}}
    at.cloud.connect("dynamodb").delete_item(TableName=at.world.table.name, Key=key)


def test_a_run_whose_header_expired_leaves_nothing_behind() -> None:
    with streamed(CHAIN) as at:
        run_id, other = chained(at), chained(at)
        gone = removed(at, run_id, "dynamodb.amazonaws.com")
        expire(at, run_id)
        assert at.take([gone])[0].done == 1
        assert run_now(at.world.store.read_log(run_id, "0")) == []
        assert len(run_now(at.world.store.read_log(other, "0"))) == 2
        assert at.take([gone])[0].done == 1  # again: there is nothing left to do


FORKED = """
workflow: flow
nodes:
  rows: {transitions: [{to: row, foreach: "{{ input.rows }}"}]}
  row: {transitions: [{to: cell, foreach: "{{ state.item }}"}]}
  cell: {run: python:m.a, transitions: [{to: line}]}
  line: {fan_in: {policy: all}, transitions: [{to: table}]}
  table: {fan_in: {policy: any}}
"""


def test_a_run_that_forked_leaves_nothing_behind_either() -> None:
    with streamed(FORKED) as at:
        run_id = at.world.start(given={"rows": [[1, 2], [], *[[3]] * 120]})
        at.world.deliver()
        gone = removed(at, run_id, "dynamodb.amazonaws.com")
        expire(at, run_id)
        assert at.take([gone])[0].done == 1
        left = at.cloud.connect("dynamodb").scan(TableName=at.world.table.name)["Items"]
        assert [item["pk"]["S"] for item in left if item["pk"]["S"].startswith(f"RUN#{run_id}")] == []


def blobs(at: Streamed, prefix: str = "") -> list[str]:
    listed = at.cloud.connect("s3").list_objects_v2(Bucket=at.bucket, Prefix=f"blobs/{prefix}")
    return [one["Key"] for one in listed.get("Contents", [])]


LARGE = "x" * (ITEM_BYTES + 1)
LARGER = "y" * (CLAIM_CHECK_BYTES + 1)


@pytest.mark.parametrize("given", [{"text": LARGE}, {"text": LARGER}], ids=["an item", "a record"])
def test_the_blobs_of_an_expired_run_go_with_it_and_no_others(given: dict[str, str]) -> None:
    """Its input, its records; an event's payload and a definition stay, and so does the same input of another run."""
    with streamed(CHAIN) as at:
        at.world.steps.of.update(a=lambda _: given, b=lambda _: given)
        run_id, other = at.world.start(given=given), at.world.start(given=given)
        at.world.deliver()
        run_now(at.world.store.put_definition("v9", LARGE))
        run_now(at.world.service.send_event("paid", given))
        kept = {*blobs(at)} - {*blobs(at, of_run(run_id))}
        assert len(blobs(at, of_run(run_id))) >= 3
        assert len(blobs(at, of_run(other))) >= 3
        assert len(blobs(at, "days-")) == 1
        gone = removed(at, run_id, "dynamodb.amazonaws.com")
        expire(at, run_id)
        at.take([gone])
        assert {*blobs(at)} == kept
        assert at.world.header(other).input == given
        at.take([gone])  # again: there is nothing left to do
        assert {*blobs(at)} == kept


@pytest.mark.parametrize("fails", ["drop", "delete_many"])
@pytest.mark.parametrize("times", [1, 2, 3, 4])
def test_an_expiry_that_is_cut_off_forgets_no_blob(monkeypatch: pytest.MonkeyPatch, fails: str, times: int) -> None:
    """The records of its forks are small; those of their branches name the blobs."""
    with streamed(FORKED) as at:
        texts = iter([LARGE, LARGER])
        at.world.steps.of.update(cell=lambda _: {"text": next(texts)})
        run_id = at.world.start(given={"rows": [[1, 2]]})
        at.world.deliver()
        assert len(blobs(at, of_run(run_id))) >= 2
        gone = removed(at, run_id, "dynamodb.amazonaws.com")
        expire(at, run_id)
        failing(monkeypatch, at.world.blobs if fails == "drop" else at.world.table, fails, at_call=times)
        taken = [at.take([gone])[0].done for _ in range(2)]
        assert taken in ([0, 1], [1, 1])
        assert blobs(at, of_run(run_id)) == []
        left = at.cloud.connect("dynamodb").scan(TableName=at.world.table.name)["Items"]
        assert [item["pk"]["S"] for item in left if item["pk"]["S"].startswith(f"RUN#{run_id}")] == []


def failing(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, at_call: int) -> None:
    """The method fails once, at this call."""
    calls, method = count(1), getattr(owner, name)

    def fail(*given: Any) -> Any:
        if next(calls) == at_call:
            raise PortError("away")
        return method(*given)

    monkeypatch.setattr(owner, name, fail)


def test_a_record_whose_blob_is_gone_is_passed_over_and_the_others_are_told(caplog: pytest.LogCaptureFixture) -> None:
    with streamed(CHAIN) as at:
        at.world.steps.of.update(a=lambda _: {"text": LARGER})
        first, second = chained(at), chained(at)
        run_now(at.world.blobs.drop(of_run(first)))
        records = at.records()
        (taken,) = at.take(records)
        assert (taken.done, taken.passed_over > 0) == (len(records), True)
        assert f"RUN#{first}/LOG#0#0000000000 cannot be told, and is passed over" in caplog.text
        assert at.types(second)[-1] == "run.completed"


def test_runs_that_expire_together_are_erased_one_after_the_other_as_the_time_allows() -> None:
    with streamed(CHAIN) as at:
        runs = [chained(at) for _ in range(3)]
        gone = [removed(at, run_id, "dynamodb.amazonaws.com") for run_id in runs]
        for run_id in runs:
            expire(at, run_id)
        left_ms = iter([1, 0])
        assert run_now(at.stream.take(gone, lambda: next(left_ms))).done == 2
        assert [len(run_now(at.world.store.read_log(run_id, "0"))) for run_id in runs] == [0, 0, 2]
        assert run_now(at.stream.take(gone[2:], lambda: 0)).done == 1  # the first one in any case
        assert run_now(at.world.store.read_log(runs[2], "0")) == []


def test_a_run_without_blobs_expires_without_a_look_into_the_bucket() -> None:
    with streamed(CHAIN) as at:
        run_id = chained(at)
        gone = removed(at, run_id, "dynamodb.amazonaws.com")
        expire(at, run_id)
        calls: list[str] = []
        at.cloud.before = lambda operation, _: calls.append(operation)
        at.take([gone])
        assert "BatchWriteItem" in calls
        assert not {"ListObjectsV2", "DeleteObjects"} & {*calls}


def test_the_branches_of_a_run_are_told_as_branches_and_its_end_once() -> None:
    with streamed(FORKED) as at:
        at.world.start(given={"rows": [[1], [2, 3]]})
        at.world.deliver()
        at.take()
        told = Counter(at.types())
        assert (told["fork.opened"], told["branch.completed"] > 0) == (3, True)
        assert (told["run.started"], told["run.completed"]) == (1, 1)


def test_a_header_that_a_person_deleted_erases_nothing() -> None:
    with streamed(CHAIN) as at:
        run_id = chained(at)
        gone = removed(at, run_id, None)
        expire(at, run_id)
        at.take([gone])
        assert len(run_now(at.world.store.read_log(run_id, "0"))) == 2


ONCE = """
workflow: flow
timeline: [{name: a, run: python:m.a, input: {given: "{{ input.text }}"}}]
"""


def outlived(at: Streamed, given: Json = None) -> tuple[str, dict[str, Any]]:
    """A run that has expired, and its end as the stream tells it. Its id is free, and its log is there."""
    run_id = at.world.start(key="once", given=given)
    at.world.deliver()
    at.take()
    gone = removed(at, run_id, "dynamodb.amazonaws.com")
    expire(at, run_id)
    at.world.pass_time(31 * DAY_MS)
    return run_id, gone


def start_again(at: Streamed, run_id: str, given: Json) -> None:
    assert at.world.start(key="once", given=given) == run_id
    at.world.deliver()


def sweep(at: Streamed) -> None:
    at.world.pass_time(HOUR_MS)
    run_now(at.world.sweeper.sweep(5 * MINUTE_MS))
    at.world.deliver()


@pytest.mark.parametrize("size", [1, 100])
def test_a_run_that_takes_the_id_of_an_expired_one_before_that_is_erased_waits_and_then_runs(size: int) -> None:
    with streamed(ONCE) as at:
        run_id, gone = outlived(at, {"text": "old"})
        start_again(at, run_id, {"text": "new"})
        assert (at.world.header(run_id).status, at.world.header(run_id).input) == (Status.PENDING, {"text": "new"})
        at.take([gone, *at.records()], size)
        sweep(at)
        assert at.world.header(run_id).status is Status.COMPLETED
        assert [call.input["given"] for call in at.world.steps.calls] == ["old", "new"]


def test_a_run_that_takes_the_id_of_an_expired_one_runs_though_the_stream_has_lost_the_end_of_that() -> None:
    """The stream forgets after a day, as while its function cannot start."""
    with streamed(ONCE) as at:
        run_id, _ = outlived(at, {"text": "old"})
        start_again(at, run_id, {"text": "new"})
        sweep(at)
        assert at.world.header(run_id).status is Status.PENDING
        at.take()
        sweep(at)
        assert (at.world.header(run_id).status, at.world.steps.calls[-1].input) == (
            Status.COMPLETED,
            {"given": "new"},
        )


def test_a_run_of_release_0_1_whose_records_have_a_shorter_ttl_keeps_its_log() -> None:
    with streamed(ONCE) as at:
        run_id = at.world.start(create_only=True)
        run_now(at.world.service.start_idle(run_id))
        (record,) = [item for item in items_of(at.world.table.name) if item["sk"]["S"].startswith("LOG#")]
        record["expires"] = ttl(at.world.clock.now_ms() + 2 * YEAR_MS)
        at.world.clock.advance(HOUR_MS)
        run_now(at.world.sweeper.sweep(5 * MINUTE_MS))
        at.take()
        assert len(run_now(at.world.store.read_log(run_id, "0"))) == 1


def test_a_run_that_waits_long_for_a_worker_keeps_its_log() -> None:
    with streamed(ONCE) as at:
        run_id = at.world.start(given={"text": "new"})
        at.world.clock.advance(HOUR_MS)
        run_now(at.world.sweeper.sweep(5 * MINUTE_MS))
        marked = at.records()
        at.world.deliver()
        assert at.take(marked)[0].done == len(marked)
        assert len(run_now(at.world.store.read_log(run_id, "0"))) == 1


def test_a_run_that_takes_the_id_of_an_expired_one_while_that_is_erased_loses_nothing() -> None:
    with streamed(ONCE) as at:
        run_id, gone = outlived(at, {"text": LARGE})
        store: Any = at.world.store.inner
        erase = store.erase

        def late(*given: Any) -> Any:
            erased = erase(*given)
            start_again(at, run_id, {"text": LARGE + "new"})
            return erased

        store.erase = late
        at.take([gone])
        header = at.world.header(run_id)
        assert (header.status, header.input) == (Status.COMPLETED, {"text": LARGE + "new"})
        assert len(run_now(at.world.store.read_log(run_id, "0"))) == 1
        store.erase = erase
        at.take([gone])  # the stream may tell it again
        assert len(run_now(at.world.store.read_log(run_id, "0"))) == 1


def test_the_blobs_of_the_next_run_of_an_id_are_kept() -> None:
    with streamed(ONCE) as at:
        run_id, gone = outlived(at, {"text": LARGE})
        old = {*blobs(at, of_run(run_id))}
        start_again(at, run_id, {"text": LARGE + "new"})
        at.take([gone])
        new = {*blobs(at, of_run(run_id))}
        assert (len(new), old & new) == (1, set())
        assert at.world.header(run_id).input == {"text": LARGE + "new"}


def test_a_run_that_is_gone_when_its_records_come_is_not_told() -> None:
    with streamed(CHAIN) as at:
        run_id = chained(at)
        records = [one for one in at.records() if sort_of(one).startswith("LOG#")]
        expire(at, run_id)
        (taken,) = at.take(records)
        assert (taken.done, taken.placed, taken.passed_over) == (len(records), [], 0)


@pytest.mark.parametrize("size", [1, 100])
def test_what_a_worker_that_outlives_a_deleted_run_writes_is_told_to_nobody(size: int) -> None:
    """Its record takes a slot that the run's last record had, and would have that one's id."""
    with streamed(CHAIN) as at:
        at.world.steps.of["a"] = lambda call: run_now(at.world.parts.eraser.delete(call.run_id, force=True)).runs
        run_id = chained(at)
        assert not run_now(at.world.store.is_blank(run_id, "0"))
        taken = at.take(size=size)
        assert sum(one.passed_over for one in taken) == 0
        assert at.types() == ["run.created", "run.started", "run.failed"]


def test_a_run_that_takes_the_id_of_a_deleted_one_is_told_of() -> None:
    with streamed(CHAIN) as at:
        run_id = at.world.start(key="once")
        at.world.deliver()
        run_now(at.world.parts.eraser.delete(run_id))
        at.world.pass_time(2 * HOUR_MS)
        assert at.world.start(key="once") == run_id
        at.world.deliver()
        at.take()
        assert at.types().count("run.completed") == 2
