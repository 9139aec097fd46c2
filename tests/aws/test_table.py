"""The table's own matters: sizes, pages, keys, what expires, and what is written to which index."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from stepwell.aws.store import keys
from stepwell.aws.store.store import DynamoStore
from stepwell.aws.store.table import RECORDS_KEPT_MS, Table
from stepwell.engine.records import Status, Topic
from stepwell.errors import PortError
from stepwell.runtime.ports import BROKEN_BLOB, Saved
from stepwell.runtime.ports.headers import RunQuery, StatusChange
from tests.aws.kit import values_of
from tests.contract.emulated import Cloud, items_of, table_of
from tests.contract.kit import NOW_MS, ORDER, event, header, run, waiter

pytestmark = pytest.mark.usefixtures("client")  # once with each client of AWS


@pytest.fixture
def cloud(client: str) -> Cloud:
    return Cloud()


@pytest.fixture
def table(cloud: Cloud) -> Iterator[Table]:
    with table_of(cloud, now_ms=lambda: NOW_MS) as made:
        yield made


@pytest.fixture
def store(table: Table) -> DynamoStore:
    return DynamoStore(table)


def items(table: Table) -> list[dict[str, Any]]:
    """Everything in the table."""
    return [values_of(item) for item in items_of(table.name)]


def test_a_log_of_more_than_a_megabyte_is_read_page_by_page(cloud: Cloud, store: DynamoStore) -> None:
    saved = [Saved(slot, f"{slot}" + "x" * 30_000) for slot in range(90)]
    for record in saved:
        run(store.append("r1", "0", record.slot, record.body))
    cloud.calls.clear()
    assert run(store.read_log("r1", "0")) == saved
    assert cloud.calls.count("Query") == 3
    assert run(store.read_log("r1", "0", after=4, limit=20)) == saved[5:25]


def test_outputs_are_read_as_they_stand_at_that_moment(store: DynamoStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was just written must not be missing for a replay."""
    asked: list[bool] = []
    get_many = Table.get_many

    def seen(self: Table, wanted: Any, *, consistent: bool = False) -> Any:
        asked.append(consistent)
        return get_many(self, wanted, consistent=consistent)

    monkeypatch.setattr(Table, "get_many", seen)
    run(store.append("r1", "0", 0, "{}"))
    assert run(store.read_bodies("r1", [("0", 0)])) == {("0", 0): "{}"}
    assert asked == [True]


def test_events_of_more_than_a_megabyte_are_all_pending_and_all_counted(store: DynamoStore) -> None:
    for number in range(45):
        run(store.put_event(event(f"e{number}", NOW_MS - number, payload="x" * 30_000, expires_ms=NOW_MS + 9)))
    assert [found.id for found in run(store.pending_events(ORDER, NOW_MS))] == [f"e{n}" for n in range(44, -1, -1)]
    assert store._count_pending(ORDER, NOW_MS) == 45


def test_a_body_just_below_400_kilobytes_fits_into_an_item_and_a_larger_one_goes_to_a_blob(cloud: Cloud) -> None:
    with table_of(cloud, claim_bytes=409_400) as table:
        store = DynamoStore(table)
        fits, large = "x" * 409_400, "ä" * 204_701
        assert run(store.append("r1", "0", 0, fits)) is None
        assert run(store.append("r1", "0", 1, large)) is None
        assert run(store.append("r1", "0", 0, "other")) == fits
        assert run(store.read_log("r1", "0")) == [Saved(0, fits), Saved(1, large)]
        assert ["body" in item for item in items(table)] == [True, False]


def test_large_inputs_payloads_snapshots_and_definitions_go_to_blobs(table: Table, store: DynamoStore) -> None:
    large = "x" * 200_000
    run(store.create_run(header(input=large)))
    run(store.put_event(event(payload=large)))
    run(store.save_snapshot("r1", "0", 3, large))
    run(store.put_definition("v1", large))
    assert run(store.append("r1", "0", 4, large, consumes=(ORDER, "e1"))) is None
    assert all(len(json.dumps(item)) < 1_000 for item in items(table))
    assert run(store.get_run("r1")) == header(input=large)
    assert run(store.get_event(ORDER, "e1")) == event(payload=large, consumed_by="r1|0|4")
    assert run(store.load("r1", "0")).snapshot == Saved(3, large)
    assert run(store.get_definition("v1")) == large


