"""CEL values in Python: equality, type names, the budget of one evaluation, and conversion to JSON."""

from __future__ import annotations

import base64
import datetime
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from stepwell.definition.graph import Json
from stepwell.errors import ExpressionError
from stepwell.limits import EXPRESSION_RESULT_BYTES, JSON_DEPTH

# One unit is about one visit of a tree node, or 64 bytes copied or compared. All of it takes well under half a second.
WORK_UNITS = 500_000
BYTES_PER_UNIT = 64

Value: TypeAlias = Any  # Json, or bytes, datetime, timedelta, TypeName inside an evaluation

INT_MIN, INT_MAX, UINT_MAX = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1


class TypeName(str):
    """The result of CEL's `type(x)`; not equal to a string with the same text."""

    __slots__ = ()


class Budget:
    """The remaining work of one evaluation, and the remaining bytes of its result."""

    __slots__ = ("bytes_left", "left")

    def __init__(self) -> None:
        self.left = WORK_UNITS
        self.bytes_left = EXPRESSION_RESULT_BYTES

    def spend(self, units: int) -> None:
        self.left -= units
        if self.left < 0:
            raise ExpressionError(
                "the expression does too much work",
                hint="expressions are bounded: loop over fewer items, or do this in a step",
            )

    def spend_bytes(self, size: int) -> None:
        self.spend(size // BYTES_PER_UNIT)


class Items(Sequence[Json]):
    """The items of a list, or of a map as key and value, each converted to JSON on access."""

    __slots__ = ("_keys", "_values")

    def __init__(self, made: Value) -> None:
        """Raises ExpressionError for a value that is not a collection."""
        if not isinstance(made, list | dict):
            raise ExpressionError(f"items need a list or a map, not {described(made)}")
        self._keys: list[str] = list(made) if isinstance(made, dict) else []
        self._values: list[Value] = list(made.values()) if isinstance(made, dict) else made

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: Any) -> Json:
        value = to_json(self._values[index], Budget())
        return {"key": self._keys[index], "value": value} if self._keys else value


def type_name(value: Value) -> TypeName:
    names: dict[type, str] = {
        type(None): "null_type",
        bool: "bool",
        int: "int",
        float: "double",
        str: "string",
        bytes: "bytes",
        list: "list",
        dict: "map",
        datetime.datetime: "google.protobuf.Timestamp",
        datetime.timedelta: "google.protobuf.Duration",
    }
    return TypeName(names.get(type(value), "type"))


def is_number(value: Value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def equal(left: Value, right: Value, budget: Budget) -> bool:
    """Compares as CEL does: numbers across types, other values within their type, containers deeply."""
    if is_number(left) and is_number(right):
        return bool(left == right)
    if type(left) is not type(right):
        return False
    if isinstance(left, list):
        budget.spend(len(left))
        return len(left) == len(right) and all(equal(a, b, budget) for a, b in zip(left, right, strict=True))
    if isinstance(left, dict):
        budget.spend(len(left))
        return left.keys() == right.keys() and all(equal(value, right[key], budget) for key, value in left.items())
    if isinstance(left, (str, bytes)):
        budget.spend_bytes(len(left))
    return bool(left == right)


def contains(item: Value, collection: Value, budget: Budget) -> bool:
    """Implements CEL's `in`: an item of a list, or a key of a map."""
    if isinstance(collection, dict):
        return isinstance(item, str) and item in collection
    if isinstance(collection, list):
        budget.spend(len(collection))
        return any(equal(item, other, budget) for other in collection)
    raise ExpressionError(f"`in` needs a list or a map on its right, not {described(collection)}")


def described(value: Value) -> str:
    """Describes the type of a value for a message."""
    if value is None:
        return "null"
    return {"double": "a double", "int": "an int"}.get(name := type_name(value), f"a {name}")


def to_json(value: Value, budget: Budget, depth: int = JSON_DEPTH) -> Json:
    """Converts to JSON within a budget. Types without a JSON form become strings, as in protobuf's JSON mapping."""
    kind = type(value)
    _take(budget, len(value) + 2 if kind is str else 4)
    if kind is str or value is None or kind is bool:
        return value
    if kind is int:
        return value if -UINT_MAX < value < UINT_MAX else _integer(value)
    if kind is float:
        return _finite(value)
    if depth == 0:
        raise ExpressionError(f"the result is nested deeper than {JSON_DEPTH}")
    if kind is list:
        return [to_json(item, budget, depth - 1) for item in value]
    if kind is dict:
        _take(budget, sum(map(len, value)))
        return {key: to_json(item, budget, depth - 1) for key, item in value.items()}
    return to_json(_as_text(value), budget, depth)


def _take(budget: Budget, size: int) -> None:
    budget.bytes_left -= size
    if budget.bytes_left < 0:
        raise ExpressionError(
            f"the result is larger than {EXPRESSION_RESULT_BYTES} bytes", hint="keep large values in a step's output"
        )


def _integer(value: int) -> int:
    # JSON allows numbers of any size, but storing fails with more digits than Python prints.
    if value.bit_length() > 1_000:
        raise ExpressionError("the number is too large")
    return value


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ExpressionError(f"the result is {value}, which JSON cannot represent", hint="guard the division")
    return value


def _as_text(value: Value) -> str:
    match value:
        case TypeName():
            return str(value)
        case datetime.datetime():
            return timestamp_text(value)
        case datetime.timedelta():
            return duration_text(value)
        case bytes():
            return base64.b64encode(value).decode()
    raise ExpressionError(f"a value of type {type(value).__name__} is not JSON")


def timestamp_text(value: datetime.datetime) -> str:
    return value.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")


def duration_text(value: datetime.timedelta) -> str:
    seconds, micros = divmod(value // datetime.timedelta(microseconds=1), 1_000_000)
    if seconds < 0 and micros:  # divmod rounds down; the text's sign belongs to the whole
        return f"-{-seconds - 1}.{1_000_000 - micros:06d}".rstrip("0") + "s"
    return (f"{seconds}.{micros:06d}".rstrip("0") if micros else str(seconds)) + "s"
