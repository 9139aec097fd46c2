"""Compiles CEL conditions and `{{ … }}` templates to the `Expression` protocol of the graph.

`cel.compile` parses and checks types; `cel_eval` evaluates within a budget. A compiled expression has no state, so
threads may share it.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from stepwell.definition.cel.compile import STRINGS, Compiled, bare, compile_source
from stepwell.definition.compiled import Collection, Expression
from stepwell.definition.formats.variables import SOURCES, Lookup, lookup_of, variable, words_of
from stepwell.definition.graph import Json
from stepwell.definition.text import compact_json, one_line, pointer_part
from stepwell.errors import ExpressionError
from stepwell.limits import EXPRESSION_CHARACTERS

if TYPE_CHECKING:
    from stepwell.definition.cel.ast import Given, Literal
    from stepwell.definition.cel.values import Budget

T = TypeVar("T")

NAMES = ("input", "state", "steps", "result", "error", "branch", "event", "run", "now")

_OPEN, _CLOSE = "{{", "}}"
_NONE = frozenset[tuple[str, ...]]()


class CelExpression:
    """One CEL expression."""

    __slots__ = ("_code", "_given", "_variables", "members", "names", "reads_error", "state", "steps", "text")

    def __init__(self, text: str, source: str, names: tuple[str, ...], variables: frozenset[str] = frozenset()) -> None:
        compiled, given = compile_source(source, (*names, *sorted(variables)))
        self.text = text
        self._code, self._given = compiled.code, given
        self._variables = compiled.names & variables
        self.names = compiled.names - self._variables | SOURCES if self._variables else compiled.names
        self.state = _own(compiled.state, given)
        self.reads_error = "error" in self.names or "_last_error" in self.state
        self.steps = _own(compiled.steps, given)
        self.members = _members(compiled, given)

    def evaluate(self, names: Mapping[str, Json]) -> Json:
        from stepwell.definition.cel.values import Budget  # noqa: PLC0415 - loads the library: only when needed

        return self.evaluate_within(names, Budget())

    def evaluate_within(self, names: Mapping[str, Json], budget: Budget) -> Json:
        """Evaluates, and charges the work and the size of the result to a shared budget."""
        from stepwell.definition.cel.values import to_json  # noqa: PLC0415 - see above

        return self._computed(names, budget, lambda made: to_json(made, budget))

    def items(self, names: Mapping[str, Json]) -> Sequence[Json]:
        from stepwell.definition.cel.values import Budget, Items  # noqa: PLC0415 - see above

        return self._computed(names, Budget(), Items)

    def _computed(self, names: Mapping[str, Json], budget: Budget, finish: Callable[[Any], T]) -> T:
        from stepwell.definition.cel.eval import Frame  # noqa: PLC0415 - see above

        try:
            scope = {name: names[name] for name in self.names if name in names}
            if "now" in scope:
                scope["now"] = _timestamp(scope["now"])
            if self._variables:
                scope |= {name: variable(scope, name) for name in self._variables}
            return finish(self._code(Frame(scope, budget, self._given)))
        except ExpressionError as error:
            raise ExpressionError(f"{error.message}, in {one_line(self.text)}", hint=error.hint) from None
        except Exception as error:  # any error must fail the node, not the worker
            raise ExpressionError(f"{type(error).__name__} while evaluating {one_line(self.text)}") from error


Part: TypeAlias = CelExpression | Lookup  # the content of {{ }}


class Constant:
    """A template without `{{ }}`. All evaluations share its value, so callers must not change it."""

    __slots__ = ("names", "reads_error", "state", "steps", "text", "value")

    def __init__(self, value: Json, text: str) -> None:
        self.value = value
        self.text = text
        self.names: frozenset[str] = frozenset()
        self.state = self.steps = frozenset[str]()
        self.reads_error = False

    def evaluate(self, names: Mapping[str, Json]) -> Json:
        return self.value

    def items(self, names: Mapping[str, Json]) -> Sequence[Json]:
        return _items_of(self.value)


class Template:
    """A JSON value some of whose strings contain `{{ }}`."""

    __slots__ = ("_build", "members", "names", "reads_error", "state", "steps", "text")

    def __init__(self, text: str, parts: list[Part], build: Callable[[Mapping[str, Json], Budget], Json]) -> None:
        self.text = text
        self.names = frozenset[str]().union(*(part.names for part in parts))
        self.state = frozenset[str]().union(*(part.state for part in parts))
        self.steps = frozenset[str]().union(*(part.steps for part in parts))
        self.members = _NONE.union(*[members_read(part) for part in parts])
        self.reads_error = any(part.reads_error for part in parts)
        self._build = build

    def evaluate(self, names: Mapping[str, Json]) -> Json:
        from stepwell.definition.cel.values import Budget  # noqa: PLC0415 - see above

        return self._build(names, Budget())

    def items(self, names: Mapping[str, Json]) -> Sequence[Json]:
        return _items_of(self.evaluate(names))


def compile_expression(text: str, names: tuple[str, ...] = NAMES, *, variables: bool = False) -> Collection:
    """Compiles a CEL expression over `names`, with or without `{{ }}`. `variables`: other names are variables.

    Raises ExpressionError: `bad_expression`, `unknown_name`, …
    """
    trimmed = text.strip()
    source = trimmed
    if trimmed.startswith(_OPEN) and _end_of_expression(trimmed, 2) == len(trimmed) - 2:
        source = trimmed[2:-2].strip()
    return _expression(text, source, names, variables=variables)


def compile_template(value: Json, *, variables: bool = False) -> Collection:
    """Compiles a JSON value whose strings may contain `{{ }}`. A string that is one template keeps the value's type.

    `variables`: unknown names are variables, and null is empty inside text.
    """
    parts: list[Part] = []
    build = _template(value, parts, variables)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return Template(text, parts, build) if build is not None else Constant(value, text)


def template_pieces(text: str) -> list[str | CelExpression]:
    """Splits text into literals and `{{ }}` expressions, without variables. Raises ExpressionError."""
    return [piece for piece in _pieces(text) if not isinstance(piece, Lookup)]


def template_errors(value: Json, path: str = "", *, variables: bool = False) -> Iterator[tuple[str, ExpressionError]]:
    """Yields every string of a template that does not compile, with its JSON pointer."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from template_errors(item, f"{path}/{pointer_part(key)}", variables=variables)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from template_errors(item, f"{path}/{index}", variables=variables)
    elif isinstance(value, str):
        try:
            _template(value, [], variables)
        except ExpressionError as error:
            yield path, error


