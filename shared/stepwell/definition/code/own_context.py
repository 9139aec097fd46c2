"""The `ctx` of a workflow where it is of no use: given to a step, or asked in what `ctx.run` calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from stepwell.definition.code.context_calls import Called, Wrong
from stepwell.definition.code.context_forms import operation_of
from stepwell.definition.code.context_names import has_another, may_be_workflows
from stepwell.definition.code.modules import Def, Function, own_nodes
from stepwell.definition.code.own_steps import asked_of
from stepwell.definition.code.signatures import CONTEXT

_WITH_THEIR_OWN = frozenset({"child", "continue_as", "step"})


def misplaced_contexts(function: Function, called: Called) -> Iterator[Wrong]:
    """Yields each `ctx` that fails as it is given, or asked. `called`: returns the function of a name."""
    if not may_be_workflows(function):
        return
    for node in ast.walk(function.node):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        operation = operation_of(node)
        if operation in _WITH_THEIR_OWN and gives_context(node):
            what = ast.unparse(node.args[0])[:40]
            message = f"ctx cannot be given to {what}, which gets a ctx of its own"
            hint = f"leave it out: a parameter `ctx` of {what} is filled in"
            yield node, "bad_arguments", message, hint
        elif operation == "run" and (asked := _asked_by(called(node.args[0]), is_given=gives_context(node))):
            message = f"what ctx.run calls asks for ctx.{asked}, and is no part of the workflow"
            hint = f"await ctx.{asked}(…), or the function that asks for it, without ctx.run"
            yield node, "nested_step", message, hint


def gives_context(call: ast.Call) -> bool:
    """Tells whether a call has `ctx` itself among its arguments."""
    given = (*call.args[1:], *(one.value for one in call.keywords))
    return any(isinstance(one, ast.Name) and one.id == CONTEXT for one in given)


def _asked_by(given: Def | ast.Lambda | None, *, is_given: bool) -> str:
    """The operation that the function asks the workflow's `ctx` for; "" if it asks for none."""
    if given is None or has_another(given):
        return ""
    parameters = {one.arg for one in ast.walk(given.args) if isinstance(one, ast.arg)}
    if CONTEXT in parameters and not is_given:
        return ""
    nodes = ast.walk(given.body) if isinstance(given, ast.Lambda) else own_nodes(given)
    return next((asked for node in nodes if isinstance(node, ast.Call) and (asked := asked_of(node))), "")
