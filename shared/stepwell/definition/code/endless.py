"""Loops that wait for what cannot change while they run: `while not paid: pass`, `while ctx.now() < until: pass`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from stepwell.definition.code.context_calls import Wrong
from stepwell.definition.code.context_forms import operation_of

_LEAVES = (
    ast.Await, ast.AsyncFor, ast.AsyncWith, ast.For, ast.With, ast.Yield, ast.YieldFrom, ast.Return, ast.Raise,
    ast.Break, ast.Assert, ast.Delete, ast.Try, ast.TryStar, ast.Import, ast.ImportFrom, ast.Match, ast.NamedExpr,
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Global, ast.Nonlocal,
)  # fmt: skip
_READS = frozenset({"abs", "all", "any", "bool", "float", "int", "isinstance", "len", "max", "min", "print", "str",
                    "sum"})  # fmt: skip
_ASKS = frozenset({"cancelled", "done", "is_set"})  # methods of tasks and events
_AT_ONCE = frozenset({"now", "patched"})


def endless_loops(nodes: Iterable[ast.AST]) -> Iterator[Wrong]:
    """Yields each `while` in which nothing is awaited and nothing changes: if it begins, it never ends."""
    for node in nodes:
        if isinstance(node, ast.While) and not _is_never(node.test) and not any(map(_may_end, _inside(node))):
            message = f"`while {ast.unparse(node.test)[:40]}` awaits nothing, so nothing can change, and it never ends"
            yield node, "endless_loop", message, "await ctx.until(lambda: …), or await ctx.sleep(…) in it"


def _inside(loop: ast.While) -> Iterator[ast.AST]:
    for part in (loop.test, *loop.body):
        yield from ast.walk(part)


def _may_end(node: ast.AST) -> bool:
    """Tells whether the node may change something, or leave the loop."""
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        return not isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.Call):
        return not _only_reads(node)
    return isinstance(node, _LEAVES)


def _only_reads(call: ast.Call) -> bool:
    match call.func:
        case ast.Name(name):
            return name in _READS
        case ast.Attribute(value=value, attr=attr) if operation_of(ast.Call(value, [], [])) == "log":
            return True
        case ast.Attribute(attr=attr):
            return operation_of(call) in _AT_ONCE or (attr in _ASKS and not call.args)
    return False


def _is_never(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and not test.value
