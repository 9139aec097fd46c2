"""What a step cannot do: ask `ctx` for what a workflow has, get its input by position, leave a coroutine alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from stepwell.definition.code.context_forms import operation_of
from stepwell.definition.code.context_names import has_another
from stepwell.definition.code.full_names import FullNames
from stepwell.definition.code.modules import Def, Function, makes_coroutine, own_nodes, problem_at
from stepwell.definition.code.objects import variables_of
from stepwell.definition.code.unawaited import kept, needed
from stepwell.errors import Problem

_OPERATIONS = frozenset({
    "step", "run", "sleep", "timer", "event", "approval", "callback", "child", "all", "first", "map", "transact",
    "lock", "until", "start", "send", "limit",
})  # fmt: skip


def asked_of(node: ast.expr) -> str:
    """Returns the operation of `ctx.step(…)` and the like; "" for anything else."""
    name = operation_of(node)
    return name if name in _OPERATIONS else ""


def asked_in_a_step(function: Function) -> Iterator[Problem]:
    """Yields each operation of a workflow that a step asks for."""
    for node in () if has_another(function.node) else ast.walk(function.node):
        if isinstance(node, ast.Call) and (operation := asked_of(node)):
            message = f"the step {function.name} calls ctx.{operation}, which only a workflow has"
            hint = "call the function itself, or do this in the workflow"
            yield problem_at(node, function.module.file, "nested_step", message, hint)


def given_by_position(function: Function) -> Iterator[Problem]:
    """Yields the parameters of a step or a workflow that have no name for its input."""
    arguments = function.node.args
    for one in (*arguments.posonlyargs, *([arguments.vararg] if arguments.vararg else ())):
        message = f"{function.name} has a parameter {one.arg} that cannot be given by name"
        hint = f"the {function.mark} gets its input by name: write it without `*` and `/`, such as `{one.arg}: list`"
        yield problem_at(one, function.module.file, "step_signature", message, hint)


def unawaited_in_a_step(function: Function, names: FullNames) -> Iterator[Problem]:
    """Yields the coroutines of the folder that a step makes and leaves alone, or takes for their results."""
    variables = variables_of(function)
    for node, made in _unawaited(function.node):
        if not isinstance(made, ast.Call):
            continue
        called = names.function(names.of(function.module, made.func, variables))
        if called is not None and not called.mark and makes_coroutine(called.node):
            what = f"{ast.unparse(made.func)}(…)"
            message = f"the step {function.name} makes {what}, and does not await it: it does nothing"
            is_async = isinstance(function.node, ast.AsyncFunctionDef)
            hint = f"await {what}" if is_async else f"await it: async def {function.name}(…), and await {what}"
            yield problem_at(node, function.module.file, "never_awaited", message, hint)


def _unawaited(function: Def) -> Iterator[tuple[ast.AST, ast.expr | None]]:
    """Yields what would be in vain if it were a coroutine, with its place. What a plain step returns is awaited."""
    is_async = isinstance(function, ast.AsyncFunctionDef)
    for node in own_nodes(function):
        if isinstance(node, ast.Expr) or (is_async and isinstance(node, ast.Return)):
            yield node, node.value
    nodes = list(ast.walk(function))
    used = {id(made): made for made in needed(nodes, dict(kept(nodes)))}
    yield from ((made, made) for made in used.values())
