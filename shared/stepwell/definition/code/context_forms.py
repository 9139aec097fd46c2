"""Forms in which `ctx` cannot be used: `await ctx.patched(…)`, `with ctx.lock(…)`, `ctx.all([…])`, `@ctx.query`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from stepwell.definition.code.context_calls import Wrong
from stepwell.definition.code.context_names import may_be_workflows
from stepwell.definition.code.modules import Function
from stepwell.definition.code.signatures import CONTEXT

_AT_ONCE = frozenset({"now", "patched", "random", "uuid"})
_BLOCKS = frozenset({"limit", "lock"})
_OF_OPERATIONS = frozenset({"all", "first"})
TIMED = frozenset({"sleep", "timer"})
AWAITED = frozenset({"all", "approval", "callback", "child", "event", "first", "map", "run", "send", "sleep", "step",
                     "timer", "transact", "until"})  # fmt: skip
_LEVELS = frozenset({"critical", "debug", "error", "exception", "info", "warning"})
_OF_LOGS = frozenset({"exc_info", "extra", "stack_info", "stacklevel"})
SEVERAL = (ast.List, ast.Tuple, ast.Set, ast.ListComp, ast.GeneratorExp, ast.SetComp)


def wrong_forms(function: Function) -> Iterator[Wrong]:
    """Yields each use of `ctx` that raises when it runs, with what to write instead."""
    if not may_be_workflows(function):
        return
    for node in ast.walk(function.node):
        match node:
            case ast.Await():
                yield from _awaited(node)
            case ast.With():
                yield from _entered(node)
            case ast.Raise(exc=ast.Call() as made) if operation_of(made) == "continue_as":
                yield node, "never_returned", "ctx.continue_as(…) is raised, and is no exception", "return it"
            case ast.Call():
                yield from _given_together(node)
                yield from _called(node)
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                yield from _gone_through(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _registered(node)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Await(value=ast.Call() as call)):
                yield from _unpacked(names, call)


def _awaited(node: ast.Await) -> Iterator[Wrong]:
    name = operation_of(node.value)
    if name in _AT_ONCE:
        yield node, "bad_await", f"ctx.{name}(…) cannot be awaited", "it answers at once: leave out `await`"
    elif name in _BLOCKS:
        yield node, "bad_await", f"ctx.{name}(…) cannot be awaited", f"async with ctx.{name}(…): what it is for"
    elif name == "continue_as":
        yield node, "bad_await", "ctx.continue_as(…) cannot be awaited", "return it: the run then begins anew"


def _entered(node: ast.With) -> Iterator[Wrong]:
    for item in node.items:
        if (name := operation_of(item.context_expr)) in _BLOCKS:
            message = f"ctx.{name}(…) cannot be entered by a plain `with`"
            yield item.context_expr, "bad_await", message, f"async with ctx.{name}(…):"


def _given_together(node: ast.Call) -> Iterator[Wrong]:
    name = operation_of(node)
    if name in _OF_OPERATIONS and len(node.args) == 1 and isinstance(node.args[0], SEVERAL):
        message = f"ctx.{name} takes operations, not one collection of them"
        yield node.args[0], "bad_value", message, f"write an asterisk: ctx.{name}(*[…])"


def _called(node: ast.Call) -> Iterator[Wrong]:
    if operation_of(node) == "log":
        yield node, "bad_value", "ctx.log is a logger, not a function", "ctx.log.info(…)"
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(name), attr="log"), attr=level)):
            unknown = (one for one in node.keywords if one.arg is not None and one.arg not in _OF_LOGS)
            if name == CONTEXT and level in _LEVELS and (first := next(unknown, None)):
                value = ast.unparse(first.value)[:40]
                hint = f'ctx.log.{level}("… %s", {value}), or extra={{"{first.arg}": {value}}}'
                yield node, "bad_arguments", f"ctx.log.{level} has no option {first.arg!r}", hint


def _gone_through(node: ast.For | ast.AsyncFor | ast.comprehension) -> Iterator[Wrong]:
    name = operation_of(node.iter)
    if name == "as_completed" and not (isinstance(node, ast.AsyncFor) or getattr(node, "is_async", False)):
        hint = "async for … in ctx.as_completed(…)"
        yield node.iter, "bad_await", "ctx.as_completed(…) cannot be gone through by a plain `for`", hint
    if name in AWAITED:
        message = f"the operation ctx.{name}(…) cannot be gone through"
        yield node.iter, "bad_await", message, f"await it first: for … in await ctx.{name}(…)"


def _registered(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Wrong]:
    for mark in node.decorator_list:
        match mark:
            case ast.Attribute(value=ast.Name(name), attr="query" | "update" as kind) if name == CONTEXT:
                message = f"ctx.{kind} takes the name of the {kind}, not a function"
                yield mark, f"bad_{kind}_handler", message, f'@ctx.{kind}("{node.name}")'


def _unpacked(names: Sequence[ast.expr], call: ast.Call) -> Iterator[Wrong]:
    """The names that take the results of `ctx.first`: one for each operation but its timers, if all are written."""
    given = [operation_of(one) for one in call.args]
    is_known = all(one in AWAITED for one in given) and not any(isinstance(one, ast.Starred) for one in names)
    values = sum(one not in TIMED for one in given)
    if operation_of(call) == "first" and is_known and values != len(names):
        message = f"ctx.first gives {values} of {len(given)} results: its timers have none"
        yield call, "bad_value", message, "take as many names, or read `.winner` and `.value`"


def operation_of(node: ast.expr) -> str:
    """The name of what a call asks `ctx` for; "" for anything else."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(name), attr=attr)) if name == CONTEXT:
            return attr
    return ""
