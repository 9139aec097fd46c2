"""What a durable function asks its `ctx` for that `ctx` does not have: `ctx.wait_for_event(…)`, `ctx.steps(…)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from stepwell.definition.code import Function
from stepwell.definition.durations import parse_duration
from stepwell.definition.signatures import CONTEXT
from stepwell.definition.text import closest
from stepwell.errors import UserError

CONTEXT_NAMES = frozenset({
    "all", "approval", "as_completed", "callback", "child", "continue_as", "event", "first", "limit", "lock", "log",
    "map", "now", "patched", "query", "random", "run", "run_id", "send", "sleep", "start", "state", "step", "timer",
    "transact", "until", "update", "uuid", "workflow",
})  # fmt: skip
_TYPE = "WorkflowContext"


def lacking_in_context(function: Function) -> Iterator[tuple[ast.Attribute, str]]:
    """Yields what the function reads from `ctx` that it does not have, each with a hint.

    Only where `ctx` is a workflow's for certain: in a `@workflow` function, or by its annotation.
    """
    if function.mark != "workflow" and not _is_annotated(function.node.args):
        return
    for node in ast.walk(function.node):
        match node:
            case ast.Attribute(value=ast.Name(name), attr=attr) if name == CONTEXT and attr not in CONTEXT_NAMES:
                if not attr.startswith("__"):
                    yield node, _meant(attr)


def bad_durations(function: Function) -> Iterator[tuple[ast.Constant, UserError]]:
    """Yields the texts that the function gives `ctx` for a duration and that are none, each with its error."""
    for node in ast.walk(function.node):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(name), attr=attr)) if name == CONTEXT:
                given = [one.value for one in node.keywords if one.arg == "timeout"]
                if attr == "sleep":
                    given += node.args[:1]
                for value in given:
                    if isinstance(value, ast.Constant) and isinstance(value.value, str):
                        try:
                            parse_duration(value.value)
                        except UserError as error:
                            yield value, error


def _meant(name: str) -> str:
    """A hint: `wait_for_event` is `event`, by a word of it; `sleeep` is `sleep`."""
    words = [word for word in name.split("_") if word in CONTEXT_NAMES]
    guess = f"did you mean `{words[-1]}`?" if words else closest(name, sorted(CONTEXT_NAMES))
    return guess or "docs/functions.md lists what `ctx` has"


def _is_annotated(args: ast.arguments) -> bool:
    given = (one for one in (*args.posonlyargs, *args.args, *args.kwonlyargs) if one.arg == CONTEXT)
    return any(one.annotation is not None and _TYPE in ast.unparse(one.annotation) for one in given)
