"""Checks the workflows that the code of a folder starts by name, without running it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

from stepwell.definition.code.context_names import may_be_workflows
from stepwell.definition.code.modules import Code, Module
from stepwell.definition.code.signatures import CONTEXT
from stepwell.definition.text import closest
from stepwell.errors import Problem

NamedChild = tuple[Module, ast.Constant]


def children_of(code: Code) -> Iterator[NamedChild]:
    """Yields each literal name in `ctx.child("…")`. A name that is known only at run time is left to the run."""
    for module in code.modules.values():
        for function in (*module.functions.values(), *module.methods.values()):
            if function.mark != "step" and may_be_workflows(function):
                yield from ((module, name) for name in _names(function.node))


def unknown_children(children: Iterable[NamedChild], known: Collection[str], own: Collection[str]) -> list[Problem]:
    """Returns a problem for each name that no workflow of the folder has.

    `own`: the folder's modules. Other packages may be shared with folders that have the workflow: they get a warning.
    """
    return [
        Problem("unknown_workflow", f"there is no workflow {name.value!r}", hint=closest(str(name.value), known),
                file=module.file, line=name.lineno, column=name.col_offset + 1,
                severity="error" if module.name in own else "warning")
        for module, name in children
        if name.value not in known
    ]  # fmt: skip


def _names(function: ast.AST) -> Iterator[ast.Constant]:
    for node in ast.walk(function):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(context), attr="child"),
                args=[ast.Constant(value=str()) as name, *_],
            ) if context == CONTEXT:
                yield name
