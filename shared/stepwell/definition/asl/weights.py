"""What results weigh, so that no expression makes more than a run can keep, and when two JSON values are equal."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable

from stepwell.definition.cel.values import Budget
from stepwell.definition.graph import Json
from stepwell.errors import ExpressionError
from stepwell.limits import EXPRESSION_RESULT_BYTES, JSON_DEPTH

_DIGITS_BITS = 1_000  # Python prints no integer of many more digits


def check_weight(value: Json, budget: Budget, depth: int = 0) -> None:
    """Raises ExpressionError for what is too large or too deep to be a result, or no JSON. The walk costs work too.

    One budget is for all of an expression: many results of a good size are too much together. `depth` is where the
    value itself is: -1 if its items are looked at together.
    """
    left = EXPRESSION_RESULT_BYTES
    stack = [(value, depth)]
    while stack:
        item, level = stack.pop()
        budget.spend(1)
        left -= 4
        if isinstance(item, str):
            budget.spend_bytes(len(item))
            left -= len(item)
        elif isinstance(item, (list, dict)):
            if level == JSON_DEPTH:
                raise ExpressionError(f"the result is nested deeper than {JSON_DEPTH}")
            left -= sum(map(len, item)) if isinstance(item, dict) else 0
            budget.spend(len(item) // 4)  # before the stack grows
            inner = item.values() if isinstance(item, dict) else item
            stack.extend((child, level + 1) for child in inner)
        else:
            left -= _digits(item)
        if left < 0:
            raise ExpressionError(
                f"the result is larger than {EXPRESSION_RESULT_BYTES} bytes",
                hint="keep large values in a step's output",
            )


def has_half_a_pair(value: Json) -> bool:
    """Tells whether a text in the value has half a surrogate pair, which no store can hold."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def is_number(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def key_of(value: Json) -> Hashable:
    """Returns what is equal for equal JSON values alone: 1 is 1.0, but not true; the order of keys is no matter.

    Numbers are texts, whose hashes nobody can foresee: numbers can be chosen so that a set of them takes forever.
    """
    if isinstance(value, list):
        return ("list", tuple(key_of(item) for item in value))
    if isinstance(value, dict):
        return ("object", frozenset((name, key_of(item)) for name, item in value.items()))
    if not is_number(value):
        return ("bool", value) if isinstance(value, bool) else value
    whole = isinstance(value, int) or value.is_integer()
    return ("number", hex(int(value)) if whole else value.hex())


def _digits(value: Json) -> int:
    if isinstance(value, float) and not math.isfinite(value):
        raise ExpressionError(f"the result is {value}, which JSON cannot represent")
    if not isinstance(value, int):
        return 0
    if value.bit_length() > _DIGITS_BITS:
        raise ExpressionError("the number is too large")
    return value.bit_length() // 4
