"""Transactions with the user's tables on DynamoDB: what they cost, bad days, and what can never be written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ReadTimeoutError

from stepwell.aws.calls import Retry
from stepwell.aws.store.store import DynamoStore
from stepwell.aws.store.table import Table
from stepwell.engine.durable.transact import Check, Delete, Put, Refusal, TableWrite, Update
from stepwell.errors import PortError
from stepwell.memory.blobs import MemoryBlobs
from stepwell.runtime.durable.transacting import checked
from stepwell.runtime.ports import Appended
from stepwell.testing.kit import Stepwell
from tests.aws.meter import Meter
from tests.contract.emulated import NO_WAIT, Cloud, answer, item_of, table_of
from tests.contract.kit import run
from tests.scenarios.conftest import on_aws

pytestmark = pytest.mark.usefixtures("client")  # once with each client of AWS
AWS = "com.amazonaws.dynamodb.v20120810#"
ORDER = {"pk": "ORDER#1", "sk": "ORDER#1"}
STOCK = {"pk": "STOCK#a", "sk": "STOCK#a"}
SHOP = """
from stepwell import Put, TransactionRefused, workflow

@workflow
async def buy(ctx, order: str):
    item = {"run": ctx.run_id, "price": 9.99}
    try:
        await ctx.transact([Put("TABLE", {"pk": order, "sk": "order"}, item, exists=False)])
    except TransactionRefused as refused:
        return f"there already: {refused.write}"
    return "bought"
"""
TWICE = Retry(attempts=2, sleep=lambda _: None)


@pytest.fixture
def cloud(client: str) -> Cloud:
    return Cloud()


@pytest.fixture
def store(cloud: Cloud) -> Iterator[DynamoStore]:
    with table_of(cloud, retry=TWICE) as table:
        yield DynamoStore(table)


@pytest.fixture
def orders(cloud: Cloud) -> Iterator[str]:
    """The user's own table, with keys of the same names."""
    with table_of(cloud) as table:
        yield table.name


def append(store: DynamoStore, *writes: TableWrite, slot: int = 0) -> Appended:
    return run(store.append("r1", "0", slot, "mine", also=checked(writes)))


def refusing(code: str, message: str = "no", reasons: list[dict[str, str]] | None = None) -> AWSResponse:
    body: dict[str, Any] = {"__type": AWS + code, "message": message, "Message": message}
    if reasons is not None:
        body["CancellationReasons"] = reasons
    return answer(400, json.dumps(body), {"Content-Type": "application/x-amz-json-1.0"})


def refuse(cloud: Cloud, response: AWSResponse) -> None:
    cloud.before = lambda operation, request: response if operation == "TransactWriteItems" else None


def test_a_transaction_costs_twice_the_units_of_its_items_and_so_does_the_record(cloud: Cloud, orders: str) -> None:
    with table_of(cloud) as table:
        meter = Meter(cloud.connect("dynamodb"), item_of)
        store = DynamoStore(Table(table.name, lambda: meter, MemoryBlobs(), retry=NO_WAIT))
        append(store, Put(orders, ORDER, {"text": "x" * 1_100}), Put(orders, STOCK, {"left": 1}))
        assert meter.units == Counter(LOG=2, ORDER=4, STOCK=2)
        meter.clear()
        append(store, Update(orders, STOCK, add={"left": -1}), Check(orders, ORDER, exists=True), slot=1)
        assert meter.units == Counter(LOG=2, ORDER=4, STOCK=2)
        assert meter.requests == Counter(transact_write_items=1)


def test_one_whose_answer_is_never_heard_is_found_in_its_slot_when_it_comes_again(
    cloud: Cloud, store: DynamoStore, orders: str
) -> None:
    def lost(operation: str, response: AWSResponse) -> AWSResponse | None:
        raise ReadTimeoutError(endpoint_url="http://emulated")

    cloud.after = lost
    with pytest.raises(PortError):
        append(store, Put(orders, ORDER, exists=False))
    cloud.heal()
    assert append(store, Put(orders, ORDER, exists=False)) == "mine"


