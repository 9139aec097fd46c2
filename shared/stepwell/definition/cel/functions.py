"""The functions and operators of CEL, on Python values.

Operators and tests of text are here, with exact budgets. All other functions (matches, timestamps, conversions,
strings, math) are in `cel.overloads`. Each is linear in its arguments, whose size is charged first.
"""

from __future__ import annotations

import datetime
import math
import operator
import re
from collections.abc import Callable
from typing import Any

from stepwell.definition.cel.ast import NotCel
from stepwell.definition.cel.overloads import call, is_declared
from stepwell.definition.cel.values import (
    BYTES_PER_UNIT,
    INT_MAX,
    INT_MIN,
    Budget,
    Value,
    contains,
    described,
    equal,
    is_number,
    type_name,
)
from stepwell.errors import ExpressionError

Function = Callable[[list[Value], Budget], Value]


def function(name: str, is_member: bool, arity: int) -> Function:
    """Finds the function `name`. `is_member`: written `target.name(…)`, with the target as first argument."""
    known = _TABLE.get((name, arity))
    if known is not None and (name in _EITHER or is_member == (name in _MEMBERS)):
        return known
    if is_declared(name, is_member, arity):
        return _by_overload(name, is_member)
    raise NotCel(f"undeclared reference to '{name}' (in container '')")


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
    shown = ", ".join(sorted(str(name)[:40] for name in owner)[:8])
    there = f"the keys are {shown}" if owner else "it is empty"
    return ExpressionError(f"there is no key {key[:80]!r}", hint=f"{there}; has(…) tests for a key")


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


def _by_overload(name: str, is_member: bool) -> Function:
    def apply(args: list[Value], budget: Budget) -> Value:
        for arg in args:
            _charge(arg, budget)
        if name == "matches":
            _charge_pattern(args, budget)
        return call(name, is_member, args)

    return apply


def _charge(value: Value, budget: Budget) -> None:
    """Charges the size of an argument, which every function may read as a whole."""
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
_MEMBERS = frozenset({"contains", "startsWith", "endsWith", "replace"})
_EITHER = frozenset({"size"})  # size(x) and x.size()