def test_an_input_that_would_not_fit_into_the_headers_write_unit_is_an_item_of_its_own(
    table: Table, store: DynamoStore
) -> None:
    run(store.create_run(header("small", input="x" * 300)))
    run(store.create_run(header("large", input="x" * 3_000)))
    assert run(store.create_run(header("large", input="y" * 3_000))) == header("large", input="x" * 3_000)
    assert {item["at"][16:]: len(item.get("input", "")) for item in items(table) if item["sk"] == "RUN"} == {
        "small": 302,
        "large": 0,
    }
    assert run(store.get_run("large")) == header("large", input="x" * 3_000)
    assert {found.run_id: len(found.input) for found in run(store.list_runs(RunQuery())).headers} == {
        "small": 300,
        "large": 3_000,
    }


def test_an_input_item_that_is_lost_is_the_fault_of_its_run_alone(
    cloud: Cloud, table: Table, store: DynamoStore
) -> None:
    for run_id in ("broken", "sound"):
        run(store.create_run(header(run_id, input="x" * 3_000)))
    (lost,) = [item for item in items(table) if item["sk"] != "RUN" and "broken" in item["pk"] and "input" in item]
    cloud.connect("dynamodb").delete_item(TableName=table.name, Key={name: {"S": lost[name]} for name in ("pk", "sk")})
    with pytest.raises(PortError) as caught:
        run(store.get_run("broken"))
    assert caught.value.code == BROKEN_BLOB
    found = {one.run_id: one.input for one in run(store.list_runs(RunQuery())).headers}
    assert found == {"broken": None, "sound": "x" * 3_000}


def test_text_that_looks_like_part_of_a_key_stays_in_its_place(store: DynamoStore) -> None:
    topics = [Topic("a", "b#c"), Topic("a#b", "c"), Topic("a%23b", "c"), Topic("a", "x" * 600), Topic("a", "🧀" * 512)]
    for number, topic in enumerate(topics):
        run(store.put_event(event("E#1", payload=number, topic=topic)))
        run(store.put_event(event("🧀" * 512, payload=number, topic=topic)))
        run(store.put_waiter(waiter("r#1", topic=topic)))
    for number, topic in enumerate(topics):
        assert [found.payload for found in run(store.pending_events(topic, NOW_MS))] == [number] * 2
        assert run(store.waiters(topic)) == [waiter("r#1", topic=topic)]
    run(store.append("r#1", "0", 0, "a"))
    assert run(store.append("r", "1#0", 0, "b")) is None


@pytest.mark.parametrize(
    ("token", "partition"),
    [
        ("0", "RUN#r"),
        ("", "RUN#r"),
        ("0/3.17", "RUN#r#0/3@0"),
        ("0/3.100", "RUN#r#0/3@1"),
        ("0/3.1/2.250", "RUN#r#0/3.1/2@2"),
    ],
)
def test_the_branches_of_a_page_share_a_partition(token: str, partition: str) -> None:
    assert keys.token_partition("r", token) == partition


def test_records_waits_and_joins_expire_after_the_longest_life_of_a_run_and_headers_and_events_when_told(
    table: Table, store: DynamoStore
) -> None:
    run(store.append("r1", "0", 0, "body"))
    run(store.save_snapshot("r1", "0", 0, "body"))
    run(store.put_waiter(waiter()))
    run(store.arrive("r1", "j", "a"))
    run(store.put_event(event(expires_ms=NOW_MS + 1)))
    run(store.create_run(header()))
    run(store.change_status(StatusChange("r1", 1, Status.COMPLETED, NOW_MS, expires_ms=NOW_MS + 2_000)))
    late, soon = (NOW_MS + RECORDS_KEPT_MS) // 1_000, NOW_MS // 1_000
    expected = {"LOG": late, "SNAP": late, "W": late, "JOIN": late, "E": soon + 1, "RUN": soon + 2}
    found = {item["sk"].partition("#")[0]: int(item.get("expires", 0)) for item in items(table)}
    assert found == {**expected, "WORKFLOWS": 0}


