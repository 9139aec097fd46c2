"""Finds the names that users' code takes from Stepwell and that it does not have. Reads files, imports nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import stepwell
from stepwell.definition.code.context_names import CONTEXT_NAMES
from stepwell.definition.code.modules import Module, problem_at, read_code
from stepwell.definition.text import closest
from stepwell.errors import Problem

_PACKAGE = "stepwell"
_ROOT = Path(stepwell.__file__).parent
_PUBLIC = "import what steps and workflows need from `stepwell` itself: from stepwell import step, workflow"


def wrong_own_names(tree: ast.AST, imports: Iterable[tuple[str, ast.stmt]], file: str) -> list[Problem]:
    """Returns a problem for each import from Stepwell that fails, and each `stepwell.name` that does.

    `imports`: those of the tree that must succeed, each with the full name of its module.
    """
    found: list[Problem] = []
    bound: set[str] = set()  # the names under which the package itself is imported
    for name, node in imports:
        if name.partition(".")[0] != _PACKAGE:
            continue
        if _file_of(name) is None:
            found.append(_problem(f"there is no module {name!r}, so this import fails", _PUBLIC, file, node))
        elif isinstance(node, ast.ImportFrom):
            lacking = (one.name for one in node.names if one.name != "*" and not _has(name, one.name))
            found += [_no_such_import(name, one, file, node) for one in lacking]
        elif isinstance(node, ast.Import):
            bound |= {one.asname or _PACKAGE for one in node.names if one.name == _PACKAGE or not one.asname}
    return [*found, *_wrong_attributes(tree, bound, file)]


def _no_such_import(module: str, name: str, file: str, node: ast.stmt) -> Problem:
    return _problem(f"there is no {name!r} in {module}, so this import fails", _hint(module, name), file, node)


def _wrong_attributes(tree: ast.AST, own: set[str], file: str) -> Iterator[Problem]:
    """`stepwell.TransientError`, where the package is imported as one of the names `own`."""
    if not own:
        return
    given = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    given |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(name), attr=attr) if name in own - given and not _has(_PACKAGE, attr):
                yield _problem(f"there is no {attr!r} in {_PACKAGE}", _hint(_PACKAGE, attr), file, node)


def _has(module: str, name: str) -> bool:
    if _file_of(f"{module}.{name}") is not None or name.startswith("__"):
        return True
    return name in stepwell.__all__ if module == _PACKAGE else _read(module).has(name)


def _file_of(module: str) -> Path | None:
    """The file of this module of Stepwell's, if there is one."""
    place = _ROOT.joinpath(*module.split(".")[1:])
    files = (place.with_suffix(".py"), place / "__init__.py")
    return next((file for file in files if file.is_file()), None)


@cache
def _read(module: str) -> Module:
    file = _file_of(module)
    text = "" if file is None else file.read_text(encoding="utf-8")
    return read_code({module: (str(file), text)}).modules[module]


def _hint(module: str, name: str) -> str:
    if module == _PACKAGE and name in CONTEXT_NAMES:
        return f"it is an operation of a durable function: ctx.{name}(…)"
    if module != _PACKAGE:
        read = _read(module)
        public = sorted(one for one in {*read.functions, *read.classes} if not one.startswith("_"))
        return closest(name, public) or _PUBLIC
    return closest(name, stepwell.__all__) or "python -m pydoc stepwell lists its names"


def _problem(message: str, hint: str, file: str, node: ast.stmt | ast.expr) -> Problem:
    return problem_at(node, file, "unknown_import", message, hint)
