"""Evaluates the tree of a CEL expression within an exact budget of work and memory.

The library's own evaluator limits iterations but neither time nor memory. Measured on cel-expr-python 0.1.3:
`l.map(x, x)` over 5,000 items takes 1.4 s and 420 MB (quadratic), nested `replace` or `+` takes all memory and kills
the process, maps iterate in random order, and each returned null drops a reference to None, which finally aborts
Python 3.11. So the library only checks definitions.
One rule is wider than CEL: arithmetic mixes ints and doubles, because JSON does not distinguish 100 from 100.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from stepwell.definition.cel.ast import (
    Call,
    Const,
    Fold,
    Given,
    Ident,
    ListOf,
    Literal,
    MapOf,
    Message,
    Select,
    Tree,
    count,
)
from stepwell.definition.cel.functions import Function, function, missing_key
from stepwell.definition.cel.values import Budget, TypeName, Value, described
from stepwell.errors import ExpressionError


class Frame:
    """The variables and budget of one evaluation. Evaluations share nothing, so threads need no lock."""

    __slots__ = ("budget", "given", "names")

    def __init__(self, names: dict[str, Value], budget: Budget, given: Sequence[Literal] = ()) -> None:
        self.names = names
        self.budget = budget
        self.given = given  # the expression's own literals and fields, where others share its code


Code: TypeAlias = Callable[[Frame], Value]


def compile_tree(tree: Tree, variables: Iterable[str]) -> Code:
    """Compiles the tree to a function. Unbound identifiers outside `variables` are names of types."""
    return _code(tree, frozenset(variables))


def _code(tree: Tree, variables: frozenset[str]) -> Code:
    match tree:
        case Const(value=value):
            return lambda frame: value
        case Given():
            return lambda frame: tree.of(frame.given)
        case Ident(name=name):
            return _ident(name, variables)
        case Select():
            return _select(tree, variables)
        case Call():
            return _call(tree, variables)
        case ListOf(items=items):
            return _list([_code(item, variables) for item in items])
        case MapOf(entries=entries):
            return _map([(_code(key, variables), _code(value, variables)) for key, value in entries])
        case Fold():
            return _fold(tree, variables)
        case Message(name=name):
            raise ExpressionError(
                f"message literals such as {name}{{…}} are not supported", hint="write a map: {'a': 1}"
            )


def _ident(name: str, variables: frozenset[str]) -> Code:
    if name not in variables:
        type_value = TypeName(name)
        return lambda frame: type_value

    def ident(frame: Frame) -> Value:
        try:
            value = frame.names[name]
        except KeyError:
            raise ExpressionError(f"`{name}` has no value here", hint=_ABSENT.get(name)) from None
        if isinstance(value, ExpressionError):  # a loop's accumulator, see _advance
            raise value
        return value

    return ident


_ABSENT = {
    "error": "it is set when an attempt has failed",
    "branch": "it is set inside a fork",
    "event": "it is set in `match`, and in the output and the rules of a wait that an event has ended",
    "result": "it is set once a step has ended",
}


def _select(tree: Select, variables: frozenset[str]) -> Code:
    operand, named, test_only = _code(tree.operand, variables), tree.field, tree.test_only

    def select(frame: Frame) -> Value:
        owner = operand(frame)
        field = named if isinstance(named, str) else str(named.of(frame.given))
        if type(owner) is not dict:
            raise ExpressionError(
                f"`.{field}` needs a map on its left, not {described(owner)}",
                hint="guard it: x != null && x.y" if owner is None else None,
            )
        if test_only:
            return field in owner
        if field in owner:
            return owner[field]
        raise missing_key(field, owner)

    return select


def _list(items: list[Code]) -> Code:
    return lambda frame: [item(frame) for item in items]


def _map(entries: list[tuple[Code, Code]]) -> Code:
    def build(frame: Frame) -> Value:
        made: dict[str, Value] = {}
        for key, value in entries:
            name = key(frame)
            if not isinstance(name, str):
                raise ExpressionError(f"a key of a map must be a string, not {described(name)}", hint="{'a': 1}")
            made[name] = value(frame)
        return made

    return build


def _call(tree: Call, variables: frozenset[str]) -> Code:
    is_namespace = isinstance(tree.target, Ident) and tree.target.name in ("math", "strings")
    target = None if tree.target is None or is_namespace else tree.target
    args = [_code(arg, variables) for arg in ((target, *tree.args) if target is not None else tree.args)]
    if (lazy := _LAZY.get(tree.function)) is not None:
        return lazy(*args)
    apply: Function = function(tree.function, target is not None, len(args))
    if len(args) == 2:
        left, right = args
        return lambda frame: apply([left(frame), right(frame)], frame.budget)
    return lambda frame: apply([arg(frame) for arg in args], frame.budget)


def _truth(value: Value, symbol: str) -> bool:
    if value is True or value is False:
        return bool(value)
    raise ExpressionError(
        f"`{symbol}` needs true or false, not {described(value)}", hint="compare: x != null, size(x) > 0"
    )


def _either(symbol: str, decisive: bool) -> Callable[..., Code]:
    """Compiles `&&` (decided by false) or `||` (by true); a deciding side hides the other side's error."""

    def make(left: Code, right: Code) -> Code:
        def logic(frame: Frame) -> Value:
            try:
                if _truth(left(frame), symbol) is decisive:
                    return decisive
            except ExpressionError:
                if frame.budget.left >= 0 and right(frame) is decisive:
                    return decisive
                raise
            return _truth(right(frame), symbol)

        return logic

    return make


