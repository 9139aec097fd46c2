"""What a durable function asks its `ctx` for that `ctx` does not have: `ctx.wait_for_event(…)`, `ctx.steps(…)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from stepwell.definition.code.modules import Function
from stepwell.definition.code.signatures import CONTEXT
from stepwell.definition.text import closest

CONTEXT_NAMES = frozenset({
    "all", "approval", "as_completed", "callback", "child", "continue_as", "event", "first", "limit", "lock", "log",
    "map", "now", "patched", "query", "random", "run", "run_id", "send", "sleep", "start", "state", "step", "timer",
    "transact", "until", "update", "uuid", "workflow",
})  # fmt: skip
_OF_STEPS = frozenset({"attempt", "callback_url", "emit", "heartbeat", "idempotency_key", "resumed"})
_SAID_OTHERWISE = {
    **dict.fromkeys(_OF_STEPS, "the ctx of a step has it: def step(ctx: StepContext, …)"),
    **dict.fromkeys(
        ("sleep_until", "wait_until"), "ctx.sleep(when), of a datetime; ctx.until(lambda: …), of a condition"
    ),
}
_TYPE = "WorkflowContext"


def lacking_in_context(function: Function) -> Iterator[tuple[ast.Attribute, str]]:
    """Yields what the function reads from `ctx` that it does not have, each with a hint.

    Only where `ctx` is a workflow's for certain: in a `@workflow` function, or by its annotation.
    """
    if not _is_workflows(function) or has_another(function.node):
        return
    for node in ast.walk(function.node):
        match node:
            case ast.Attribute(value=ast.Name(name), attr=attr) if name == CONTEXT and attr not in CONTEXT_NAMES:
                if isinstance(node.ctx, ast.Store):
                    yield node, f'keep the value in a variable, or in ctx.state["{attr}"]'
                elif not attr.startswith("__"):
                    yield node, _meant(attr)


def may_be_workflows(function: Function) -> bool:
    """Tells whether `ctx` may be a workflow's in a function that a workflow calls: it is not annotated otherwise."""
    is_meant = _is_workflows(function) or _annotation(function.node.args) is None
    return is_meant and not has_another(function.node)


def has_another(function: ast.AST) -> bool:
    """Tells whether it makes a `ctx` of its own: `ctx = contextvars.copy_context()`, `with localcontext() as ctx`."""
    return any(map(_makes_another, ast.walk(function)))


def _makes_another(node: ast.AST) -> bool:
    match node:
        case (
            ast.Assign(targets=[ast.Name(name)], value=ast.Call())
            | ast.AnnAssign(target=ast.Name(name), value=ast.Call())
            | ast.withitem(context_expr=ast.Call(), optional_vars=ast.Name(name))
        ):
            return name == CONTEXT
    return False


def _meant(name: str) -> str:
    """A hint: `wait_for_event` is `event`, by a word of it; `sleeep` is `sleep`."""
    if name in _SAID_OTHERWISE:
        return _SAID_OTHERWISE[name]
    words = [word for word in name.split("_") if word in CONTEXT_NAMES]
    guess = f"did you mean `{words[-1]}`?" if words else closest(name, sorted(CONTEXT_NAMES))
    return guess or "python -m pydoc stepwell.WorkflowContext lists what `ctx` has"


def _is_workflows(function: Function) -> bool:
    return function.mark == "workflow" or _TYPE in (_annotation(function.node.args) or "")


def _annotation(args: ast.arguments) -> str | None:
    """Returns how `ctx` is annotated; None if it is not."""
    given = (one for one in (*args.posonlyargs, *args.args, *args.kwonlyargs) if one.arg == CONTEXT)
    return next((ast.unparse(one.annotation) for one in given if one.annotation is not None), None)
