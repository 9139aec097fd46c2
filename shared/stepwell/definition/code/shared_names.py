"""Approvals of a durable function that have the name of one of its steps, and are easily taken for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from stepwell.definition.code.context_forms import operation_of
from stepwell.definition.code.modules import Code, Function, problem_at
from stepwell.definition.code.names import imported_functions, step_name
from stepwell.errors import Problem

_STEPS = frozenset({"step", "run"})


def shared_names(function: Function, code: Code) -> Iterator[Problem]:
    """Yields a warning for each approval that shares its name with a step. Names that are no literals are left out."""
    calls = [node for node in ast.walk(function.node) if isinstance(node, ast.Call)]
    known = {**imported_functions(function.module, code), **function.module.functions}
    steps = {_of_step(call, known) for call in calls if operation_of(call) in _STEPS} - {""}
    for call in calls:
        kind = _text(_given(call, "type", 0)) if operation_of(call) == "approval" else ""
        if kind in steps:
            message = f"a step and an approval of {function.name} are both called {kind!r}, and are easily confused"
            hint = "give the approval another `type`, or the step another `name`"
            yield problem_at(call, function.module.file, "shared_name", message, hint, "warning")


def _of_step(call: ast.Call, known: Mapping[str, Function]) -> str:
    """Returns the name of a step: the call's own, that of `@step`, or the function's."""
    target = call.args[0] if call.args else None
    if given := _text(_given(call, "name", None)):
        return given
    match target:
        case ast.Name(id=name):
            return step_name(known[name]) if name in known else name
        case ast.Attribute(attr=name):
            return name
    return ""


def _given(call: ast.Call, name: str, place: int | None) -> ast.expr | None:
    """Returns the argument of this name, or at this place."""
    by_name = next((one.value for one in call.keywords if one.arg == name), None)
    if by_name is None and place is not None and len(call.args) > place:
        return call.args[place]
    return by_name


def _text(value: ast.expr | None) -> str:
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""
