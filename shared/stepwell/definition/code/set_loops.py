"""Loops over sets, whose order differs from process to process."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

Elsewhere: TypeAlias = Callable[[ast.expr], ast.expr | None]  # what a module gives to a name that is no variable

_UNORDERED = frozenset({"sorted", "sum", "len", "min", "max", "any", "all", "set", "frozenset"})
_ORDERED = frozenset({"list", "tuple", "enumerate", "iter", "zip", "map", "filter", "deque"})
_METHODS = frozenset({"union", "intersection", "difference", "symmetric_difference", "copy"})


def loops_over_sets(nodes: Iterable[ast.AST], elsewhere: Elsewhere) -> Iterator[ast.expr]:
    """Yields what is gone through in no order, as far as the text tells that it is a set."""
    several = list(nodes)
    names = _set_names(several)
    harmless = {id(part) for node in several for part in _in_any_order(node)}
    for node in several:
        if id(node) not in harmless:
            yield from (one for one in _gone_through(node) if _is_set(one, names) or _is_set_of(elsewhere(one)))


def _is_set_of(value: ast.expr | None) -> bool:
    return value is not None and _is_set(value, frozenset())


def _gone_through(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.For(iter=one) | ast.AsyncFor(iter=one) | ast.Starred(value=one) | ast.YieldFrom(value=one):
            return [one]
        case ast.ListComp(generators=several) | ast.GeneratorExp(generators=several) | ast.DictComp(generators=several):
            return [one.iter for one in several]
        case ast.Call(func=ast.Name(name), args=args) if name in _ORDERED:
            return args
        case ast.Call(func=ast.Attribute(attr="join" | "fromkeys" | "extend" | "as_completed"), args=args):
            return args
        case ast.Call(func=ast.Attribute(value=of, attr="pop"), args=[]):
            return [of]
        case ast.Call(func=ast.Attribute(value=ast.Name("ctx"), attr="map"), args=[_, items, *_]):
            return [items]
        case _:
            return []


def _in_any_order(node: ast.AST) -> list[ast.expr]:
    """What a call takes in whatever order it comes."""
    match node:
        case ast.Call(func=ast.Name(name), args=args) if name in _UNORDERED:
            return args
        case _:
            return []


def _set_names(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Local names that every assignment makes a set."""
    values: dict[str, list[ast.expr]] = {}
    for node in nodes:
        match node:
            case (
                ast.Assign(targets=[ast.Name(name)], value=value)
                | ast.AnnAssign(target=ast.Name(name), value=ast.expr() as value)
            ):
                values.setdefault(name, []).append(value)
            case ast.arg(arg=name, annotation=ast.expr() as hint) if _is_set_hint(hint):
                values.setdefault(name, []).append(ast.Set([]))
    return frozenset(name for name, made in values.items() if all(_is_set(one, frozenset()) for one in made))


def _is_set(node: ast.expr, names: frozenset[str]) -> bool:
    match node:
        case ast.Set() | ast.SetComp() | ast.Call(func=ast.Name("set" | "frozenset")):
            return True
        case ast.Name(name):
            return name in names
        case ast.Call(func=ast.Attribute(value=of, attr=method)):
            return method in _METHODS and _is_set(of, names)
        case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor(), right=right):
            return _is_set(left, names) or _is_set(right, names)
        case _:
            return False


def _is_set_hint(hint: ast.expr) -> bool:
    of = hint.value if isinstance(hint, ast.Subscript) else hint
    return isinstance(of, ast.Name) and of.id in {"set", "frozenset"}
