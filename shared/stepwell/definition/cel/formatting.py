"""CEL's `format`: the clauses %s, %d, %f, %e, %b, %x, %X and %o."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from stepwell.definition.cel.times import duration_string, timestamp_string
from stepwell.definition.cel.values import Value, type_name
from stepwell.errors import ExpressionError

_MOST_DIGITS = 1_000
_CLAUSE = re.compile(r"%(?:%|(?P<precision>\.[^a-zA-Z%]*)?(?P<kind>.)?)", re.S)
_DIGITS = re.compile(r"[0-9]{1,9}")
_WORDS = ("NaN", "Infinity", "-Infinity")


def format_text(text: str, values: list[Value]) -> str:
    """Fills the clauses of a text, in order. Raises ExpressionError."""
    rest = iter(enumerate(values))

    def fill(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return "%"
        if not found["kind"]:
            where = "end of precision specifier" if found["precision"] else ""
            raise ExpressionError(f"unable to find {where}" if where else "unexpected end of format string")
        digits = _precision(found["precision"])
        write = _CLAUSES.get(found["kind"])
        if write is None:
            raise ExpressionError(f'unrecognized formatting clause "{found["kind"]}"')
        for _, value in rest:
            return write(value, digits)
        raise ExpressionError(f"index {len(values)} out of range")

    return _CLAUSE.sub(fill, text)


def _precision(given: str | None) -> int:
    if given is None:
        return 6
    if not _DIGITS.fullmatch(given, 1):
        raise ExpressionError("unable to convert precision specifier to integer")
    if int(given[1:]) > _MOST_DIGITS:
        raise ExpressionError(f"precision specifier exceeds maximum of {_MOST_DIGITS}")
    return int(given[1:])


def _text(value: Value, _: int = 0) -> str:
    match value:
        case str():
            return str(value)
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:g}" if math.isfinite(value) else _unusual(value)
        case list():
            return f"[{', '.join([_text(item) for item in value])}]"
        case dict():
            return f"{{{', '.join(f'{key}: {_text(value[key])}' for key in sorted(value))}}}"
    return _rare_text(value)


def _rare_text(value: Value) -> str:
    match type_name(value):
        case "google.protobuf.Timestamp":
            return timestamp_string(value)
        case "google.protobuf.Duration":
            return duration_string(value)
        case "bytes":
            return str(value.decode("utf-8", "replace"))
    return str(value)


def _unusual(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _decimal(value: Value, digits: int) -> str:
    if type(value) is int:
        return str(value)
    if type(value) is float:
        return f"{value:.6f}" if math.isfinite(value) else _unusual(value)
    raise ExpressionError(f"decimal clause can only be used on numbers, was given {type_name(value)}")


def _real(letter: str) -> Callable[[Value, int], str]:
    def write(value: Value, digits: int) -> str:
        if isinstance(value, str):
            if value not in _WORDS:
                known = 'only "NaN", "Infinity", and "-Infinity" are supported for conversion to double'
                raise ExpressionError(f"{known}: {value[:80]}")
            return str(value)
        if type(value) not in (int, float):
            raise ExpressionError(f"expected a double but got a {type_name(value)}")
        number = float(value)
        return f"{number:.{digits}{letter}}" if math.isfinite(number) else _unusual(number)

    return write


def _integral(letter: str, what: str, takes: tuple[type, ...]) -> Callable[[Value, int], str]:
    def write(value: Value, _: int) -> str:
        if type(value) not in takes:
            raise ExpressionError(f"{what}, was given {type_name(value)}")
        if isinstance(value, int):
            return f"{int(value):{letter}}"
        shown = (value.encode() if isinstance(value, str) else bytes(value)).hex()
        return shown.upper() if letter == "X" else shown

    return write


_HEX = "hex clause can only be used on integers, byte buffers, and strings"
_CLAUSES: Mapping[str, Callable[[Value, int], str]] = {
    "b": _integral("b", "binary clause can only be used on integers and bools", (int, bool)),
    "d": _decimal,
    "e": _real("e"),
    "f": _real("f"),
    "o": _integral("o", "octal clause can only be used on integers", (int,)),
    "s": _text,
    "x": _integral("x", _HEX, (int, str, bytes)),
    "X": _integral("X", _HEX, (int, str, bytes)),
}
FUNCTIONS: Mapping[str, Mapping[str, Callable[..., Any]]] = {"format": {"sl": format_text}}
