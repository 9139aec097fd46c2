"""Compiles what stands behind a key `name.$`: a path, or a call like `States.Format('a {}', $.x)`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from stepwell.definition.asl.cursor import Cursor, unescaped
from stepwell.definition.asl.intrinsic_functions import FUNCTIONS, Function, holes
from stepwell.definition.asl.paths import Code, Compiled, Query, Scope, read_path
from stepwell.definition.asl.weights import check_weight
from stepwell.definition.cel.values import Budget
from stepwell.definition.graph import Json
from stepwell.definition.text import closest
from stepwell.errors import ExpressionError

HINT = "write a path like $.order.id, or a call like States.Format('Hello, {}', $.name)"
_ARGUMENTS = "arguments are paths, 'strings', numbers, true, false, null and calls"
_FORMAT = "States.Format"

_CALL = re.compile(r"[A-Za-z_][\w.]*(?=\s*\()")
_WORD = re.compile(r"(?:true|false|null)(?!\w)")
_WORDS = {"true": True, "false": False, "null": None}
_NUMBER = re.compile(r"-?\d{1,100}(?:\.\d{1,100})?(?:[eE][+-]?\d{1,2})?(?![\w.])")
_BAD_ESCAPE = re.compile(r"(?:\\['{}\\]|[^\\])*\\(?!['{}\\])", re.S)


def compile_value(text: str) -> Query:
    """Compiles a path or a call of an intrinsic function. Raises ExpressionError."""
    return Compiled(text, value_code(text))


def value_code(text: str, place: str = "") -> Code:
    """Compiles as `compile_value` does. The same call at two places draws two random values."""
    cursor = Cursor(text)
    if cursor.next == "$":
        code = read_path(cursor)
    elif found := cursor.match(_CALL):
        code = _CallParser(cursor, place).call(found[0], found.start())
    else:
        raise cursor.wrong("this is neither a path nor a call", HINT)
    cursor.end(HINT)
    return code


class _CallParser:
    """Reads a call, and the calls in its arguments."""

    def __init__(self, cursor: Cursor, place: str) -> None:
        self._cursor, self._place = cursor, place

    def call(self, name: str, began: int) -> Code:
        """Reads the arguments of a call whose name is read."""
        cursor = self._cursor
        function = FUNCTIONS.get(name)
        if function is None:
            hint = (
                closest(f"States.{name.removeprefix('States.')}", FUNCTIONS)
                or "the names begin with States., as States.Format"
            )
            raise cursor.wrong(f"there is no intrinsic function `{name}`", hint, began)
        cursor.deeper()
        arguments = self._arguments(name)
        cursor.shallower()
        if len(arguments) < function.least or (function.most is not None and len(arguments) > function.most):
            message = f"{name} has {len(arguments)} argument{'s' * (len(arguments) != 1)}"
            raise cursor.wrong(message, f"it takes {_takes(function)}", began)
        place = f"{self._place}:{cursor.text}:{began}"
        return _call_code(name, function, arguments, place)

    def _arguments(self, name: str) -> list[Code]:
        cursor = self._cursor
        cursor.spaces()
        cursor.expect("(", HINT)
        cursor.spaces()
        first = _literal(cursor) if name == _FORMAT and cursor.next == "'" else None
        arguments: list[Code] = [] if first is None else [_constant(first)]
        while not self._closed():
            if arguments:
                cursor.expect(",", "separate arguments by commas, and end them with )")
                cursor.spaces()
            arguments.append(self._argument())
        if first is not None and holes(first) != len(arguments) - 1:
            message = f"the template has {holes(first)} {{}} for {len(arguments) - 1} values"
            raise cursor.wrong(message, "give a value for each {}; a brace itself is \\{ or \\}")
        return arguments

    def _closed(self) -> bool:
        self._cursor.spaces()
        return self._cursor.take(")")

    def _argument(self) -> Code:
        cursor = self._cursor
        at = cursor.at
        if cursor.next == "$":
            return read_path(cursor)
        if cursor.next == "'":
            return _constant(unescaped(_literal(cursor)))
        if found := cursor.match(_NUMBER):
            return _constant(float(found[0]) if set(found[0]) & set(".eE") else int(found[0]))
        if found := cursor.match(_WORD):
            return _constant(_WORDS[found[0]])
        if found := cursor.match(_CALL):
            return self.call(found[0], at)
        hint = "write strings in single quotes" if cursor.next == '"' else _ARGUMENTS
        raise cursor.wrong("an argument is missing or not known", hint)


def _literal(cursor: Cursor) -> str:
    """Reads a string, with its escapes as written."""
    began = cursor.at
    text = cursor.quoted()
    if bad := _BAD_ESCAPE.match(text):
        raise cursor.wrong("this escape is not known", r"known are \' \{ \} and \\", began + bad.end())
    return text


def _constant(value: Json) -> Code:
    return lambda scope, budget: value


def _call_code(name: str, function: Function, arguments: Sequence[Code], place: str) -> Code:
    compute: Callable[..., Json] = function.compute

    def code(scope: Scope, budget: Budget) -> Json:
        given = [argument(scope, budget) for argument in arguments]
        seed = (f"{scope.seed}:{place}",) if function.seeded else ()
        try:
            if not function.looks:
                check_weight(given, budget, depth=-1)
            made = compute(*seed, *given)
            if not function.looks:
                check_weight(made, budget)
        except ExpressionError as error:
            raise ExpressionError(f"{name}: {error.message}", code="intrinsic_failure", hint=error.hint) from None
        except ValueError as error:  # text that is no Unicode
            raise ExpressionError(f"{name}: {error}", code="intrinsic_failure") from None
        return made

    return code


def _takes(function: Function) -> str:
    if function.most is None:
        return f"{function.least} or more"
    if function.least == function.most:
        return f"{function.least}"
    return f"{function.least} or {function.most}"
