"""Finds the implementation of a CEL function by the kinds of its arguments.

Standard functions and the extensions for text and numbers, as the library cel-expr-python computes them. A kind is one
letter, so `indexOf(text, text, int)` is "ssi".
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import TypeAlias

from stepwell.definition.cel import conversions, formatting, math, strings, times
from stepwell.definition.cel.values import INT_MAX, INT_MIN, UINT_MAX, TypeName, Value
from stepwell.errors import ExpressionError

Overloads: TypeAlias = Mapping[str, Callable[..., Value]]

_KINDS = {
    bool: "b",
    bytes: "y",
    datetime.datetime: "t",
    datetime.timedelta: "p",
    dict: "m",
    float: "d",
    list: "l",
    str: "s",
    type(None): "n",
}
_NAMES = {"b": "bool", "d": "double", "i": "int64", "l": "list", "m": "map", "n": "null_type", "p": "duration",
          "s": "string", "t": "timestamp", "u": "uint64", "y": "bytes"}  # fmt: skip

FUNCTIONS: Mapping[str, Overloads] = {
    **conversions.FUNCTIONS,
    **formatting.FUNCTIONS,
    **math.FUNCTIONS,
    **strings.FUNCTIONS,
    **times.FUNCTIONS,
}
# Those that are not written behind a dot; `matches` may be either.
GLOBAL = frozenset({*conversions.FUNCTIONS, *math.FUNCTIONS, "duration", "matches", "strings.quote",
                    "timestamp"})  # fmt: skip
MEMBERS = frozenset(FUNCTIONS) - GLOBAL | {"matches"}


def kind_of(value: Value) -> str:
    if type(value) is int:
        return "i" if INT_MIN <= value <= INT_MAX else "u" if INT_MAX < value <= UINT_MAX else "?"
    return _KINDS.get(type(value), "?")


def is_declared(name: str, is_member: bool, arity: int) -> bool:
    names = MEMBERS if is_member else GLOBAL
    return name in names and any(len(kinds) == arity for kinds in FUNCTIONS[name])


def call(name: str, is_member: bool, args: list[Value]) -> Value:
    """Computes a function. Raises ExpressionError."""
    kinds = "".join([kind_of(arg) for arg in args])
    apply = FUNCTIONS[name].get(kinds)
    if apply is None:
        shown = [_NAMES.get(kind, "type" if isinstance(arg, TypeName) else "number")
                 for kind, arg in zip(kinds, args, strict=True)]  # fmt: skip
        call = f"({shown[0]}).{name}({', '.join(shown[1:])})" if is_member else f"{name}({', '.join(shown)})"
        raise ExpressionError(f"{name}(): No matching overloads found : {call}")
    try:
        return apply(*args)
    except ExpressionError as error:
        raise ExpressionError(f"{name}(): {error.message}") from None
