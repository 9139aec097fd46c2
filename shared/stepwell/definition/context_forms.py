"""Forms in which `ctx` cannot be used: `await ctx.patched(…)`, `with ctx.lock(…)`, `ctx.all([…])`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from stepwell.definition.code import Function
from stepwell.definition.context_calls import Wrong
from stepwell.definition.context_names import may_be_workflows
from stepwell.definition.signatures import CONTEXT

_AT_ONCE = frozenset({"now", "patched", "random", "uuid"})
_BLOCKS = frozenset({"limit", "lock"})
_OF_OPERATIONS = frozenset({"all", "first"})
_SEVERAL = (ast.List, ast.Tuple, ast.Set, ast.ListComp, ast.GeneratorExp, ast.SetComp)


def wrong_forms(function: Function) -> Iterator[Wrong]:
    """Yields each use of `ctx` that raises when it runs, with what to write instead."""
    if not may_be_workflows(function):
        return
    for node in ast.walk(function.node):
        if isinstance(node, ast.Await):
            yield from _awaited(node)
        elif isinstance(node, ast.With):
            yield from _entered(node)
        elif isinstance(node, ast.Call):
            yield from _given_together(node)


def _awaited(node: ast.Await) -> Iterator[Wrong]:
    name = _operation(node.value)
    if name in _AT_ONCE:
        yield node, "bad_await", f"ctx.{name}(…) cannot be awaited", "it answers at once: leave out `await`"
    elif name in _BLOCKS:
        yield node, "bad_await", f"ctx.{name}(…) cannot be awaited", f"async with ctx.{name}(…): what it is for"


def _entered(node: ast.With) -> Iterator[Wrong]:
    for item in node.items:
        if (name := _operation(item.context_expr)) in _BLOCKS:
            message = f"ctx.{name}(…) cannot be entered by a plain `with`"
            yield item.context_expr, "bad_await", message, f"async with ctx.{name}(…):"


def _given_together(node: ast.Call) -> Iterator[Wrong]:
    name = _operation(node)
    if name in _OF_OPERATIONS and len(node.args) == 1 and isinstance(node.args[0], _SEVERAL):
        message = f"ctx.{name} takes operations, not one collection of them"
        yield node.args[0], "bad_value", message, f"write an asterisk: ctx.{name}(*[…])"


def _operation(node: ast.expr) -> str:
    """The name of what a call asks `ctx` for; "" for anything else."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(name), attr=attr)) if name == CONTEXT:
            return attr
    return ""
