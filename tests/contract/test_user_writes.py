"""A record and the user's own writes: in one transaction, on every store, by the same rules."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, TypeAlias

import pytest
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from stepwell.aws.store.store import DynamoStore
from stepwell.engine.durable.transact import Check, Delete, Put, Refusal, TableWrite, Update
from stepwell.local.user_items import LocalTable
from stepwell.runtime.durable.transacting import checked
from stepwell.runtime.ports import Appended, EventTaken, Saved
from tests.contract.emulated import Cloud
from tests.contract.kit import ORDER, Store, at_once, event, run
from tests.contract.on_moto import MotoCloud

_NUMBERS = itertools.count(1)
LINE: dict[str, Any] = {"pk": "o1", "sk": 7}
Read: TypeAlias = Callable[[dict[str, Any]], dict[str, Any] | None]


class UsersTable:
    """One table of the user's, its key of text and number, and what is in it."""

    def __init__(self, store: Store, client: Any) -> None:
        self.name, self.store, self.client = f"lines-{next(_NUMBERS)}", store, client

    def get(self, key: dict[str, Any]) -> dict[str, Any] | None:
        if self.client is None:
            return LocalTable(self.name, self.store).get(key)  # type: ignore[arg-type]  # a local store is both
        wire = {name: TypeSerializer().serialize(value) for name, value in key.items()}
        item = self.client.get_item(TableName=self.name, Key=wire, ConsistentRead=True).get("Item")
        return None if item is None else {name: TypeDeserializer().deserialize(one) for name, one in item.items()}

    def append(self, slot: int, *writes: TableWrite, body: str = "mine", takes: str = "") -> Appended:
        consumes = (ORDER, takes) if takes else None
        return run(self.store.append("r1", "0", slot, body, consumes=consumes, also=checked(writes)))

    @property
    def log(self) -> list[Saved]:
        return list(run(self.store.read_log("r1", "0")))


@pytest.fixture
def table(store: Store, request: pytest.FixtureRequest) -> Iterator[UsersTable]:
    if not isinstance(store, DynamoStore):
        yield UsersTable(store, None)
        return
    cloud = MotoCloud() if "moto" in request.node.name else Cloud()  # on a bad day, one that has a good one
    made = UsersTable(store, cloud.connect("dynamodb"))
    keys = (("pk", "S", "HASH"), ("sk", "N", "RANGE"))
    made.client.create_table(
        TableName=made.name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": kind} for name, kind, _ in keys],
        KeySchema=[{"AttributeName": name, "KeyType": role} for name, _, role in keys],
    )
    yield made
    made.client.delete_table(TableName=made.name)


def test_the_record_and_the_writes_are_there_together(table: UsersTable) -> None:
    other = {"pk": "o1", "sk": 8}
    assert table.append(0, Put(table.name, LINE, {"n": 1}), Put(table.name, other)) is None
    assert table.log == [Saved(0, "mine")]
    assert table.get(LINE) == {**LINE, "n": 1}
    assert table.get(other) == other
    assert table.append(1, Update(table.name, LINE, add={"n": 2}), Delete(table.name, other)) is None
    assert (table.get(LINE), table.get(other)) == ({**LINE, "n": 3}, None)


def test_where_the_slot_is_taken_nothing_is_written_and_its_body_is_told(table: UsersTable) -> None:
    assert run(table.store.append("r1", "0", 0, "theirs")) is None
    assert table.append(0, Put(table.name, LINE)) == "theirs"
    assert table.get(LINE) is None


def test_one_that_is_repeated_finds_itself_and_not_its_own_item_in_the_way(table: UsersTable) -> None:
    write = Put(table.name, LINE, {"n": 1}, exists=False)
    assert table.append(0, write) is None
    assert table.append(0, write, body="mine, again") == "mine"
    add = Update(table.name, LINE, add={"n": 1}, equals={"n": 1})
    assert table.append(1, add) is None
    assert table.append(1, add) == "mine"
    assert table.get(LINE) == {**LINE, "n": 2}


def test_where_a_condition_does_not_hold_nothing_is_written_and_the_write_is_told(table: UsersTable) -> None:
    other = {"pk": "o2", "sk": 1}
    writes = (Put(table.name, other), Update(table.name, LINE, set={"n": 1}, exists=True))
    assert table.append(0, *writes) == Refusal(1)
    assert (table.log, table.get(other), table.get(LINE)) == ([], None, None)
    assert run(table.store.append("r1", "0", 0, "the slot is free")) is None


HOLDS: list[dict[str, Any]] = [
    {"exists": True},
    {"equals": {"n": 5.0, "name": "ä"}},
    {"equals": {"none": None}},
    {"equals": {"deep": {"b": [b"\x00", {"x": Decimal("1.50")}], "a": True}}},
    {"at_least": {"n": 5}},
    {"exists": True, "equals": {"yes": True}, "at_least": {"n": Decimal("4.99")}},
]
FAILS: list[dict[str, Any]] = [
    {"exists": False},
    {"equals": {"n": "5"}},
    {"equals": {"deep": {"a": True}}},
    {"at_least": {"n": Decimal("5.01")}},
    {"at_least": {"gone": 0}},
    {"exists": True, "equals": {"n": 5}, "at_least": {"n": 6}},
]
FAILS_BY_TYPE: list[dict[str, Any]] = [{"equals": {"yes": 1}}, {"equals": {"gone": None}}, {"at_least": {"name": 0}}]


