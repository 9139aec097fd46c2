"""Locks that a run cannot take: within another one, within a time limit, beside the `lock` of its workflow."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from stepwell.definition.code.context_calls import Wrong
from stepwell.definition.code.context_forms import operation_of
from stepwell.definition.code.context_names import may_be_workflows
from stepwell.definition.code.modules import Def, Function

_LIMITS = frozenset({"asyncio.timeout", "asyncio.timeout_at"})


def wrong_locks(function: Function, meaning: Callable[[ast.expr], str]) -> Iterator[Wrong]:
    """Yields each `ctx.lock` that fails when it is entered. `meaning`: returns the full name of what it is."""
    if not may_be_workflows(function):
        return
    outer = "the `lock` of its workflow" if _locks_runs(function) else ""
    for node in ast.walk(function.node):
        if isinstance(node, Def):
            yield from _within(node.body, outer, meaning)


def _locks_runs(function: Function) -> bool:
    calls = [one for one in function.node.decorator_list if isinstance(one, ast.Call)]
    given = (one.value for call in calls for one in call.keywords if one.arg == "lock")
    return function.mark == "workflow" and any(isinstance(one, ast.List | ast.Tuple) or _is_text(one) for one in given)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _within(nodes: Iterable[ast.AST], outer: str, meaning: Callable[[ast.expr], str]) -> Iterator[Wrong]:
    """`outer`: what the nodes are within that no lock goes together with."""
    for node in nodes:
        if isinstance(node, Def | ast.Lambda):
            continue
        around = outer
        for item in node.items if isinstance(node, ast.AsyncWith) else ():
            made = item.context_expr
            if operation_of(made) == "lock":
                yield from _refused(made, around)
                around = around or "another lock"
            elif isinstance(made, ast.Call) and meaning(made.func) in _LIMITS and _is_set(made):
                around = around or ast.unparse(made.func)
        yield from _within(ast.iter_child_nodes(node), around, meaning)


def _refused(made: ast.expr, around: str) -> Iterator[Wrong]:
    if around.startswith("the `lock`"):
        hint = "name both in the `lock` of the workflow"
        yield made, "lock_nested", f"ctx.lock(…) is entered while the run holds {around}", hint
    elif around == "another lock":
        message = "ctx.lock(…) is entered within the block of another lock"
        yield made, "lock_nested", message, 'take both at once: async with ctx.lock("a", "b"):'
    elif around:
        message = f"ctx.lock(…) is entered within {around}(…), which a lock of a run cannot wait in"
        yield made, "lock_in_task", message, "put the time limit into the block of the lock, or use asyncio.Lock there"


def _is_set(made: ast.Call) -> bool:
    """Tells whether a time limit is certainly one: `asyncio.timeout(None)` is none."""
    return bool(made.args) and isinstance(made.args[0], ast.Constant) and made.args[0].value is not None
