"""What a call may call where the code chooses: `(clock or time.time)()`, `CLOCKS[kind]()`, `CLOCKS.get(kind)()`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from stepwell.definition.code.full_names import MOST_HOPS, Variables
from stepwell.definition.code.modules import Module
from stepwell.values import dataclass

_LOOKUPS = frozenset({"get", "pop", "setdefault"})


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the expressions, the module that it stands in, and the variables that it may name."""

    module: Module
    value: ast.expr
    variables: Variables


ValueOf = Callable[[Choice], Choice | None]  # what a name was given


def choices(one: Choice, value_of: ValueOf) -> Iterator[Choice]:
    """Yields the values that an expression chooses from; nothing if it chooses none."""
    return (found for found in _choices(one, value_of, MOST_HOPS) if found.value is not one.value)


def _choices(one: Choice, value_of: ValueOf, hops: int) -> Iterator[Choice]:
    found = value_of(one) if isinstance(one.value, ast.Name | ast.Attribute) else None
    if hops <= 0:
        return
    if found is not None and isinstance(found.value, ast.BoolOp | ast.IfExp | ast.Subscript):
        yield from _choices(found, value_of, hops - 1)
        return
    parts = list(_parts(one, value_of))
    for part in parts:
        yield from _choices(part, value_of, hops - 1)
    if not parts:
        yield one


def _parts(one: Choice, value_of: ValueOf) -> Iterator[Choice]:
    match one.value:
        case ast.BoolOp(values=values):
            yield from _beside(one, values)
        case ast.IfExp(body=body, orelse=other):
            yield from _beside(one, [body, other])
        case ast.NamedExpr(value=value):
            yield from _beside(one, [value])
        case ast.Subscript(value=container):
            yield from _held(Choice(one.module, container, one.variables), value_of)
        case ast.Call(func=ast.Attribute(value=container, attr=attr), args=[_, *defaults]) if attr in _LOOKUPS:
            held = list(_held(Choice(one.module, container, one.variables), value_of))
            yield from (*held, *_beside(one, defaults if held else []))
        case _:
            return


def _held(container: Choice, value_of: ValueOf) -> Iterator[Choice]:
    """What a dict, list or tuple holds that is written out."""
    found = value_of(container) or container
    match found.value:
        case ast.Dict(values=values) | ast.List(elts=values) | ast.Tuple(elts=values):
            yield from _beside(found, values)
        case _:
            return


def _beside(one: Choice, values: list[ast.expr]) -> Iterator[Choice]:
    return (Choice(one.module, value, one.variables) for value in values)
