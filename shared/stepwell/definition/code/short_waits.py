"""Warns of waits for people and events whose time limit is a small number without a unit, in the code of a folder."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from stepwell.definition.code.literals import literal
from stepwell.definition.code.modules import Code, Module
from stepwell.definition.code.signatures import CONTEXT
from stepwell.definition.durations import without_unit
from stepwell.errors import Problem

_OPERATIONS = frozenset({"approval", "event"})
_DIRECTIVES = frozenset({"wait_for_approval", "wait_for_event"})


def short_waits_of(code: Code) -> list[Problem]:
    """Returns a warning for `timeout=8` of `ctx.approval`, `ctx.event`, and of what a step returns to wait for them."""
    found = {
        (module.file, given.lineno, given.col_offset): replace(
            doubt, file=module.file, line=given.lineno, column=given.col_offset + 1
        )
        for module in code.modules.values()
        for function in (*module.functions.values(), *module.methods.values())
        for given in _timeouts(module, function.node)
        if (doubt := without_unit(literal(given)))
    }
    return list(found.values())


def _timeouts(module: Module, function: ast.AST) -> Iterator[ast.expr]:
    for call in ast.walk(function):
        if isinstance(call, ast.Call) and _waits(module, call.func):
            yield from (one.value for one in call.keywords if one.arg == "timeout")


def _waits(module: Module, called: ast.expr) -> bool:
    match called:
        case ast.Name(name):
            return module.imports.get(name, "").removeprefix("stepwell.") in _DIRECTIVES
        case ast.Attribute(value=ast.Name(name), attr=attr):
            is_of_stepwell = module.imports.get(name) == "stepwell" and attr in _DIRECTIVES
            return is_of_stepwell or (name == CONTEXT and attr in _OPERATIONS)
    return False