def item_for_conditions(table: UsersTable) -> None:
    deep = {"a": True, "b": [b"\x00", {"x": Decimal("1.5")}]}
    item = {"n": 5, "name": "ä", "yes": True, "none": None, "deep": deep}
    assert table.append(0, Put(table.name, LINE, item)) is None


def test_a_condition_holds_for_exactly_what_it_says(table: UsersTable) -> None:
    item_for_conditions(table)
    for slot, condition in enumerate(HOLDS, 1):
        assert table.append(slot, Check(table.name, LINE, **condition)) is None, condition
    for condition in FAILS:
        assert table.append(99, Check(table.name, LINE, **condition)) == Refusal(0), condition


@pytest.mark.needs("types")
def test_values_of_two_types_are_never_equal(table: UsersTable) -> None:
    item_for_conditions(table)
    for condition in FAILS_BY_TYPE:
        assert table.append(99, Check(table.name, LINE, **condition)) == Refusal(0), condition


def test_of_what_is_not_there_it_holds_that_it_is_not_there(table: UsersTable) -> None:
    assert table.append(0, Check(table.name, LINE, exists=True)) == Refusal(0)
    assert table.append(0, Check(table.name, LINE, equals={"n": 1})) == Refusal(0)
    assert table.append(0, Check(table.name, LINE, exists=False)) is None
    assert table.get(LINE) is None


def test_values_come_back_as_dynamodb_has_them(table: UsersTable) -> None:
    item = {"int": 10**37, "float": 0.1, "exact": Decimal("-0.0001"), "bytes": b"\xff", "none": None, "no": False,
            "list": [1, "two", [], {}], "empty": "", "size": {"of #name": "a reserved word"}, "zero": -0.0}  # fmt: skip
    assert table.append(0, Put(table.name, LINE, item)) is None
    found = table.get(LINE)
    assert found is not None
    assert bytes(found.pop("bytes")) == b"\xff"
    assert found.pop("float") == Decimal("0.1")
    assert found == {**LINE, **{name: value for name, value in item.items() if name not in {"bytes", "float"}}}


def test_an_update_makes_the_item_that_is_not_there(table: UsersTable) -> None:
    assert table.append(0, Update(table.name, LINE, set={"a:b": 1, "size": "x"}, add={"#n": -2})) is None
    assert table.get(LINE) == {**LINE, "a:b": 1, "size": "x", "#n": -2}


def test_a_put_replaces_the_whole_item(table: UsersTable) -> None:
    table.append(0, Put(table.name, LINE, {"old": 1}))
    assert table.append(1, Put(table.name, LINE, {**LINE, "new": 1})) is None
    assert table.get(LINE) == {**LINE, "new": 1}


@pytest.mark.needs("types")
def test_what_can_never_be_written_is_refused_with_its_reason(table: UsersTable) -> None:
    table.append(0, Put(table.name, LINE, {"n": "text"}))
    found = table.append(
        1, Check(table.name, {"pk": "o1", "sk": 1}, exists=False), Update(table.name, LINE, add={"n": 1})
    )
    assert isinstance(found, Refusal)
    assert (found.write, bool(found.reason)) == (1, True)
    assert table.log == [Saved(0, "mine")]


def test_ninety_nine_writes_fit_beside_the_record(table: UsersTable) -> None:
    places: list[dict[str, Any]] = [{"pk": "many", "sk": number} for number in range(99)]
    assert table.append(0, *(Put(table.name, key) for key in places)) is None
    assert all(table.get(key) == key for key in (places[0], places[98]))


def test_the_record_its_event_and_the_writes_are_all_made_or_nothing_is(table: UsersTable) -> None:
    run(table.store.put_event(event()))
    refused = Update(table.name, LINE, add={"left": 1}, exists=True)
    assert table.append(0, refused, takes="e1") == Refusal(0)
    assert table.append(0, Put(table.name, LINE), takes="unknown") == EventTaken()
    assert (table.log, table.get(LINE)) == ([], None)
    assert table.append(0, Put(table.name, LINE), takes="e1") is None
    assert (table.log, table.get(LINE)) == ([Saved(0, "mine")], LINE)
    assert run(table.store.pending_events(ORDER, 0)) == []


@pytest.mark.threads
def test_of_32_threads_that_take_the_last_ten_exactly_ten_do(table: UsersTable) -> None:
    table.append(0, Put(table.name, LINE, {"left": 10}))
    take = checked([Update(table.name, LINE, add={"left": -1}, at_least={"left": 1})])
    found = at_once(32, lambda number: run(table.store.append(f"r{number}", "0", 1, "took", also=take)))
    assert sorted(map(str, found)) == sorted(["None"] * 10 + [str(Refusal(0))] * 22)
    assert table.get(LINE) == {**LINE, "left": 0}
