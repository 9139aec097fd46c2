"""The user's own tables in memory, and what a transaction's writes make of items, as DynamoDB would.

A table exists when something was written to it. Items are stored in DynamoDB's JSON: {"total": {"N": "5"}}.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from stepwell.engine.durable.transact import (
    Check,
    Delete,
    Put,
    Refusal,
    TableWrite,
    Update,
    Value,
    Values,
    added,
    number_of,
    size_bytes,
)
from stepwell.limits import TABLE_ITEM_BYTES
from stepwell.values import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """A change: the new item as text, or None to delete it."""

    table: str
    place: str  # the key as text
    item: str | None


def changes_of(writes: Sequence[TableWrite], read: Callable[[str, str], str | None]) -> Sequence[Change] | Refusal:
    """Computes all changes, or the reason of a refusal. `read` returns an item by table and place."""
    changes: list[Change] = []
    for number, write in enumerate(writes):
        place = place_of(write.key)
        text = read(write.table, place)
        before = None if text is None else decode_item(text)
        if not _holds(write, before):
            return Refusal(number)
        try:
            after = _after(write, before)
        except ArithmeticError:
            return Refusal(number, "it adds to what is no number, or beyond 38 digits")
        if after is not None and size_bytes(after) > TABLE_ITEM_BYTES:
            return Refusal(number, f"its item would be over {TABLE_ITEM_BYTES} bytes")
        if not isinstance(write, Check):
            changes.append(Change(write.table, place, None if after is None else encode_item(after)))
    return changes


def _holds(write: TableWrite, before: Values | None) -> bool:
    if write.exists is not None and write.exists is (before is None):
        return False
    there = before or {}
    if any(name not in there or _typed(there[name]) != _typed(value) for name, value in write.equals.items()):
        return False
    return all(
        isinstance(found := there.get(name), Decimal) and found >= least for name, least in write.at_least.items()
    )


def _after(write: TableWrite, before: Values | None) -> Values | None:
    match write:
        case Put():
            return {**write.key, **write.item}
        case Update():
            there = before or write.key
            sums = {name: _sum(there.get(name, Decimal(0)), more) for name, more in write.add.items()}
            return {**there, **write.set, **sums}
        case Delete():
            return None
    return before


def _sum(before: Value, more: Decimal) -> Decimal:
    if not isinstance(before, Decimal):
        raise ArithmeticError
    return added(before, more)


# -- text


def place_of(key: Values) -> str:
    """Returns a text for a key, independent of the order of its attributes."""
    return encode_item(dict(sorted(key.items())))


def encode_item(item: Values) -> str:
    return json.dumps({name: _typed(value) for name, value in item.items()}, ensure_ascii=False, separators=(",", ":"))


def decode_item(text: str) -> dict[str, Value]:
    return {name: _value(value) for name, value in json.loads(text).items()}


def _typed(value: Value) -> Mapping[str, Any]:
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case Decimal():
            return {"N": str(value)}
        case str():
            return {"S": value}
        case bytes():
            return {"B": base64.b64encode(value).decode()}
        case list():
            return {"L": [_typed(one) for one in value]}
    return {"M": {name: _typed(one) for name, one in value.items()}}


def _value(typed: Mapping[str, Any]) -> Value:
    ((kind, held),) = typed.items()
    match kind:
        case "NULL":
            return None
        case "N":
            return number_of(Decimal(held))
        case "B":
            return base64.b64decode(held)
        case "L":
            return [_value(one) for one in held]
        case "M":
            return {name: _value(one) for name, one in held.items()}
    return held


class MemoryItems:
    """The items in a dictionary."""

    def __init__(self) -> None:
        self._items: dict[tuple[str, str], str] = {}

    def item(self, table: str, place: str) -> str | None:
        return self._items.get((table, place))

    def items(self, table: str) -> Sequence[str]:
        return [item for (of, _), item in sorted(self._items.items()) if of == table]

    def change_items(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.item is None:
                self._items.pop((change.table, change.place), None)
            else:
                self._items[change.table, change.place] = change.item
