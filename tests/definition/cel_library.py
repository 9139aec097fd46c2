"""Has the library cel-expr-python parse an expression or compute a function, to compare ours with."""

from __future__ import annotations

import datetime
from functools import lru_cache
from typing import Any

from cel_expr_python import cel  # type: ignore[import-untyped]  # it has no types

from stepwell.definition.cel.ast import Tree
from stepwell.definition.cel.compile import library
from stepwell.definition.cel.values import Value, duration_text, timestamp_text
from tests.definition.cel_serialized import parse_tree

_WRITTEN = {"math.@max": "math.greatest", "math.@min": "math.least"}
_TAKEN = {datetime.datetime: "timestamp", datetime.timedelta: "duration", bytes: "bytes", float: "double"}


def tree_of(source: str, names: tuple[str, ...]) -> Tree:
    """Raises RuntimeError, TypeError or UnicodeError."""
    return parse_tree(library(names).compile(source).serialize())


def computed(name: str, is_member: bool, args: tuple[Value, ...]) -> tuple[str, Value]:
    """Returns ("value", the result) or ("error", its message)."""
    kinds = tuple(_TAKEN.get(type(arg), "") for arg in args)
    try:
        value = _call(_WRITTEN.get(name, name), is_member, kinds).eval(
            data={f"a{at}": _given(arg) for at, arg in enumerate(args)}
        )
        if value.type() == cel.Type.ERROR:
            return "error", str(value.value())
        made = value.plain_value()
    except (RuntimeError, TypeError, OverflowError, UnicodeError) as error:
        return "error", str(error)
    return "value", bytes(made) if isinstance(made, bytearray) else made


@lru_cache(maxsize=512)
def _call(name: str, is_member: bool, kinds: tuple[str, ...]) -> Any:
    args = [f"{kind}(a{at})" if kind else f"a{at}" for at, kind in enumerate(kinds)]
    call = f"{args[0]}.{name}({', '.join(args[1:])})" if is_member else f"{name}({', '.join(args)})"
    return library(tuple(f"a{at}" for at in range(len(kinds)))).compile(call)


def _given(value: Value) -> Value:
    match value:
        case datetime.datetime():
            return timestamp_text(value)
        case datetime.timedelta():
            return duration_text(value)
        case bytes():
            return value.decode()
    return value
