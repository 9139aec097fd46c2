"""The functions and operators of CEL, on Python values.

Operators are implemented here, with exact budgets. All other functions (matches, timestamps, conversions, strings,
math) are the library's, called one at a time. Each is linear in its arguments, whose size is charged first.
"""

from __future__ import annotations

import datetime
import math
import operator
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from cel_expr_python import cel  # type: ignore[import-untyped]  # it has no types
from cel_expr_python.ext import ext_math, ext_strings  # type: ignore[import-untyped]  # it has no types

from stepwell.definition.cel_values import (
    BYTES_PER_UNIT,
    INT_MAX,
    INT_MIN,
    Budget,
    Value,
    contains,
    described,
    duration_text,
    equal,
    is_number,
    timestamp_text,
    type_name,
)
from stepwell.errors import ExpressionError

Function = Callable[[list[Value], Budget], Value]


def extensions() -> list[Any]:
    return [ext_strings.ExtStrings(), ext_math.ExtMath()]


def function(name: str, is_member: bool, arity: int) -> Function:
    """Finds the function `name`. `is_member`: written `target.name(…)`, with the target as first argument."""
    known = _TABLE.get((name, arity))
    return known or _by_library(name, is_member)


def _number(value: int | float, symbol: str) -> int | float:
    if isinstance(value, int) and not INT_MIN <= value <= INT_MAX:
        raise ExpressionError(f"integer overflow in {symbol}")
    return value


def _refuse(symbol: str, left: Value, right: Value) -> ExpressionError:
    hint = None
    if isinstance(left, str) != isinstance(right, str):
        hint = "string(x) converts to text; int(x) and double(x) convert to numbers"
    if left is None or right is None:
        hint = "guard it: has(state.x) && …, or state.x != null && …"
    return ExpressionError(f"`{symbol}` does not work on {described(left)} and {described(right)}", hint=hint)


