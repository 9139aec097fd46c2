"""Compiles the filters of a JSONPath, `[?(@.price < 10 && @.isbn)]`, in the dialect of AWS.

Values of different types are never equal and have no order. A path alone asks whether it selects anything. There are no
regular expressions, for a bad one never ends.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from stepwell.definition.asl.cursor import Cursor, unescaped
from stepwell.definition.asl.path_steps import MISSING, NothingError, Steps, Test, is_single, select
from stepwell.definition.asl.weights import check_weight, is_number, key_of
from stepwell.definition.cel.values import Budget
from stepwell.definition.graph import Json

Operand: TypeAlias = Callable[[Json, Json, Budget], Json]  # MISSING for a path that selects nothing
Compare: TypeAlias = Callable[[Json, Json, Budget], bool]
PathSteps: TypeAlias = Callable[[Cursor], Steps]  # reads the steps of a path, after its root

HINT = "write for example [?(@.price < 10 && @.kind == 'book')]"
_OPERATOR = re.compile(r"===|!==|==|!=|<=|>=|=~|<|>|(?:in|nin|contains|size|empty|subsetof|anyof|noneof|type)\b")
_NUMBER = re.compile(r"-?\d{1,100}(?:\.\d{1,100})?(?:[eE][+-]?\d{1,2})?")
_WORD = re.compile(r"true\b|false\b|null\b")
_WORDS = {"true": True, "false": False, "null": None}


class FilterParser:
    """Reads one filter, from the `(` behind its `?` on."""

    def __init__(self, cursor: Cursor, steps: PathSteps) -> None:
        self._cursor, self._steps = cursor, steps

    def filter(self) -> Test:
        cursor = self._cursor
        cursor.spaces()
        if cursor.next != "(":
            raise cursor.wrong("a filter needs parentheses", HINT)
        return self._operand_of_not()

    def _either(self) -> Test:
        tests = [self._both()]
        while self._mark("||"):
            tests.append(self._both())
        return tests[0] if len(tests) == 1 else lambda *given: any(test(*given) for test in tests)

    def _both(self) -> Test:
        tests = [self._operand_of_not()]
        while self._mark("&&"):
            tests.append(self._operand_of_not())
        return tests[0] if len(tests) == 1 else lambda *given: all(test(*given) for test in tests)

    def _operand_of_not(self) -> Test:
        cursor = self._cursor
        if self._mark("!"):
            cursor.deeper()
            inner = self._operand_of_not()
            cursor.shallower()
            return lambda *given: not inner(*given)
        if self._mark("("):
            cursor.deeper()
            test = self._either()
            cursor.shallower()
            cursor.expect(")", HINT)
            return test
        return self._comparison()

    def _comparison(self) -> Test:
        cursor = self._cursor
        asks = cursor.next in ("@", "$")
        left = self._operand()
        cursor.spaces()
        at = cursor.at
        found = cursor.match(_OPERATOR)
        if found is None:
            if not asks:
                raise cursor.wrong("a comparison is missing", HINT)
            return lambda item, document, budget: left(item, document, budget) is not MISSING
        compare = _COMPARISONS.get(found[0])
        if compare is None:
            known = ", ".join(_COMPARISONS)
            raise cursor.wrong(f"`{found[0]}` is not supported in filters", f"supported: {known}", at)
        cursor.spaces()
        right = self._operand()
        cursor.spaces()

        def compared(item: Json, document: Json, budget: Budget) -> bool:
            budget.spend(1)
            return compare(left(item, document, budget), right(item, document, budget), budget)

        return compared

    def _operand(self) -> Operand:
        cursor = self._cursor
        if cursor.next in ("@", "$"):
            return self._path()
        value = self._literal()
        return lambda item, document, budget: value

    def _path(self) -> Operand:
        cursor = self._cursor
        of_item = cursor.next == "@"
        cursor.at += 1
        steps = self._steps(cursor)
        single = is_single(steps)

        def found(item: Json, document: Json, budget: Budget) -> Json:
            budget.spend(1 + len(steps))
            try:
                values = select(item if of_item else document, steps, budget)
            except NothingError:
                return MISSING
            if single:
                return values[0]
            return values or MISSING  # or that nothing is selected could not be asked

        return found

    def _literal(self) -> Json:
        cursor = self._cursor
        if cursor.next in ("'", '"'):
            return unescaped(cursor.quoted())
        if found := cursor.match(_NUMBER):
            return float(found[0]) if set(found[0]) & set(".eE") else int(found[0])
        if found := cursor.match(_WORD):
            return _WORDS[found[0]]
        if cursor.next == "[":
            return self._list()
        raise cursor.wrong("a filter compares paths, strings, numbers, true, false, null and lists", HINT)

    def _list(self) -> list[Json]:
        cursor = self._cursor
        cursor.deeper()
        cursor.at += 1
        items: list[Json] = []
        while not self._mark("]"):
            if items:
                cursor.expect(",", "separate the items of a list by commas")
                cursor.spaces()
            items.append(self._literal())
        cursor.shallower()
        return items

    def _mark(self, word: str) -> bool:
        self._cursor.spaces()
        taken = self._cursor.take(word)
        if taken:
            self._cursor.spaces()
        return taken


def _equal(left: Json, right: Json, budget: Budget) -> bool:
    if left is MISSING or right is MISSING:
        return False
    if isinstance(left, (list, dict)) and isinstance(right, (list, dict)):
        check_weight(left, budget)
        check_weight(right, budget)
    elif isinstance(left, (list, dict)) or isinstance(right, (list, dict)):
        return False
    return key_of(left) == key_of(right)


def _ordered(compare: Callable[[Json, Json], bool]) -> Compare:
    def compared(left: Json, right: Json, budget: Budget) -> bool:
        alike = (is_number(left) and is_number(right)) or (isinstance(left, str) and isinstance(right, str))
        return alike and compare(left, right)

    return compared


def _within(item: Json, items: Json, budget: Budget) -> bool:
    found: Sequence[Json] = items if isinstance(items, list) else ()
    budget.spend(len(found))
    return any(_equal(item, other, budget) for other in found)


def _contains(holder: Json, part: Json, budget: Budget) -> bool:
    if isinstance(holder, str):
        budget.spend_bytes(len(holder))
        return isinstance(part, str) and part in holder
    return _within(part, holder, budget)


def _sized(value: Json, size: Json, budget: Budget) -> bool:
    return isinstance(value, (str, list)) and is_number(size) and len(value) == size


def _emptiness(value: Json, wanted: Json, budget: Budget) -> bool:
    return isinstance(value, (str, list)) and isinstance(wanted, bool) and (not value) is wanted


_COMPARISONS: dict[str, Compare] = {
    "==": _equal,
    "!=": lambda left, right, budget: not _equal(left, right, budget),
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
    "in": _within,
    "nin": lambda item, items, budget: not _within(item, items, budget),
    "contains": _contains,
    "size": _sized,
    "empty": _emptiness,
}