def test_a_header_is_listed_under_its_workflow_for_good_and_under_a_state_unless_it_completed(
    table: Table, store: DynamoStore
) -> None:
    endings = (Status.COMPLETED, Status.FAILED, Status.WAITING)
    for status in endings:
        run(store.create_run(header(status.value)))
        run(store.change_status(StatusChange(status.value, 1, status, NOW_MS)))
    found = {item["status"]: item.get("state", "").partition("#")[0] for item in items(table) if item["sk"] == "RUN"}
    assert found == {"completed": "", "failed": "failed", "waiting": "live"}


def test_a_list_by_status_looks_at_no_runs_of_other_states(cloud: Cloud, store: DynamoStore) -> None:
    for number in range(30):
        run(store.create_run(header(f"r{number}", status=Status.COMPLETED)))
    run(store.create_run(header("bad", status=Status.FAILED)))
    cloud.calls.clear()
    page = run(store.list_runs(RunQuery(statuses=frozenset({Status.FAILED, Status.CANCELLED}))))
    assert [found.run_id for found in page.headers] == ["bad"]
    assert cloud.calls == ["Query"] * 2 * keys.STATE_SHARDS + ["BatchGetItem"]


def test_a_page_of_all_runs_is_a_query_for_each_workflow_and_one_batch(cloud: Cloud, store: DynamoStore) -> None:
    for number in range(60):
        run(store.create_run(header(f"r{number:02}", workflow=f"w{number % 3}", created_ms=NOW_MS + number)))
    cloud.calls.clear()
    page = run(store.list_runs(RunQuery(limit=20)))
    assert [found.run_id for found in page.headers] == [f"r{number}" for number in range(59, 39, -1)]
    assert cloud.calls == ["GetItem", "Query", "Query", "Query", "BatchGetItem"]


def test_a_run_that_moves_while_the_due_ones_are_read_is_read_once(
    store: DynamoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DynamoDB refuses to read an item twice in one batch."""
    run(store.create_run(header(watched=True, due_ms=NOW_MS, status=Status.WAITING, waiting_until_ms=NOW_MS)))
    seen = [keys.place(NOW_MS, "r1"), keys.place(NOW_MS + 60_000, "r1")]
    monkeypatch.setattr(store, "_due", lambda *_: iter(seen))
    assert [found.run_id for found in run(store.list_due(NOW_MS + 90_000, 10)).headers] == ["r1"]
    by_deadline = RunQuery(by_deadline=True, statuses=frozenset({Status.WAITING}))
    assert [found.run_id for found in run(store.list_runs(by_deadline)).headers] == ["r1"]


def test_many_items_are_read_by_hundreds_and_deleted_by_twenty_fives(
    cloud: Cloud, table: Table, store: DynamoStore
) -> None:
    for slot in range(201):
        run(store.append("r1", "0", slot, "body"))
    cloud.calls.clear()
    assert len(table.get_many(keys.record_key("r1", "0", slot) for slot in range(201))) == 201
    assert store.erase("r1", ())[0] == 201
    assert cloud.calls == ["BatchGetItem"] * 3 + ["Query"] + ["BatchWriteItem"] * 9


def test_loading_a_token_is_two_requests(cloud: Cloud, store: DynamoStore) -> None:
    for slot in range(300):
        run(store.append("r1", "0", slot, "body"))
    run(store.save_snapshot("r1", "0", 250, "folded"))
    cloud.calls.clear()
    assert len(run(store.load("r1", "0")).records) == 49
    assert cloud.calls == ["GetItem", "Query"]


def test_a_definition_that_is_there_is_read_and_not_written(cloud: Cloud, store: DynamoStore) -> None:
    run(store.put_definition("v1", "text"))
    cloud.calls.clear()
    run(store.put_definition("v1", "text"))
    assert cloud.calls == ["GetItem"]


def test_the_adapters_can_be_imported_without_boto3() -> None:
    script = """
import sys
import stepwell.aws.clients, stepwell.aws.store.store, stepwell.aws.s3_blobs, stepwell.aws.scheduler_timers
import stepwell.aws.sqs_queue
print([name for name in ("boto3", "botocore.session", "stepwell.local") if name in sys.modules])
"""
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603
    assert printed.stdout == "[]\n"
