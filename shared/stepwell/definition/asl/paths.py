"""Paths of Amazon States Language: what they select, and where `ResultPath` puts a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from stepwell.definition.asl.cursor import Cursor
from stepwell.definition.asl.path_parse import PATH_HINT, Path, parse_path
from stepwell.definition.asl.path_steps import NothingError, follow, is_single, kind, select
from stepwell.definition.asl.weights import check_weight
from stepwell.definition.cel.values import Budget
from stepwell.definition.graph import Json
from stepwell.definition.text import closest, one_line
from stepwell.errors import ExpressionError
from stepwell.limits import JSON_DEPTH
from stepwell.values import dataclass


@dataclass(frozen=True, slots=True)
class Scope:
    """What a state's expressions read."""

    data: Json  # what `$` is
    context: Callable[[], Json]  # what `$$` is, made only when asked for
    variables: Mapping[str, Json]  # what `$name` is
    seed: str = ""  # of MathRandom and UUID, so that a decision that is made again is the same


class Query(Protocol):
    """A compiled path, intrinsic call or template."""

    @property
    def text(self) -> str:
        """The source, as the user wrote it."""

    def value(self, scope: Scope) -> Json:
        """What it makes. It may share the scope's values, so do not change it. Raises ExpressionError, nothing else."""


Code: TypeAlias = Callable[[Scope, Budget], Json]


class Compiled:
    """A query that evaluates within one budget of work."""

    __slots__ = ("code", "text")

    def __init__(self, text: str, code: Code) -> None:
        self.text, self.code = text, code

    def value(self, scope: Scope) -> Json:
        try:
            return self.code(scope, Budget())
        except ExpressionError:
            raise
        except Exception as error:  # any error must fail the state, not the worker
            raise ExpressionError(f"{type(error).__name__} while evaluating {one_line(self.text)}") from error


def compile_path(text: str) -> Query:
    """Compiles a path: `$.a[0]`, `$$.Execution.Id`, `$name.x`, or any JSONPath. Raises ExpressionError.

    One that can select many gives a list, which may be empty; others give the value, and fail without one.
    """
    cursor = Cursor(text)
    code = read_path(cursor)
    cursor.end(PATH_HINT)
    return Compiled(text, code)


def compile_reference(text: str) -> tuple[str | int, ...]:
    """Compiles the path at which `ResultPath` puts a result: keys and indexes alone. Raises ExpressionError."""
    cursor = Cursor(text)
    path = parse_path(cursor)
    cursor.end(PATH_HINT)
    keys = path.keys
    if path.root:
        what = "the context" if path.root == "$" else f"the variable ${path.root}"
        raise cursor.wrong(f"nothing can be put into {what} here", "write a path that begins with $.", 0)
    if keys is None or path.compute or any(isinstance(key, int) and key < 0 for key in keys):
        raise cursor.wrong("this is no place for one value", "write keys and indexes from 0 alone: $.a.b[0]", 0)
    if len(keys) > JSON_DEPTH:
        raise cursor.wrong(f"the path has more than {JSON_DEPTH} steps", "put the result less deep", 0)
    return keys


def put(data: Json, place: tuple[str | int, ...], value: Json) -> Json:
    """Returns a copy of the data with a value at a place; objects that are missing are made.

    What does not change is shared. Raises ExpressionError `result_path_failure`.
    """
    if not place:
        return value
    made = _opened(data, place, 0)
    holder = made
    for at, key in enumerate(place[:-1], 1):
        missing = isinstance(key, str) and key not in holder
        inner = _opened({} if missing else holder[key], place, at)
        holder[key] = inner
        holder = inner
    holder[place[-1]] = value
    return made


def read_path(cursor: Cursor) -> Code:
    """Reads a path as far as it goes, and compiles it."""
    began = cursor.at
    path = parse_path(cursor)
    text = cursor.text[began : cursor.at]
    root = _root(path.root, text)
    keys, compute, found = path.keys, path.compute, _many(path)

    def evaluate(scope: Scope, budget: Budget) -> Json:
        try:
            value = found(root(scope), budget) if keys is None else follow(root(scope), keys)
            return value if compute is None else compute(value)
        except NothingError as nothing:
            hint = "check what the state before gives, or test with IsPresent before"
            message = f"{one_line(text)} selects nothing: {nothing}"
            raise ExpressionError(message, code="parameter_path_failure", hint=hint) from None

    return evaluate


def _many(path: Path) -> Callable[[Json, Budget], Json]:
    single = is_single(path.steps)

    def found(node: Json, budget: Budget) -> Json:
        values = select(node, path.steps, budget)
        if single:
            return values[0]
        check_weight(values, budget)
        return values

    return found


def _root(name: str, text: str) -> Callable[[Scope], Json]:
    if not name:
        return lambda scope: scope.data
    if name == "$":
        return lambda scope: scope.context()

    def variable(scope: Scope) -> Json:
        if name in scope.variables:
            return scope.variables[name]
        message = f"there is no variable ${name}, which {one_line(text)} reads"
        hint = closest(name, scope.variables) or "assign it in a state before"
        raise ExpressionError(message, code="unknown_variable", hint=hint)

    return variable


def _opened(found: Json, place: Sequence[str | int], at: int) -> Json:
    """Returns a copy of the object or list that a step of the place goes into."""
    key = place[at]
    if isinstance(key, str) and isinstance(found, dict):
        return {**found}
    if isinstance(key, int) and isinstance(found, list) and key < len(found):
        return [*found]
    if isinstance(key, int) and isinstance(found, list):
        problem = f"the list has {len(found)} items, and no index {key}"
    else:
        problem = f"there is {kind(found)} where {'an object' if isinstance(key, str) else 'a list'} is needed"
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    raise ExpressionError(
        f"the result cannot be put at {one_line('$' + where)}: {problem}",
        code="result_path_failure",
        hint="choose another ResultPath, or make the object in a state before",
    )