def _ternary(condition: Code, yes: Code, no: Code) -> Code:
    return lambda frame: yes(frame) if _truth(condition(frame), "?:") else no(frame)


def _not_strictly_false(inner: Code) -> Code:
    """Compiles a loop's condition, which continues unless the answer is certain."""

    def test(frame: Frame) -> Value:
        try:
            return inner(frame) is not False
        except ExpressionError:
            return True

    return test


_LAZY: dict[str, Callable[..., Code]] = {
    "_&&_": _either("&&", False),
    "_||_": _either("||", True),
    "_?_:_": _ternary,
    "@not_strictly_false": _not_strictly_false,
}


def _fold(tree: Fold, variables: frozenset[str]) -> Code:
    inner = variables | {tree.variable, tree.accumulator}
    source, start = _code(tree.range, variables), _code(tree.start, variables)
    condition, result = _code(tree.condition, inner), _code(tree.result, inner)
    step = _step(tree.step, tree.accumulator, inner)
    units = 1 + count(tree.step) + count(tree.condition)

    def fold(frame: Frame) -> Value:
        items = source(frame)
        if type(items) is not list and type(items) is not dict:
            raise ExpressionError(f"a loop needs a list or a map, not {described(items)}")
        scope = Frame({**frame.names, tree.accumulator: start(frame)}, frame.budget, frame.given)
        names = scope.names
        for item in items:
            frame.budget.spend(units)
            names[tree.variable] = item
            if condition(scope) is False:
                break
            names[tree.accumulator] = _advance(step, scope)
        return result(scope)

    return fold


def _advance(step: Code, scope: Frame) -> Value:
    """Computes the next accumulator. It keeps an error, because a later item of `exists` or `all` may decide."""
    try:
        return step(scope)
    except ExpressionError as error:
        if scope.budget.left < 0:
            raise
        return error


def _step(tree: Tree, accumulator: str, variables: frozenset[str]) -> Code:
    """Compiles a loop's step. `accumulator + [item]`, from map and filter, appends in place to avoid quadratic time.

    Each evaluation creates its accumulator under a name that users cannot write, so no other code holds it.
    """
    match tree:
        case Call(function="_+_", args=(Ident(name=name), ListOf(items=(item,)))) if name == accumulator:
            return _append(accumulator, _code(item, variables))
        case Call(function="_?_:_", args=(condition, yes, Ident(name=name))) if name == accumulator:
            chosen = _step(yes, accumulator, variables)
            return _ternary(_code(condition, variables), chosen, _code(Ident(name), variables))
    return _code(tree, variables)


def _append(accumulator: str, item: Code) -> Code:
    def append(frame: Frame) -> Value:
        made = frame.names[accumulator]
        if isinstance(made, ExpressionError):
            raise made
        made.append(item(frame))
        return made

    return append
