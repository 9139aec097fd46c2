"""JSONata expressions `{% … %}` of Amazon States Language: checked once, evaluated within limits, repeatable.

The library's compiled expressions belong to the thread that made them, and a function that is registered with one stays
there. So each evaluation compiles anew, which takes a few millionths of a second.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, Final

from stepwell.definition.asl.instants import milliseconds
from stepwell.definition.asl.jsonata_functions import CLOCK, MAX_ITEMS, PRELUDE, TIMED, hosts
from stepwell.definition.asl.jsonata_text import (
    line_and_column,
    mentioned,
    place_of_mistake,
    place_of_name,
    reads_error_output,
)
from stepwell.definition.graph import Json
from stepwell.definition.text import pointer_part
from stepwell.errors import ExpressionError
from stepwell.limits import JSON_DEPTH

BAD = "bad_expression"
FAILED = "query_evaluation_error"
# The limit of time is the last resort, far from what an expression needs: whoever meets it does so on every machine.
_LIMITS: Final = {"timeout": 1_000, "max_stack_depth": 1_000, "max_sequence_length": MAX_ITEMS}
_TOO_DEEP = f"its result is nested deeper than {JSON_DEPTH} levels"
_MAX_DEPTH = 200  # of a value with expressions, such as `Arguments`
_HOST_PREFIX = re.compile(r"^host function raised \w+: ")
_HINTS: Mapping[str, str] = {
    "D1011": "a function calls itself without an end; let its last action be the call, or use $reduce",
    "D1012": "it took longer than a second: a function calls itself for ever, or the data is too large for this",
    "D2014": f"a list has at most {MAX_ITEMS} items",
    "D2015": f"a list has at most {MAX_ITEMS} items",
    "T1006": "check the function's name; Step Functions adds $partition, $range, $hash, $uuid and $parse",
}
_UNDEFINED_HINT = "check the path, which begins with $states or a variable, or ask with $exists first"


class Jsonata:
    """One expression. It holds nothing that an evaluation changes, so that threads may share it."""

    __slots__ = ("_body", "_names", "reads_error", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._body = text[2:-2]
        self._names = mentioned(self._body)
        self.reads_error = reads_error_output(self._body)

    def __repr__(self) -> str:
        return f"Jsonata({self.text!r})"

    def value(self, states: Json, variables: Mapping[str, Json], seed: str = "") -> Json:
        """Returns the result, which is JSON. Raises ExpressionError: it failed, or it selects nothing."""
        bindings = {name: variables[name] for name in sorted(self._names) if name in variables}
        own = sorted(name for name in self._names if name in PRELUDE and name not in variables)
        if not TIMED.isdisjoint(own):
            bindings[CLOCK] = self._entered(states)
        if "states" in self._names:
            bindings["states"] = states
        source = f"({''.join(PRELUDE[name] for name in own)} ({self._body}))" if own else self._body

        def expression() -> Any:  # with chance from its beginning
            made = _library().compile(source)
            for name, function in hosts(own, seed).items():
                made.register(name, function)
            return made

        found = self._tried(lambda given: expression().evaluate_json_or_none(None, given, **_LIMITS), bindings)
        if found is None:
            raise self._failed("it selects nothing, and JSON cannot say that", _UNDEFINED_HINT)
        value = self._read(found)
        if "null" in found or '""' in found:  # which is also how functions and infinite numbers are written
            plain = self._tried(lambda given: expression().evaluate(None, given, **_LIMITS), bindings)
            self._check(value, plain)
        return value

    def _tried(self, evaluate: Callable[[dict[str, Json]], Any], bindings: dict[str, Json]) -> Any:
        try:
            try:
                return evaluate(bindings)
            except OverflowError:  # the library takes whole numbers of 64 bits
                return evaluate({name: _rounded(value) for name, value in bindings.items()})
        except Exception as error:
            raise self._failed(_HOST_PREFIX.sub("", str(error)), _HINTS.get(str(error)[:5])) from None
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # a defect of the library, with no better base
                raise
            raise self._failed(f"JSONata's library broke: {error}") from None

    def _read(self, text: str) -> Json:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise self._failed(_TOO_DEEP) from None
        if text.count("[") + text.count("{") > JSON_DEPTH and not _is_within(value, JSON_DEPTH):
            raise self._failed(_TOO_DEEP)
        return value

    def _check(self, value: Json, plain: Any) -> None:
        """Compares the result as JSON with the same in Python, where a function is None and infinity is infinite."""
        if isinstance(plain, list):
            for one, other in zip(value, plain, strict=True):
                self._check(one, other)
        elif isinstance(plain, dict):
            for key, other in plain.items():
                self._check(value[key], other)
        elif plain is None and value is not None:
            raise self._failed("its result has a function in it, which is no JSON", "call the function: `$name()`")
        elif isinstance(plain, float) and plain - plain != 0:
            raise self._failed(f"its result has the number {plain} in it, which is no JSON", "do not divide by 0")

    def _entered(self, states: Json) -> int:
        """Returns when the state was entered, which is what the time is for all of its expressions."""
        try:
            found = milliseconds(states["context"]["State"]["EnteredTime"])
        except (KeyError, TypeError, IndexError):
            found = None
        if found is None:
            raise self._failed("$now and $millis need $states.context.State.EnteredTime, which is not there")
        return found

    def _failed(self, message: str, hint: str | None = None) -> ExpressionError:
        return ExpressionError(f"{_short(self.text)}: {message[:1_000]}", code=FAILED, hint=hint)


def is_jsonata(text: str) -> bool:
    """Tells whether a text is an expression: all of it, from `{%` to `%}`."""
    return len(text) >= 4 and text.startswith("{%") and text.endswith("%}")


def compile_jsonata(text: str) -> Jsonata:
    """Checks one `{% … %}`. Raises ExpressionError with the place of a mistake."""
    if not is_jsonata(text):
        raise ExpressionError(f"{_short(text)} is no JSONata expression", code=BAD, hint="write {% … %}")
    body = text[2:-2]
    if (at := place_of_name(body, "eval")) is not None:
        message = f"{_short(text)}: Step Functions has no $eval, at {line_and_column(text, at + 2)}"
        raise ExpressionError(message, code=BAD, hint="$parse reads a text as JSON")
    if (wrong := _mistake(body)) is not None:
        raise _bad(text, body, wrong)
    return Jsonata(text)


def _bad(text: str, body: str, wrong: str) -> ExpressionError:
    at = None if not body.strip() else place_of_mistake(body, wrong, _mistake)
    place = "" if at is None else f", at {line_and_column(text, at + 2)}"
    hint = "write an expression between {% and %}" if not body.strip() else None
    if "U1002" in wrong:
        hint = "split the expression over several variables"
    elif at is not None and hint is None:
        here = body[at : at + 20].strip()
        hint = f"look at `{here}`" if here else "something is missing at the end"
    return ExpressionError(f"{_short(text)}: {wrong}{place}", code=BAD, hint=hint)


def _mistake(body: str) -> str | None:
    """Returns what the library says against an expression; None: nothing."""
    try:
        _library().compile(body)
    except ValueError as error:
        return str(error).removeprefix("Parse error: ").removeprefix("Invalid syntax: ")
    except ExpressionError:
        raise
    except BaseException as error:
        if type(error).__name__ not in ("PanicException", "UnicodeEncodeError"):
            raise
        return f"it cannot be read: {error}"
    return None


def _library() -> ModuleType:
    """Imports the library when the first expression needs it: most workflows have none."""
    try:
        import jsonatapy  # noqa: PLC0415
    except ImportError:
        message = "expressions in JSONata need jsonatapy, which is not installed"
        raise ExpressionError(message, code="missing_extra", hint="pip install 'stepwell[asl]'") from None
    return jsonatapy


def _rounded(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    is_long = isinstance(value, int) and not -(2**63) <= value < 2**63
    return float(value) if is_long else value


def _is_within(value: Json, levels: int) -> bool:
    """Tells whether a value is nested no deeper than this."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels >= 0 and all(_is_within(part, levels - 1) for part in parts)


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}…"


