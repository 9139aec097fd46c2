"""Checks the named limits and the time limits of steps that the code of a folder asks for, without running it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from contextlib import suppress

from stepwell.definition.code.modules import Code, Module, problem_at
from stepwell.definition.code.signatures import CONTEXT
from stepwell.definition.durations import long_step, parse_duration
from stepwell.definition.text import closest
from stepwell.errors import Problem, UserError
from stepwell.limits import YEAR_MS

_EXAMPLE = "add it to limits.yaml: limits: {stripe: {concurrency: 5}}"


def unknown_limits_of(code: Code, known: Collection[str]) -> list[Problem]:
    """Returns a problem for each `ctx.limit("…")` and `throttle="…"` whose limit is not in `limits.yaml`.

    A name that is known only at run time is left to the run, which fails with `unknown_limit`.
    """
    return [
        _problem(module, name, node, known)
        for module in code.modules.values()
        for function in (*module.functions.values(), *module.methods.values())
        for name, node in _names(module, function.node)
        if name not in known
    ]


def long_timeouts_of(code: Code) -> list[Problem]:
    """Returns a problem for each time limit of a step over a year: of `@step`, `ctx.step` and `ctx.run`."""
    found = {
        (module.file, node.lineno, node.col_offset): _too_long(module, node, limit_ms)
        for module in code.modules.values()
        for function in (*module.functions.values(), *module.methods.values())
        for node, limit_ms in _timeouts(module, function.node)
        if limit_ms > YEAR_MS
    }
    return list(found.values())


def _timeouts(module: Module, function: ast.AST) -> Iterator[tuple[ast.expr, int]]:
    for call in ast.walk(function):
        if not isinstance(call, ast.Call) or not _takes_time(module, call.func):
            continue
        for given in call.keywords:
            value = module.values.get(given.value.id) if isinstance(given.value, ast.Name) else given.value
            if given.arg == "timeout" and isinstance(value, ast.Constant) and value.value is not None:
                with suppress(UserError):  # not a duration: the import, or the run, says so
                    yield given.value, parse_duration(value.value)


def _takes_time(module: Module, called: ast.expr) -> bool:
    match called:
        case ast.Name(name):
            return module.imports.get(name) == "stepwell.step"
        case ast.Attribute(value=ast.Name(name), attr="step" | "run"):
            return name == CONTEXT or module.imports.get(name) == "stepwell"
    return False


def _too_long(module: Module, node: ast.expr, limit_ms: int) -> Problem:
    message, hint = long_step(limit_ms)
    return Problem("timeout_too_long", message, hint=hint, file=module.file,
                   line=node.lineno, column=node.col_offset + 1)  # fmt: skip


def _names(module: Module, function: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    for call in ast.walk(function):
        if not isinstance(call, ast.Call):
            continue
        match call.func:
            case ast.Attribute(value=ast.Name(name), attr="limit") if name == CONTEXT and call.args:
                yield from _name(module, call.args[0])
        for given in call.keywords:
            if given.arg == "throttle":
                yield from _name(module, given.value)


def _name(module: Module, given: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """The name in `"stripe"`, in `{"limit": "stripe", …}`, or in a constant of the module."""
    if isinstance(given, ast.Name) and isinstance(found := module.values.get(given.id), ast.Constant | ast.Dict):
        yield from ((name, given) for name, _ in _name(module, found))
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        yield given.value, given
    if isinstance(given, ast.Dict):
        for key, value in zip(given.keys, given.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == "limit":
                yield from _name(module, value)


def _problem(module: Module, name: str, node: ast.expr, known: Collection[str]) -> Problem:
    hint = closest(name, known) or _EXAMPLE
    return problem_at(node, module.file, "unknown_limit", f"there is no limit {name!r} in limits.yaml", hint)