def steps_read(expression: Expression) -> frozenset[str]:
    """Returns the node names that an expression reads as `steps.<name>`."""
    return getattr(expression, "steps", frozenset())


def state_read(expression: Expression) -> frozenset[str]:
    """Returns the names that an expression reads as `state.<name>`."""
    return getattr(expression, "state", frozenset())


def members_read(expression: Expression | Part) -> frozenset[tuple[str, ...]]:
    """Returns what an expression reads as `run.<name>` and `steps.<node>.<name>`: `(run, name)`, `(steps, node, name)`.

    A missing variable of the format `actions` is null, so its lookups have none.
    """
    return getattr(expression, "members", _NONE)


def _items_of(value: Json) -> Sequence[Json]:
    from stepwell.definition.cel.values import Items  # noqa: PLC0415 - see above

    return Items(value)


def _expression(text: str, source: str, names: tuple[str, ...] = NAMES, *, variables: bool = False) -> CelExpression:
    if len(source) > EXPRESSION_CHARACTERS:
        raise ExpressionError(
            f"the expression has {len(source)} characters; {EXPRESSION_CHARACTERS} are allowed",
            code="expression_too_long",
            hint="compute it in a step",
        )
    if not source:
        raise ExpressionError("the expression is empty", hint="write a CEL expression, for example result.amount > 100")
    return CelExpression(text, source, names, words_of(bare(source)) - {*names} if variables else frozenset())