@pytest.mark.parametrize("code", ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"])
def test_what_is_busy_is_no_refusal_even_beside_a_condition(
    cloud: Cloud, store: DynamoStore, orders: str, code: str
) -> None:
    reasons = [{"Code": "None"}, {"Code": code}, {"Code": "ConditionalCheckFailed"}]
    refuse(cloud, refusing("TransactionCanceledException", reasons=reasons))
    with pytest.raises(PortError):
        append(store, Put(orders, ORDER), Put(orders, STOCK, exists=False))


def test_a_slot_that_is_taken_is_the_answer_whatever_else_is_said(
    cloud: Cloud, store: DynamoStore, orders: str
) -> None:
    run(store.append("r1", "0", 0, "theirs"))
    for response in (
        refusing("TransactionCanceledException", reasons=[{"Code": "None"}, {"Code": "ConditionalCheckFailed"}]),
        refusing("TransactionCanceledException", reasons=[{"Code": "None"}, {"Code": "ValidationError"}]),
        refusing("AccessDeniedException"),
    ):
        refuse(cloud, response)
        assert append(store, Put(orders, ORDER)) == "theirs"


def test_a_table_that_the_worker_may_not_write_to_fails_the_operation(
    cloud: Cloud, store: DynamoStore, orders: str
) -> None:
    refuse(cloud, refusing("AccessDeniedException", "not authorized to perform: dynamodb:PutItem on orders"))
    found = append(store, Put(orders, ORDER))
    assert isinstance(found, Refusal)
    assert "dynamodb:PutItem on orders" in found.reason
    assert "permissions of the default pool" in found.reason


def test_credentials_that_have_run_out_are_no_refusal(cloud: Cloud, store: DynamoStore, orders: str) -> None:
    refuse(cloud, refusing("ExpiredTokenException"))
    with pytest.raises(PortError):
        append(store, Put(orders, ORDER))


def test_a_table_that_is_not_there_fails_the_operation(store: DynamoStore) -> None:
    found = append(store, Put("no-such-table", ORDER))
    assert isinstance(found, Refusal)
    assert "no such table" in found.reason


@pytest.mark.parametrize("kind", [Put, Delete])
def test_a_key_of_another_type_fails_the_operation(store: DynamoStore, orders: str, kind: type[TableWrite]) -> None:
    found = append(store, Check(orders, STOCK, exists=False), kind(orders, {"pk": 1, "sk": "x"}))
    assert isinstance(found, Refusal)
    assert (found.write, bool(found.reason)) == (1, True)


def test_a_key_that_is_not_the_tables_fails_the_operation(cloud: Cloud, store: DynamoStore, orders: str) -> None:
    """Told by hand: the emulator takes a key without the table's own attributes."""
    said = "The provided key element does not match the schema"
    reasons = [{"Code": "None"}, {"Code": "ValidationError", "Message": said}]
    for response, write in (
        (refusing("TransactionCanceledException", reasons=reasons), 0),
        (refusing("ValidationException", said), -1),
    ):
        refuse(cloud, response)
        assert append(store, Put(orders, {"id": "x"})) == Refusal(write, said)


def test_an_item_collection_that_is_full_fails_the_operation(cloud: Cloud, store: DynamoStore, orders: str) -> None:
    """The table has a local index, and 10 GB under this key: no second try finds room."""
    said = "Collection size exceeded."
    reasons = [{"Code": "None"}, {"Code": "ItemCollectionSizeLimitExceeded", "Message": said}]
    refuse(cloud, refusing("TransactionCanceledException", reasons=reasons))
    assert append(store, Put(orders, ORDER)) == Refusal(0, said)


def test_nobody_writes_to_the_engines_own_table(store: DynamoStore, orders: str) -> None:
    found = append(store, Delete(orders, ORDER), Delete(store._table.name, ORDER))
    assert isinstance(found, Refusal)
    assert (found.write, "own table" in found.reason) == (1, True)


def test_a_durable_function_on_aws_writes_to_the_users_table_once(tmp_path: Path, orders: str) -> None:
    (tmp_path / "shop.py").write_text(SHOP.replace("TABLE", orders))
    with on_aws(tmp_path) as backend:
        kit = Stepwell(tmp_path, backend)
        first = kit.start("buy", {"order": "ORDER#1"})
        again = kit.start("buy", {"order": "ORDER#1"})
        assert (first.status, first.result) == ("completed", "bought")
        assert (again.status, again.result) == ("completed", "there already: 0")
    assert item_of(orders, {"pk": {"S": "ORDER#1"}, "sk": {"S": "order"}}) == {
        "pk": {"S": "ORDER#1"}, "sk": {"S": "order"}, "run": {"S": first.id}, "price": {"N": "9.99"}}  # fmt: skip
