"""Checks the literals that the code of a folder gives `@step` and `Retry`, without running it.

A module whose `@step` is refused cannot be imported: every run that needs it waits for code.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from stepwell.definition.authoring import STEP_DEFAULTS, Retry, defaults_of
from stepwell.definition.code.literals import NO_LITERAL, literal
from stepwell.definition.code.modules import Code, Module, problem_at
from stepwell.definition.text import closest
from stepwell.errors import Problem, UserError

_POLICY = tuple(Retry.__dataclass_fields__)
_TOLD_ELSEWHERE = "timeout_too_long"  # by `code_limits`, with those of `ctx.step`


def wrong_steps_of(code: Code) -> list[Problem]:
    """Returns a problem for each option that `@step` or `Retry` does not have, and for each literal that it refuses."""
    found: dict[tuple[str, int, int], Problem] = {}
    for module in code.modules.values():
        places = [one.node for one in (*module.functions.values(), *module.methods.values())]
        for top in (*places, *module.values.values()):
            for call in ast.walk(top):
                for node, *why in _wrong(module, call) if isinstance(call, ast.Call) else ():
                    problem = problem_at(node, module.file, *why)
                    found.setdefault((problem.file, problem.line, problem.column), problem)
    return [*found.values(), *_methods(code)]


def _methods(code: Code) -> Iterator[Problem]:
    """Yields the workflows that are methods: a run finds its function by its module and name."""
    methods = (one for module in code.modules.values() for one in module.methods.values() if one.mark == "workflow")
    for one in methods:
        marks = (mark.func if isinstance(mark, ast.Call) else mark for mark in one.node.decorator_list)
        if "stepwell.workflow" in {_meaning(one.module, mark) for mark in marks}:
            message = f"the workflow {one.name} is a method, so that nothing can start it"
            hint = "write it as a function at the top of the module"
            yield problem_at(one.node, one.module.file, "bad_workflow", message, hint)


def _wrong(module: Module, call: ast.Call) -> Iterator[tuple[ast.keyword | ast.expr, str, str, str]]:
    match _meaning(module, call.func):
        case "stepwell.step":
            yield from _refused(call, "@step", (), STEP_DEFAULTS, defaults_of)
            for given in call.args[:1]:
                if isinstance(given, ast.Constant):
                    yield given, "bad_step", f"@step takes a function, not {given.value!r}", "name it: @step(name=…)"
        case "stepwell.Retry":
            yield from _refused(call, "Retry", _POLICY, _POLICY, Retry)


def _refused(
    call: ast.Call, what: str, places: Sequence[str], options: Sequence[str], make: Callable[..., object]
) -> Iterator[tuple[ast.keyword | ast.expr, str, str, str]]:
    """The arguments that `make` refuses, each by itself. `places`: the names of those by position."""
    if not any(isinstance(one, ast.Starred) for one in call.args):
        for name, value in zip(places, call.args, strict=False):
            yield from ((value, *why) for why in _why(make, {name: literal(value)}))
    for given in call.keywords:
        if given.arg is not None and given.arg not in options:
            yield given, "bad_arguments", f"{what} has no option {given.arg!r}", closest(given.arg, options)
        elif given.arg is not None:
            yield from ((given.value, *why) for why in _why(make, {given.arg: literal(given.value)}))


def _why(make: Callable[..., object], given: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    if NO_LITERAL in given.values():
        return
    try:
        make(**given)
    except UserError as error:
        if error.code != _TOLD_ELSEWHERE:
            yield error.code, error.message, error.hint or ""


def _meaning(module: Module, called: ast.expr) -> str:
    match called:
        case ast.Name(name):
            return module.imports.get(name, "")
        case ast.Attribute(value=ast.Name(name), attr=attr):
            return f"{module.imports.get(name, '')}.{attr}"
    return ""
