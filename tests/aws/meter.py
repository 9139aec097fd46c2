"""Write units as DynamoDB charges them: by the kilobyte of the whole item, each index entry beside it. And read units.

The emulator's own figures leave the indexes out, so they are worked out here, from the item before and after:

    table           the larger of both, in started kilobytes; a refused write as much as the item that is there
    index           nothing if what it projects stays; if its key changes, the old entry and the new one
    transaction     twice the table's part, done or refused
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from botocore.exceptions import ClientError

from stepwell.aws.protocols import DynamoClient, Item
from stepwell.aws.store.items import size_of
from stepwell.aws.store.table import SHAPE

KILOBYTE = 1_024


def units_of(item: Item | None) -> int:
    return 0 if item is None else max(-(-size_of(item) // KILOBYTE), 1)


def _read_units(items: Iterable[Item]) -> int:
    """Of one consistent read."""
    return max(-(-sum(map(size_of, items)) // (4 * KILOBYTE)), 1)


def entry_of(index: Mapping[str, Any], item: Item | None) -> Item | None:
    """What the index holds of the item; None where it has not both of the index's keys."""
    if item is None:
        return None
    keys = [part["AttributeName"] for part in index["KeySchema"]]
    if not all(name in item for name in keys):
        return None
    names = {"pk", "sk", *keys, *index["Projection"].get("NonKeyAttributes", ())}
    return {name: value for name, value in item.items() if name in names}


def index_units(index: Mapping[str, Any], before: Item | None, after: Item | None) -> int:
    old, new = entry_of(index, before), entry_of(index, after)
    if old == new:
        return 0
    keys = [part["AttributeName"] for part in index["KeySchema"]]
    if old is not None and new is not None and all(old[name] == new[name] for name in keys):
        return max(units_of(old), units_of(new))
    return units_of(old) + units_of(new)


class Meter:
    """A DynamoDB client that adds up what its writes cost: by kind of item, e.g. `LOG` or `RUN`. For one thread."""

    def __init__(self, client: DynamoClient, read: Callable[[str, Item], Item | None]) -> None:
        """`read`: an item of the table, past the client."""
        self._client, self._read = client, read
        self.units: Counter[str] = Counter()
        self.heat: Counter[tuple[str, str]] = Counter()  # units by (index or `table`, partition)
        self.of_item: Counter[tuple[str, str]] = Counter()  # by (partition, sort key)
        self.transacted: set[tuple[str, str]] = set()
        self.idle: Counter[tuple[str, str]] = Counter()  # of writes that changed nothing
        self.requests: Counter[str] = Counter()
        self.read_units = 0

    def __getattr__(self, name: str) -> Any:
        self.requests[name] += 1
        return getattr(self._client, name)

    @property
    def total(self) -> int:
        return self.units.total()

    def clear(self) -> None:
        self.units.clear()
        self.heat.clear()
        self.of_item.clear()
        self.transacted.clear()
        self.idle.clear()
        self.requests.clear()
        self.read_units = 0

    def get_item(self, **request: Any) -> Any:
        self.requests["get_item"] += 1
        answer = self._client.get_item(**request)
        self.read_units += _read_units([answer["Item"]] if "Item" in answer else [])
        return answer

    def query(self, **request: Any) -> Any:
        """What a filter or a projection leaves out is not counted: there is none where it matters."""
        self.requests["query"] += 1
        answer = self._client.query(**request)
        self.read_units += _read_units(answer.get("Items", ()))
        return answer

    def put_item(self, **request: Any) -> Any:
        return self._write("put_item", request, request["Item"])

    def update_item(self, **request: Any) -> Any:
        return self._write("update_item", request, request["Key"])

    def delete_item(self, **request: Any) -> Any:
        return self._write("delete_item", request, request["Key"])

    def _write(self, method: str, request: dict[str, Any], where: Item) -> Any:
        self.requests[method] += 1
        before = self._read(request["TableName"], where)
        try:
            return getattr(self._client, method)(**request)
        except ClientError:
            before = before or {}
            raise
        finally:
            after = self._read(request["TableName"], where)
            self._charge(where, before, after)

    def transact_write_items(self, **request: Any) -> Any:
        self.requests["transact_write_items"] += 1
        parts = [part for one in request["TransactItems"] for part in one.values()]
        wheres = [(part["TableName"], part.get("Item") or part["Key"]) for part in parts]
        before = [self._read(*where) for where in wheres]
        try:
            return self._client.transact_write_items(**request)
        finally:
            for (name, where), old in zip(wheres, before, strict=True):
                self._charge(where, old, self._read(name, where), times=2)

    def _charge(self, where: Item, before: Item | None, after: Item | None, times: int = 1) -> None:
        units = max(units_of(before), units_of(after), 1) * times
        self.heat["table", where["pk"]["S"]] += units
        for index in SHAPE["GlobalSecondaryIndexes"]:
            of_index = index_units(index, before, after)
            if of_index:
                entry = entry_of(index, after) or entry_of(index, before) or {}
                self.heat[index["IndexName"], entry[index["KeySchema"][0]["AttributeName"]]["S"]] += of_index
            units += of_index
        name = where["pk"]["S"], where["sk"]["S"]
        self.units[name[1].partition("#")[0]] += units
        self.of_item[name] += units
        if times > 1:
            self.transacted.add(name)
        if before == after:
            self.idle[name] += units
