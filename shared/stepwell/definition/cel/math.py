"""CEL's extension `math`. Integers have 64 bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from stepwell.definition.cel.values import INT_MIN, is_number
from stepwell.errors import ExpressionError

_BITS = 64
_MASK = (1 << _BITS) - 1


def _extreme(name: str, better: Callable[[Any, Any], bool]) -> Mapping[str, Callable[..., Any]]:
    """Of equal numbers the first is taken; a NaN is no better than any."""

    def of_list(numbers: list[Any]) -> Any:
        if not numbers:
            raise ExpressionError(f"{name} argument must not be empty")
        if not all(is_number(number) for number in numbers):
            raise ExpressionError(f"{name} arguments must be numeric")
        best = numbers[0]
        for number in numbers[1:]:
            best = number if better(number, best) else best
        return best

    pairs = {f"{one}{other}": lambda a, b: of_list([a, b]) for one in "diu" for other in "diu"}
    return {**pairs, **dict.fromkeys("diu", lambda number: number), "l": of_list}


def _rounded(round_it: Callable[[float], int]) -> Mapping[str, Callable[[float], float]]:
    def apply(value: float) -> float:
        return math.copysign(float(round_it(value)), value) if math.isfinite(value) else value

    return {"d": apply}


def _half_away(value: float) -> int:
    whole = math.floor(abs(value))
    whole += abs(value) - whole >= 0.5
    return -whole if value < 0 else whole


def _absolute(value: int) -> int:
    if value == INT_MIN:
        raise ExpressionError("integer overflow")
    return abs(value)


def _sign(value: float) -> float:
    return math.copysign(1.0, value) if value and not math.isnan(value) else abs(value)


def _signed(value: int) -> int:
    """Reads the last 64 bits as a signed number."""
    bits = value & _MASK
    return bits - (1 << _BITS) if bits >> (_BITS - 1) else bits


def _shift(name: str, apply: Callable[[int, int], int]) -> Mapping[str, Callable[[int, int], int]]:
    def shift(value: int, places: int) -> int:
        if places < 0:
            raise ExpressionError(f"{name}() invalid negative shift: {places}")
        return apply(value & _MASK, places) if places < _BITS else 0

    return {"ii": lambda value, places: _signed(shift(value, places)),
            "ui": lambda value, places: shift(value, places) & _MASK}  # fmt: skip


def _root(value: float) -> float:
    return math.sqrt(value) if value >= 0 else math.nan


FUNCTIONS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "math.@max": _extreme("math.@max", lambda a, b: bool(a > b)),
    "math.@min": _extreme("math.@min", lambda a, b: bool(a < b)),
    "math.abs": {"d": abs, "i": _absolute, "u": abs},
    "math.bitAnd": dict.fromkeys(("ii", "uu"), lambda a, b: a & b),
    "math.bitNot": {"i": lambda a: ~a, "u": lambda a: ~a & _MASK},
    "math.bitOr": dict.fromkeys(("ii", "uu"), lambda a, b: a | b),
    "math.bitShiftLeft": _shift("math.bitShiftLeft", lambda a, b: a << b),
    "math.bitShiftRight": _shift("math.bitShiftRight", lambda a, b: a >> b),
    "math.bitXor": dict.fromkeys(("ii", "uu"), lambda a, b: a ^ b),
    "math.ceil": _rounded(math.ceil),
    "math.floor": _rounded(math.floor),
    "math.isFinite": {"d": math.isfinite},
    "math.isInf": {"d": math.isinf},
    "math.isNaN": {"d": math.isnan},
    "math.round": _rounded(_half_away),
    "math.sign": {"d": _sign, "i": lambda a: (a > 0) - (a < 0), "u": lambda a: 1},
    "math.sqrt": dict.fromkeys("diu", _root),
    "math.trunc": _rounded(math.trunc),
}
