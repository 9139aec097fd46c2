"""CEL's conversions between numbers, text, bytes and booleans."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from stepwell.definition.cel.times import duration_string, timestamp_string, unix_seconds
from stepwell.definition.cel.values import INT_MAX, INT_MIN, UINT_MAX
from stepwell.errors import ExpressionError

_SPACE = " \t\n\v\f\r"
_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_DOUBLE = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<decimal>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<hex>0[xX](?:[\da-fA-F]+\.?[\da-fA-F]*|\.[\da-fA-F]+)(?:[pP][+-]?\d+)?)"
    r"|(?P<inf>inf(?:inity)?)|(?P<nan>nan(?:\([A-Za-z0-9_]*\))?))",
    re.I | re.A,
)
_UINT_END = UINT_MAX + 1
_TRUE, _FALSE = {"1", "t", "true", "TRUE", "True"}, {"0", "f", "false", "FALSE", "False"}


def double_text(value: float) -> str:
    """The shortest digits that read back the same; an exponent below 1e-4 and from a million on, as the library has."""
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    for digits in range(1, 18):
        text = f"{value:.{digits - 1}e}"
        if float(text) == value:
            break
    mantissa, _, exponent = text.partition("e")
    if -5 < int(exponent) < 6:
        return f"{value:.{max(0, digits - 1 - int(exponent))}f}"
    return f"{mantissa}e{exponent}"


def _int_of_text(text: str) -> int:
    value = _integer(text)
    if value is None or not INT_MIN <= value <= INT_MAX:
        raise ExpressionError("cannot convert string to int")
    return value


def _uint_of_text(text: str) -> int:
    value = _integer(text)
    if value is None or value >= _UINT_END or "-" in text:
        raise ExpressionError("cannot convert string to uint")
    return value


def _integer(text: str) -> int | None:
    stripped = text.strip(_SPACE)
    return int(stripped) if _INTEGER.fullmatch(stripped) else None


def _int_of_double(value: float) -> int:
    if not INT_MIN < value < INT_MAX:  # both ends are refused, and a NaN
        raise ExpressionError("double out of int64 range")
    return int(value)


def _int_of_uint(value: int) -> int:
    raise ExpressionError("uint64 out of int64 range")


def _uint_of_int(value: int) -> int:
    if value < 0:
        raise ExpressionError("int64 out of uint64 range")
    return value


def _uint_of_double(value: float) -> int:
    if not 0 <= value < _UINT_END:
        raise ExpressionError("double out of uint64 range")
    return int(value)


def _double_of_text(text: str) -> float:
    found = _DOUBLE.fullmatch(text.strip(_SPACE))
    if found is None:
        raise ExpressionError("cannot convert string to double")
    if found["hex"]:
        try:
            value = float.fromhex(found["hex"])
        except OverflowError:
            value = math.inf
    else:
        value = float(found["decimal"] or ("nan" if found["nan"] else "inf"))
    return -value if found["sign"] == "-" else value


def _bool_of_text(text: str) -> bool:
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise ExpressionError("Type conversion error from 'string' to 'bool'")


def _same(value: Any) -> Any:
    return value


FUNCTIONS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "bool": {"b": _same, "s": _bool_of_text},
    "bytes": {"s": str.encode, "y": _same},
    "double": {"d": _same, "i": float, "s": _double_of_text, "u": float},
    "int": {"b": int, "d": _int_of_double, "i": _same, "s": _int_of_text, "t": unix_seconds, "u": _int_of_uint},
    "string": {
        "b": lambda value: "true" if value else "false",
        "d": double_text,
        "i": str,
        "p": duration_string,
        "s": _same,
        "t": timestamp_string,
        "u": str,
        "y": lambda value: value.decode("utf-8", "replace"),
    },
    "uint": {"d": _uint_of_double, "i": _uint_of_int, "s": _uint_of_text, "u": _same},
}
