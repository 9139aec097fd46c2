"""Checks a transaction when a function asks for it: values, sizes, and that no two writes share an item."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from decimal import Decimal
from typing import Any

from stepwell.engine.durable.transact import Check, Put, TableWrite, Update, Value, Values, number_of, size_bytes
from stepwell.errors import InvalidInput
from stepwell.limits import TABLE_ITEM_BYTES, TABLE_KEY_BYTES, TRANSACT_BYTES, TRANSACT_DEPTH, TRANSACT_WRITES

_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")


def checked(writes: Iterable[TableWrite]) -> tuple[TableWrite, ...]:
    """Returns the writes with their values as DynamoDB stores them, copied from the function's own objects.

    Raises InvalidInput for writes that can never succeed.
    """
    found = list(writes)
    if not found or len(found) > TRANSACT_WRITES:
        raise InvalidInput(f"a transaction of {len(found)} writes; it has 1 to {TRANSACT_WRITES}",
                           code="too_many_writes" if found else "bad_value",
                           hint="DynamoDB takes 100 at once, and one is the operation's own record")  # fmt: skip
    made = tuple(_checked(number, write) for number, write in enumerate(found))
    _refuse_twice(made)
    total_bytes = sum(_size_bytes(write) for write in made)
    if total_bytes > TRANSACT_BYTES:
        raise InvalidInput(f"a transaction of {total_bytes} bytes; at most {TRANSACT_BYTES}", code="too_large")
    return made


def _checked(number: int, write: object) -> TableWrite:
    if not isinstance(write, TableWrite) or type(write) is TableWrite:
        raise InvalidInput(f"write {number} is {write!r:.80}", code="bad_value",
                           hint="a transaction is of Put, Update, Delete and Check")  # fmt: skip
    what = f"write {number} ({type(write).__name__})"
    if not isinstance(write.table, str) or not _TABLE.fullmatch(write.table):
        raise InvalidInput(f"{what}: {write.table!r} is no table's name", code="bad_name")
    parts: dict[str, Any] = {
        field.name: _attributes(getattr(write, field.name), f"{what}: {field.name}")
        for field in fields(write)
        if field.name not in {"table", "exists"}
    }
    made = replace(write, **parts)
    _check_key(made.key, what)
    _check_numbers({**made.at_least, **(made.add if isinstance(made, Update) else {})}, what)
    _check_parts(made, what)
    if _size_bytes(made) > TABLE_ITEM_BYTES:
        raise InvalidInput(f"{what}: its item is over DynamoDB's {TABLE_ITEM_BYTES} bytes", code="too_large")
    return made


def _check_key(key: Values, what: str) -> None:
    if not 1 <= len(key) <= 2:
        raise InvalidInput(f"{what}: a key of {len(key)} attributes; a table has one or two", code="bad_key")
    for name, value in key.items():
        is_key = (isinstance(value, str | bytes) and value) or isinstance(value, Decimal)
        if not is_key or size_bytes(value) > TABLE_KEY_BYTES:
            raise InvalidInput(f"{what}: {name} cannot be a key: {value!r:.80}", code="bad_key",
                               hint="a key is text, bytes or a number, and not empty")  # fmt: skip


def _check_numbers(found: Values, what: str) -> None:
    for name, value in found.items():
        if not isinstance(value, Decimal):
            raise InvalidInput(f"{what}: {name} must be a number, not {value!r:.80}", code="bad_value")


def _check_parts(write: TableWrite, what: str) -> None:
    match write:
        case Put():
            changed = [name for name in write.item if name in write.key and write.item[name] != write.key[name]]
        case Update():
            if not write.set and not write.add:
                raise InvalidInput(f"{what} changes nothing", code="bad_value", hint="give `set` or `add`, or a Check")
            changed = [name for name in (*write.set, *write.add) if name in write.key]
            if both := write.set.keys() & write.add.keys():
                raise InvalidInput(f"{what} sets {', '.join(sorted(both))} and adds to it", code="bad_value")
        case Check() if not write.has_condition:
            raise InvalidInput(f"{what} has no condition", code="bad_value",
                               hint="give `exists`, `equals` or `at_least`")  # fmt: skip
        case _:
            changed = []
    if changed:
        raise InvalidInput(f"{what} changes the key's {changed[0]}", code="bad_key",
                           hint="an item keeps its key: delete it and put another")  # fmt: skip
    if write.exists is False and (write.equals or write.at_least):
        raise InvalidInput(f"{what}: what is not there has no attributes to compare", code="bad_value")


def _refuse_twice(writes: tuple[TableWrite, ...]) -> None:
    places: dict[tuple[str, frozenset[tuple[str, Value]]], int] = {}
    for number, write in enumerate(writes):
        place = (write.table, frozenset(write.key.items()))
        first = places.setdefault(place, number)
        if first != number:
            raise InvalidInput(f"writes {first} and {number} are about one item: {write}", code="same_item",
                               hint="say in one write what is to become of it, and on what condition")  # fmt: skip


def _size_bytes(write: TableWrite) -> int:
    """Returns the size of all that is sent for a write: at least that of an item that it creates."""
    own = (getattr(write, field.name) for field in fields(write) if field.name not in {"table", "exists"})
    return sum(size_bytes(part) for part in own if part)


# -- values


def _attributes(found: object, what: str) -> dict[str, Value]:
    if not isinstance(found, Mapping):
        raise InvalidInput(f"{what} must be names and values, not {found!r:.80}", code="bad_value")
    return {_attribute(name, what): _value(value, f"{what}.{name}", TRANSACT_DEPTH) for name, value in found.items()}


def _attribute(name: object, what: str) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"{what}: {name!r:.80} cannot be an attribute's name", code="bad_name")
    return _text(name, what)


def _value(value: Any, what: str, depth: int) -> Value:
    if depth == 0:
        raise InvalidInput(f"{what[:80]}…: DynamoDB nests {TRANSACT_DEPTH} deep at most", code="too_deep")
    match value:
        case None | bool():
            return value
        case str():
            return _text(value, what)
        case bytes() | bytearray():
            return bytes(value)
        case int() | float() | Decimal():
            return _number(value, what)
        case list() | tuple():
            return [_value(one, f"{what}[{place}]", depth - 1) for place, one in enumerate(value)]
        case Mapping():
            return {_attribute(name, what): _value(one, f"{what}.{name}", depth - 1) for name, one in value.items()}
    raise InvalidInput(f"{what} is a {type(value).__name__}, which cannot be stored", code="not_storable",
                       hint="use JSON, Decimal or bytes")  # fmt: skip


def _text(value: str, what: str) -> str:
    try:
        value.encode()
    except UnicodeError as error:
        raise InvalidInput(f"{what} holds half a character: {error}", code="not_storable") from error
    return str.__str__(value)  # for a member of an enum, the text alone


def _number(value: float | Decimal, what: str) -> Decimal:
    try:
        return number_of(value)
    except ArithmeticError as error:
        raise InvalidInput(f"{what}: DynamoDB has no such number: {value!r:.80}", code="not_storable",
                           hint="38 digits, from 1E-130 to 9.9E+125") from error  # fmt: skip