def _add(args: list[Value], budget: Budget) -> Value:
    left, right = args
    if is_number(left) and is_number(right):
        return _number(left + right, "+")
    if type(left) is type(right) and type(left) in (str, bytes, list):
        size = len(left) + len(right)
        budget.spend(size if type(left) is list else size // BYTES_PER_UNIT)
        return left + right
    return _dated("+", operator.add, left, right)


def _subtract(args: list[Value], budget: Budget) -> Value:
    left, right = args
    if is_number(left) and is_number(right):
        return _number(left - right, "-")
    return _dated("-", operator.sub, left, right)


def _dated(symbol: str, apply: Callable[[Any, Any], Any], left: Value, right: Value) -> Value:
    """Computes sums and differences of timestamps and durations."""
    dated = (datetime.datetime, datetime.timedelta)
    if isinstance(left, dated) and isinstance(right, dated):
        try:
            return apply(left, right)
        except (TypeError, OverflowError) as error:
            raise _refuse(symbol, left, right) from error
    raise _refuse(symbol, left, right)


def _multiply(args: list[Value], budget: Budget) -> Value:
    left, right = args
    if is_number(left) and is_number(right):
        return _number(_floated(operator.mul, left, right), "*")
    raise _refuse("*", left, right)


def _floated(apply: Callable[[Any, Any], Any], left: Value, right: Value) -> Any:
    try:
        return apply(left, right)
    except OverflowError:  # an int too large for a double
        raise ExpressionError("the number is too large") from None


def _divide(args: list[Value], budget: Budget) -> Value:
    left, right = args
    if not (is_number(left) and is_number(right)):
        raise _refuse("/", left, right)
    if right == 0:
        raise ExpressionError("division by zero", hint="guard it: x != 0 ? y / x : 0")
    if isinstance(left, float) or isinstance(right, float):
        return _floated(operator.truediv, left, right)
    quotient = abs(left) // abs(right)  # CEL truncates toward zero
    return _number(quotient if (left < 0) == (right < 0) else -quotient, "/")


def _modulo(args: list[Value], budget: Budget) -> Value:
    left, right = args
    if not (is_number(left) and is_number(right)) or isinstance(left, float) or isinstance(right, float):
        raise _refuse("%", left, right)
    if right == 0:
        raise ExpressionError("modulus by zero")
    remainder = abs(left) % abs(right)  # the sign of the dividend, as in CEL
    return -remainder if left < 0 else remainder


def _negate(args: list[Value], budget: Budget) -> Value:
    if not is_number(args[0]):
        raise ExpressionError(f"`-` does not work on {described(args[0])}")
    return _number(-args[0], "-")


def _not(args: list[Value], budget: Budget) -> Value:
    if not isinstance(args[0], bool):
        raise ExpressionError(f"`!` needs true or false, not {described(args[0])}")
    return not args[0]


def _compare(symbol: str, apply: Callable[[Any, Any], Any]) -> Function:
    def compare(args: list[Value], budget: Budget) -> Value:
        left, right = args
        if not (is_number(left) and is_number(right)):
            ordered = (bool, str, bytes, datetime.datetime, datetime.timedelta)
            if type(left) is not type(right) or type(left) not in ordered:
                raise _refuse(symbol, left, right)
            if isinstance(left, (str, bytes)):
                budget.spend_bytes(min(len(left), len(right)))
        return apply(left, right)

    return compare


def _index(args: list[Value], budget: Budget) -> Value:
    collection, key = args
    if isinstance(collection, dict):
        if not isinstance(key, str):
            key = str(key)
        if key in collection:
            return collection[key]
        raise missing_key(key, collection)
    if not isinstance(collection, list):
        raise ExpressionError(f"[…] needs a list or a map, not {described(collection)}")
    if isinstance(key, float) and key.is_integer():
        key = int(key)
    if not isinstance(key, int) or isinstance(key, bool):
        raise ExpressionError(f"a list is indexed by an int, not by {described(key)}")
    if not 0 <= key < len(collection):
        raise ExpressionError(f"the index {key} is outside the list, which has {len(collection)} items")
    return collection[key]


def missing_key(key: str, owner: dict[str, Value]) -> ExpressionError:
    shown = ", ".join(sorted(str(name)[:40] for name in owner)[:8]) or "nothing"
    return ExpressionError(f"there is no key {key[:80]!r}", hint=f"the keys are {shown}; has(…) tests for a key")


def _size(args: list[Value], budget: Budget) -> Value:
    if isinstance(args[0], (str, bytes, list, dict)):
        return len(args[0])
    raise ExpressionError(f"size() does not work on {described(args[0])}")


def _text_test(name: str, apply: Callable[[str, str], bool]) -> Function:
    def test(args: list[Value], budget: Budget) -> Value:
        text, part = args
        if not (isinstance(text, str) and isinstance(part, str)):
            raise ExpressionError(f"{name}() works on strings, not on {described(text)} and {described(part)}")
        budget.spend_bytes(len(text) + len(part))
        return apply(text, part)

    return test


def _replace(args: list[Value], budget: Budget) -> Value:
    """Replaces text; the result can be much larger than the arguments, so its size is charged first."""
    text, old, new = args[:3]
    limit = args[3] if len(args) > 3 else -1
    if not all(isinstance(part, str) for part in (text, old, new)) or not isinstance(limit, int):
        raise ExpressionError("replace() needs strings, and an int as the number of replacements")
    found = text.count(old)
    times = found if limit < 0 else min(found, limit)
    budget.spend_bytes(len(text) * 2 + times * len(new))
    return text.replace(old, new, limit)


def _by_library(name: str, is_member: bool) -> Function:
    def call(args: list[Value], budget: Budget) -> Value:
        for arg in args:
            _charge(arg, budget)
        if name == "matches":
            _charge_pattern(args, budget)
        kinds = tuple(_kind(arg) for arg in args)
        names = {f"a{position}": _plain(arg) for position, arg in enumerate(args)}
        try:
            value = _compiled(name, is_member, kinds).eval(data=names)
            if value.type() == cel.Type.ERROR:
                raise ExpressionError(f"{name}(): {library_message(str(value.value()))}")
            return _native(value.plain_value())
        except ExpressionError:
            raise
        except Exception as error:  # the library raises RuntimeError, TypeError, OverflowError, UnicodeError alike
            raise ExpressionError(f"{name}(): {library_message(str(error))}") from None

    return call


@lru_cache(maxsize=512)
def _compiled(name: str, is_member: bool, kinds: tuple[str, ...]) -> Any:
    """Compiles a call of one function; `kinds` converts text to timestamps, durations and bytes inside the call."""
    name = _WRITTEN.get(name, name)
    arguments = [f"{kind}(a{position})" if kind else f"a{position}" for position, kind in enumerate(kinds)]
    call = f"{arguments[0]}.{name}({', '.join(arguments[1:])})" if is_member else f"{name}({', '.join(arguments)})"
    return _arguments(len(kinds)).compile(call)


@lru_cache(maxsize=16)
def _arguments(arity: int) -> Any:
    return cel.NewEnv(variables={f"a{position}": cel.Type.DYN for position in range(arity)}, extensions=extensions())


# The names that the library's macros expand to cannot be written, so the calls use these.
_WRITTEN = {"math.@max": "math.greatest", "math.@min": "math.least"}


def _kind(value: Value) -> str:
    kinds = {datetime.datetime: "timestamp", datetime.timedelta: "duration", bytes: "bytes"}
    return kinds.get(type(value), "")


def _plain(value: Value) -> Value:
    match value:
        case datetime.datetime():
            return timestamp_text(value)
        case datetime.timedelta():
            return duration_text(value)
        case bytes():
            return value.decode("utf-8", "strict") if value.isascii() else value.decode("utf-8", "replace")
    return value


def _native(value: Any) -> Value:
    if isinstance(value, bytearray):
        return bytes(value)
    return value


def _charge(value: Value, budget: Budget) -> None:
    """Charges the size of an argument before it is copied into the library."""
    if isinstance(value, (str, bytes)):
        budget.spend(1 + len(value) * 4 // 64)
        return
    budget.spend(1)
    if isinstance(value, list):
        for item in value:
            _charge(item, budget)
    elif isinstance(value, dict):
        for key, item in value.items():
            _charge(key, budget)
            _charge(item, budget)


def _charge_pattern(args: list[Value], budget: Budget) -> None:
    """Charges a pattern. RE2 is linear, but compiles it each time: half a millisecond for `{1000}`."""
    text, pattern = (str(arg) for arg in args)
    repeats = math.prod(int(number) for number in re.findall(r"\{(?:\d+,)?(\d{1,4})", pattern)[:100])
    budget.spend(20 + len(text) // 2 + len(pattern) + 2 * min(repeats, 1_000))


def library_message(text: str) -> str:
    """Strips status names and the source excerpt from the library's message."""
    first = text.split("\n", 1)[0]
    for prefix in ("INVALID_ARGUMENT: ", "UNKNOWN: ", "NOT_FOUND: ", "OUT_OF_RANGE: ", "CANCELLED: ", "INTERNAL: "):
        first = first.removeprefix(prefix)
    return first.removeprefix("ERROR: ").removesuffix(" [INVALID_ARGUMENT]").removesuffix(" [CANCELLED]")


_TABLE: dict[tuple[str, int], Function] = {
    ("_+_", 2): _add,
    ("_-_", 2): _subtract,
    ("_*_", 2): _multiply,
    ("_/_", 2): _divide,
    ("_%_", 2): _modulo,
    ("-_", 1): _negate,
    ("!_", 1): _not,
    ("_==_", 2): lambda args, budget: equal(args[0], args[1], budget),
    ("_!=_", 2): lambda args, budget: not equal(args[0], args[1], budget),
    ("_<_", 2): _compare("<", operator.lt),
    ("_<=_", 2): _compare("<=", operator.le),
    ("_>_", 2): _compare(">", operator.gt),
    ("_>=_", 2): _compare(">=", operator.ge),
    ("@in", 2): lambda args, budget: contains(args[0], args[1], budget),
    ("_[_]", 2): _index,
    ("size", 1): _size,
    ("type", 1): lambda args, budget: type_name(args[0]),
    ("dyn", 1): lambda args, budget: args[0],
    ("contains", 2): _text_test("contains", lambda text, part: part in text),
    ("startsWith", 2): _text_test("startsWith", str.startswith),
    ("endsWith", 2): _text_test("endsWith", str.endswith),
    ("replace", 3): _replace,
    ("replace", 4): _replace,
}
