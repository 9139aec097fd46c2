"""Conditions that always hold: coroutines given to `ctx.until`, and `if await ctx.first(…)`, which asks a tuple."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from stepwell.definition.code.context_calls import Called, Wrong
from stepwell.definition.code.context_forms import AWAITED, operation_of
from stepwell.definition.code.context_names import may_be_workflows
from stepwell.definition.code.modules import Def, Function, makes_coroutine, own_nodes

_NO_FUNCTION = (ast.Compare, ast.Constant, ast.JoinedStr, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp)
_CHOSEN = "such as lambda: len(items) > 1"


def wrong_conditions(function: Function, called: Called) -> Iterator[Wrong]:
    """Yields what is given to `ctx.until` and is no condition. `called`: returns the function of a name."""
    if not may_be_workflows(function):
        return
    for node in ast.walk(function.node):
        if isinstance(node, ast.Call) and operation_of(node) == "until":
            named = (one.value for one in node.keywords if one.arg == "condition")
            if (given := next(named, node.args[0] if node.args else None)) is not None:
                yield from _wrong(given, called)


def _wrong(given: ast.expr, called: Called) -> Iterator[Wrong]:
    function = called(given)
    if _is_value(given, called):
        message = f"`until` takes a function that it calls again, not {ast.unparse(given)[:40]}"
        yield given, "bad_value", message, "await ctx.until(lambda: …)"
    elif makes_coroutine(function):
        message = f"the condition {ast.unparse(given)[:40]} is an async function: it is never awaited, and always holds"
        yield given, "bad_condition", message, f"give a plain function, {_CHOSEN}"
    for made in _results(function):
        if operation_of(made) in AWAITED or (isinstance(made, ast.Call) and makes_coroutine(called(made.func))):
            message = f"the condition gives {ast.unparse(made)[:40]}, which nobody awaits: it always holds"
            yield given, "bad_condition", message, f"look at variables alone, {_CHOSEN}; what is awaited sets them"


def _is_value(given: ast.expr, called: Called) -> bool:
    """Tells whether an expression is certainly no function."""
    if isinstance(given, ast.Call):
        return operation_of(given) in AWAITED or makes_coroutine(called(given.func))
    return isinstance(given, _NO_FUNCTION) or (isinstance(given, ast.UnaryOp) and isinstance(given.op, ast.Not))


def _results(function: Def | ast.Lambda | None) -> Iterator[ast.expr]:
    """Yields what a plain function returns, as it is written: each part of a choice."""
    if isinstance(function, ast.Lambda):
        left = [function.body]
    elif isinstance(function, ast.FunctionDef) and not function.decorator_list:
        left = [one.value for one in own_nodes(function) if isinstance(one, ast.Return) and one.value is not None]
    else:
        left = []
    while left:
        one = left.pop()
        left += one.values if isinstance(one, ast.BoolOp) else ()
        left += (one.body, one.orelse) if isinstance(one, ast.IfExp) else ()
        yield one