def _own(members: frozenset[str | Given], given: Sequence[Literal]) -> frozenset[str]:
    """Returns the names of an expression's members."""
    if not members:
        return frozenset()
    found = [member if isinstance(member, str) else member.of(given) for member in members]
    return frozenset([name for name in found if isinstance(name, str)])


def _members(compiled: Compiled, given: Sequence[Literal]) -> frozenset[tuple[str, ...]]:
    """Returns what `members_read` returns of an expression."""
    if not (compiled.run or compiled.of_steps):
        return _NONE
    paths = [("run", name) for name in compiled.run] + [("steps", *pair) for pair in compiled.of_steps]
    found = [[one if isinstance(one, str) else one.of(given) for one in path] for path in paths]
    names = [tuple(name for name in path if isinstance(name, str)) for path in found]
    return frozenset(named for named, path in zip(names, paths, strict=True) if len(named) == len(path))


def _timestamp(value: Json) -> Any:
    """Converts `now`, ISO 8601 text or milliseconds, to a CEL timestamp."""
    if isinstance(value, str):
        moment = datetime.datetime.fromisoformat(value)
        return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return datetime.datetime.fromtimestamp(value / 1000, datetime.UTC)
    return value


def _template(value: Json, parts: list[Part], variables: bool) -> Callable[[Mapping[str, Json], Budget], Json] | None:
    """Returns a function that builds the value, or None if it is constant. Adds the expressions to `parts`."""
    if isinstance(value, str):
        return _text_template(value, parts, variables) if _OPEN in value else None
    if isinstance(value, dict):
        built = {key: _template(item, parts, variables) for key, item in value.items()}
        if not any(built.values()):
            return None
        return lambda names, budget: {
            key: value[key] if build is None else build(names, budget) for key, build in built.items()
        }
    if isinstance(value, list):
        items = [(item, _template(item, parts, variables)) for item in value]
        if all(build is None for _, build in items):
            return None
        return lambda names, budget: [item if build is None else build(names, budget) for item, build in items]
    return None


def _text_template(text: str, parts: list[Part], variables: bool) -> Callable[[Mapping[str, Json], Budget], Json]:
    pieces = list(_pieces(text, variables))
    found = [piece for piece in pieces if not isinstance(piece, str)]
    parts.extend(found)
    if len(found) == 1 and all(piece is found[0] or not str(piece).strip() for piece in pieces):
        return found[0].evaluate_within

    def join(names: Mapping[str, Json], budget: Budget) -> Json:
        return "".join(
            piece if isinstance(piece, str) else _as_text(piece.evaluate_within(names, budget), variables)
            for piece in pieces
        )

    return join


def _pieces(text: str, variables: bool = False) -> Iterator[str | Part]:
    at = 0
    while (start := text.find(_OPEN, at)) >= 0:
        if start > at:
            yield text[at:start]
        end = _end_of_expression(text, start + 2)
        if end < 0:
            raise ExpressionError(f"{one_line(text)} has {{{{ without }}}}", hint="close the template with }}")
        whole, source = text[start : end + 2], text[start + 2 : end].strip()
        lookup = lookup_of(whole, source, NAMES) if variables else None
        yield lookup or _expression(whole, source, variables=variables)
        at = end + 2
    if at < len(text):
        yield text[at:]


def _end_of_expression(text: str, at: int) -> int:
    """Finds the `}}` that closes a template, outside strings and map literals."""
    depth = 0
    while at < len(text):
        if text[at] in "'\"rR" and (literal := STRINGS.match(text, at)):
            at = literal.end()
            continue
        if depth == 0 and text.startswith(_CLOSE, at):
            return at
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return -1


def _as_text(value: Json, nothing_is_empty: bool = False) -> str:
    if value is None and nothing_is_empty:
        return ""
    return value if isinstance(value, str) else compact_json(value)