class Answer:
    """A value some of whose texts are expressions: what `Arguments`, `Output`, `Assign` and the like hold."""

    __slots__ = ("_made", "reads_error", "text")

    def __init__(self, value: Json) -> None:
        self.text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        self.reads_error = False
        self._made = self._compiled(value, "")

    def value(self, states: Json, variables: Mapping[str, Json], seed: str = "") -> Json:
        """Returns a new value with the result of each expression. Raises ExpressionError, which says where."""
        return _evaluated(self._made, "", (states, variables, seed))

    def _compiled(self, value: Json, path: str) -> Json:
        if isinstance(value, str) and is_jsonata(value):
            made = compile_jsonata(value)
            self.reads_error |= made.reads_error
            return made
        return _mapped(value, path, self._compiled)


def compile_answer(value: Json) -> Answer:
    """Checks a value any of whose texts may be an expression. Raises ExpressionError for the first bad one."""
    for path, error in answer_errors(value):
        raise _at(path, error)
    return Answer(value)


def answer_errors(value: Json, path: str = "") -> Iterator[tuple[str, ExpressionError]]:
    """Yields each bad text in a value with its JSON pointer."""
    if path.count("/") > _MAX_DEPTH:
        yield path, ExpressionError(f"values have at most {_MAX_DEPTH} levels", code=BAD, hint="make it flatter")
    elif isinstance(value, str) and is_jsonata(value):
        try:
            compile_jsonata(value)
        except ExpressionError as error:
            yield path, error
    elif isinstance(value, dict | list):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from answer_errors(one, f"{path}/{pointer_part(key)}")


def _evaluated(made: Json | Jsonata, path: str, given: tuple[Json, Mapping[str, Json], str]) -> Json:
    if not isinstance(made, Jsonata):
        return _mapped(made, path, lambda one, place: _evaluated(one, place, given))
    states, variables, seed = given
    try:
        return made.value(states, variables, f"{seed}{path}")  # two equal texts get different chances
    except ExpressionError as error:
        raise _at(path, error) from None


def _mapped(value: Json, path: str, change: Callable[[Json, str], Json]) -> Json:
    if isinstance(value, dict):
        return {key: change(one, f"{path}/{pointer_part(key)}") for key, one in value.items()}
    if isinstance(value, list):
        return [change(one, f"{path}/{index}") for index, one in enumerate(value)]
    return value


def _at(path: str, error: ExpressionError) -> ExpressionError:
    message = f"{path}: {error.message}" if path else error.message
    return ExpressionError(message, code=error.code, hint=error.hint)
