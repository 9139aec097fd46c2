"""Compiles payload templates: the JSON of Parameters, ResultSelector and ItemSelector."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from stepwell.definition.asl.intrinsics import HINT, value_code
from stepwell.definition.asl.paths import Code, Compiled, Query, Scope
from stepwell.definition.asl.weights import check_weight
from stepwell.definition.cel.values import Budget
from stepwell.definition.graph import Json
from stepwell.definition.text import one_line, pointer_part
from stepwell.errors import ExpressionError
from stepwell.limits import JSON_DEPTH

ENDING = ".$"

Fail = Callable[[str, ExpressionError], None]  # takes each mistake, with its JSON pointer


def compile_payload(value: Json) -> Query:
    """Compiles any JSON. A key that ends in `.$` holds a path or a call, whose value stands under the key without it.

    Raises ExpressionError for the first mistake, and names its JSON pointer.
    """
    code = _compiled(value, "", _raise_first)
    text = json.dumps(value, ensure_ascii=False, default=str)
    if code is None:
        return Compiled(text, lambda scope, budget: value)

    def made(scope: Scope, budget: Budget) -> Json:
        found = code(scope, budget)
        check_weight(found, budget)  # a large value may stand at many keys
        return found

    return Compiled(text, made)


def payload_errors(value: Json, path: str = "") -> Iterator[tuple[str, ExpressionError]]:
    """Yields every mistake of a payload template, with its JSON pointer."""
    found: list[tuple[str, ExpressionError]] = []
    _compiled(value, path, lambda place, error: found.append((place, error)))
    yield from found


def _raise_first(place: str, error: ExpressionError) -> None:
    raise ExpressionError(f"{error.message}, in {place or '/'}", code=error.code, hint=error.hint) from None


def _compiled(value: Json, path: str, fail: Fail, depth: int = 0) -> Code | None:
    """Returns what makes the value, or None if it is constant."""
    if not isinstance(value, (dict, list)):
        return None
    if depth == JSON_DEPTH:
        message = f"the template is nested deeper than {JSON_DEPTH}"
        fail(path, ExpressionError(message, code="bad_expression", hint="nest it less deeply"))
        return None
    if isinstance(value, dict):
        return _object(value, path, fail, depth)
    return _list(value, path, fail, depth)


def _object(value: dict[str, Json], path: str, fail: Fail, depth: int) -> Code | None:
    parts: dict[str, Code | None] = {}
    constants: dict[str, Json] = {}
    for key, item in value.items():
        place = f"{path}/{pointer_part(key)}"
        name = key.removesuffix(ENDING)
        if name == key:
            parts[name] = _compiled(item, place, fail, depth + 1)
            constants[name] = item
            continue
        try:
            parts[name] = _field(value, key, place)
        except ExpressionError as error:
            fail(place, error)
    if not any(parts.values()):
        return None
    return lambda scope, budget: {
        name: constants[name] if code is None else code(scope, budget) for name, code in parts.items()
    }


def _field(holder: dict[str, Json], key: str, place: str) -> Code:
    """Compiles what stands behind a key that ends in `.$`."""
    name, text = key.removesuffix(ENDING), holder[key]
    if not name:
        raise ExpressionError("the key has no name before .$", code="bad_expression", hint="write name.$")
    if name in holder:
        message = f"both {one_line(name)} and {one_line(key)} are given"
        raise ExpressionError(message, code="bad_expression", hint="leave one of them out")
    if not isinstance(text, str):
        message = f"{one_line(key)} must hold a string"
        raise ExpressionError(message, code="bad_expression", hint=f"{HINT}; or name the key {name}, without .$")
    return value_code(text, place)


def _list(value: list[Json], path: str, fail: Fail, depth: int) -> Code | None:
    items = [(item, _compiled(item, f"{path}/{at}", fail, depth + 1)) for at, item in enumerate(value)]
    if all(code is None for _, code in items):
        return None
    return lambda scope, budget: [item if code is None else code(scope, budget) for item, code in items]
