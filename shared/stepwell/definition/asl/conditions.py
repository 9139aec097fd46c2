"""Choice rules in JSONPath: `Variable` with one comparator, and And, Or, Not of such rules."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from stepwell.definition.asl.instants import instant
from stepwell.definition.asl.paths import Query, Scope, compile_path
from stepwell.definition.graph import Json
from stepwell.definition.text import closest
from stepwell.errors import ExpressionError
from stepwell.values import dataclass

BAD = "bad_expression"
MISSING = "parameter_path_failure"
MAX_DEPTH = 30  # of And, Or and Not in each other
_OF_STATE = ("Next", "Assign", "Output")  # of a rule that is not inside another
_JOINS = ("And", "Or", "Not")
_RELATIONS: Mapping[str, Callable[[Json, Json], bool]] = {
    "Equals": operator.eq,
    "LessThan": operator.lt,
    "GreaterThan": operator.gt,
    "LessThanEquals": operator.le,
    "GreaterThanEquals": operator.ge,
}
_PIECES = re.compile(r"\\[*\\]|\*|[^*\\]+|\\", re.DOTALL)


class Condition(Protocol):
    """What a rule asks. `text` is the rule as JSON."""

    @property
    def text(self) -> str: ...

    def holds(self, scope: Scope) -> bool:
        """Tells whether the rule matches. Raises ExpressionError: a path selects nothing."""


def _number(value: Json) -> Json:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _text(value: Json) -> Json:
    return value if isinstance(value, str) else None


def _boolean(value: Json) -> Json:
    return value if isinstance(value, bool) else None


# By the beginning of a comparator: what a value of its type is compared by, which is None for values of other types.
_TYPES: Mapping[str, tuple[str, Callable[[Json], Json]]] = {
    "String": ("a string", _text),
    "Numeric": ("a number", _number),
    "Boolean": ("true or false", _boolean),
    "Timestamp": ("a timestamp such as 2030-01-31T12:00:00Z", instant),
}
_TESTS: Mapping[str, Callable[[Json], bool]] = {
    "IsNull": lambda value: value is None,
    "IsPresent": lambda value: True,
    "IsNumeric": lambda value: _number(value) is not None,
    "IsString": lambda value: isinstance(value, str),
    "IsBoolean": lambda value: isinstance(value, bool),
    "IsTimestamp": lambda value: instant(value) is not None,
}


@dataclass(frozen=True, slots=True)
class _Comparison:
    """How a comparator of two values compares: `key` gives None for a value of another type, which never matches."""

    wanted: str
    key: Callable[[Json], Json]
    relation: Callable[[Json, Json], bool]
    by_path: bool

    def matches(self, left: Json, right: Json) -> bool:
        one, other = self.key(left), self.key(right)
        return one is not None and other is not None and self.relation(one, other)


def _comparisons() -> dict[str, _Comparison]:
    found = {}
    for kind, (wanted, key) in _TYPES.items():
        for name, relation in _RELATIONS.items():
            if kind != "Boolean" or name == "Equals":
                found[f"{kind}{name}"] = _Comparison(wanted, key, relation, by_path=False)
                found[f"{kind}{name}Path"] = _Comparison(wanted, key, relation, by_path=True)
    return found


_COMPARISONS: Mapping[str, _Comparison] = _comparisons()
_COMPARATORS = (*_COMPARISONS, "StringMatches", *_TESTS)


@dataclass(frozen=True, slots=True)
class _Compared:
    text: str
    variable: Query
    comparison: _Comparison
    operand: Json | Query

    def holds(self, scope: Scope) -> bool:
        left = self.variable.value(scope)
        right = self.operand.value(scope) if self.comparison.by_path else self.operand
        return self.comparison.matches(left, right)


@dataclass(frozen=True, slots=True)
class _Matched:
    text: str
    variable: Query
    pieces: tuple[str, ...]  # between the asterisks

    def holds(self, scope: Scope) -> bool:
        value = self.variable.value(scope)
        return isinstance(value, str) and _fits(value, self.pieces)


@dataclass(frozen=True, slots=True)
class _Tested:
    text: str
    variable: Query
    test: str
    expected: bool

    def holds(self, scope: Scope) -> bool:
        try:
            value = self.variable.value(scope)
        except ExpressionError as error:
            if self.test != "IsPresent" or error.code != MISSING:
                raise
            return not self.expected
        return _TESTS[self.test](value) is self.expected


@dataclass(frozen=True, slots=True)
class _Joined:
    text: str
    join: str
    members: tuple[Condition, ...]

    def holds(self, scope: Scope) -> bool:
        found = (member.holds(scope) for member in self.members)
        if self.join == "Not":
            return not next(found)
        return all(found) if self.join == "And" else any(found)


def compile_condition(rule: Mapping[str, Json], path: str = "") -> Condition:
    """Compiles a rule without its Next, Assign, Output and Comment. Raises ExpressionError for the first mistake."""
    for _, error in condition_errors(rule, path):
        raise error
    return _compiled(rule)


def _compiled(rule: Mapping[str, Json]) -> Condition:
    name = next(key for key in rule if key not in ("Variable", "Comment"))
    operand, text = rule[name], json.dumps(rule, ensure_ascii=False)
    if name in _JOINS:
        members = [operand] if name == "Not" else operand
        return _Joined(text, name, tuple(_compiled(member) for member in members))
    variable = compile_path(rule["Variable"])
    if name in _TESTS:
        return _Tested(text, variable, name, operand)
    if name == "StringMatches":
        return _Matched(text, variable, _pieces(operand))
    comparison = _COMPARISONS[name]
    return _Compared(text, variable, comparison, compile_path(operand) if comparison.by_path else operand)


def _pieces(pattern: str) -> tuple[str, ...]:
    """Splits a pattern at its asterisks. `\\*` is an asterisk itself and `\\\\` a backslash."""
    pieces = [""]
    for piece in _PIECES.findall(pattern):
        if piece == "*":
            pieces.append("")
        else:
            pieces[-1] += piece[1:] if len(piece) == 2 and piece[0] == "\\" else piece
    return tuple(pieces)


def _fits(value: str, pieces: Sequence[str]) -> bool:
    """Looks for each piece behind the one before it: the first place is always as good as a later one."""
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return value == first
    end = len(value) - len(last)
    if end < len(first) or not value.startswith(first) or not value.endswith(last):
        return False
    at = len(first)
    for piece in pieces[1:-1]:
        found = value.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


# -- mistakes


def condition_errors(rule: Mapping[str, Json], path: str = "") -> Iterator[tuple[str, ExpressionError]]:
    """Yields what is wrong in a rule, each with its JSON pointer."""
    yield from _errors(rule, path, 0)


def _errors(rule: Json, path: str, depth: int) -> Iterator[tuple[str, ExpressionError]]:
    if not isinstance(rule, Mapping):
        yield path, _bad(f"a rule is an object, not {_shown(rule)}", 'write {"Variable": …, "StringEquals": …}')
        return
    if depth > MAX_DEPTH:
        yield path, _bad(f"rules have at most {MAX_DEPTH} levels of And, Or and Not", "join them in fewer lists")
        return
    names = [name for name in rule if name not in ("Variable", "Comment")]
    unknown = [name for name in names if name not in _COMPARATORS and name not in _JOINS]
    for name in unknown:
        yield f"{path}/{name}", _unknown(name)
    if unknown:
        return
    if len(names) != 1:
        yield path, _not_one(names)
    elif names[0] in _JOINS:
        yield from _join_errors(rule, names[0], path, depth)
    else:
        yield from _variable_errors(rule, path)
        yield from _operand_errors(names[0], rule[names[0]], f"{path}/{names[0]}")


def _unknown(name: str) -> ExpressionError:
    if name in _OF_STATE:
        return _bad(f"a rule inside another has no {name}", "write it beside And, Or or Not")
    if name == "Condition":
        return _bad("Condition is for JSONata; this state's query language is JSONPath", "write QueryLanguage: JSONata")
    return _bad(f"no comparator is called {name}", closest(name, (*_COMPARATORS, *_JOINS, "Variable")) or None)


def _not_one(names: Sequence[str]) -> ExpressionError:
    if not names:
        return _bad("this rule compares nothing", "add a comparator, such as StringEquals, or And, Or, Not")
    listed = ", ".join(names)
    return _bad(f"a rule has one comparator, not {len(names)}: {listed}", "write one rule for each, in a list And")


def _join_errors(rule: Mapping[str, Json], join: str, path: str, depth: int) -> Iterator[tuple[str, ExpressionError]]:
    here, operand = f"{path}/{join}", rule[join]
    if "Variable" in rule:
        yield f"{path}/Variable", _bad(f"a rule with {join} has no Variable", "write it in the rules inside")
    if join == "Not":
        yield from _errors(operand, here, depth + 1)
    elif not isinstance(operand, list) or not operand:
        yield here, _bad(f"{join} takes a list of one rule or more, not {_shown(operand)}")
    else:
        for index, member in enumerate(operand):
            yield from _errors(member, f"{here}/{index}", depth + 1)


def _variable_errors(rule: Mapping[str, Json], path: str) -> Iterator[tuple[str, ExpressionError]]:
    if "Variable" not in rule:
        yield path, _bad("this rule has no Variable", 'say which value it compares: "Variable": "$.status"')
    else:
        yield from _path_errors(rule["Variable"], f"{path}/Variable")


def _operand_errors(name: str, operand: Json, path: str) -> Iterator[tuple[str, ExpressionError]]:
    if name in _TESTS or name == "StringMatches":
        kind = bool if name in _TESTS else str
        if not isinstance(operand, kind):
            wanted = "true or false" if kind is bool else "a string"
            yield path, _bad(f"{name} takes {wanted}, not {_shown(operand)}")
        return
    comparison = _COMPARISONS[name]
    if comparison.by_path:
        yield from _path_errors(operand, path)
    elif comparison.key(operand) is None:
        hint = f"{name}Path takes a path" if isinstance(operand, str) and operand.startswith("$") else None
        yield path, _bad(f"{name} takes {comparison.wanted}, not {_shown(operand)}", hint)


def _path_errors(text: Json, path: str) -> Iterator[tuple[str, ExpressionError]]:
    if not isinstance(text, str):
        yield path, _bad(f"a path is a string, not {_shown(text)}", 'write "$.name"')
        return
    try:
        compile_path(text)
    except ExpressionError as error:
        yield path, error


def _bad(message: str, hint: str | None = None) -> ExpressionError:
    return ExpressionError(message, code=BAD, hint=hint)


def _shown(value: Json) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "this"
    return text if len(text) <= 40 else f"{text[:37]}…"
