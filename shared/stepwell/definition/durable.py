"""Durable functions as definitions: what a scan of a folder's modules finds of them.

Modules are read, not imported: to list and to check workflows runs no code of a user's.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from stepwell.definition.common import Context
from stepwell.definition.graph import Durable, FanIn, Json, Node
from stepwell.errors import Problem
from stepwell.limits import CLEANUP_MAX_MS, CLEANUP_MS

_JOINS = {"all": FanIn(), "first": FanIn("any", merge="keyed_by_branch", first_failure="fail")}


def durable_nodes(name: str, durable: Durable) -> dict[str, Node]:
    """The function's node, and those where the branches meet that it awaits. Its operations are made as it goes."""
    joins = {join: Node(join, fan_in=fan_in, durable=durable, is_made=join != name) for join, fan_in in _JOINS.items()}
    return {name: Node(name, durable=durable), **joins}


def compile_function(context: Context, document: Mapping[str, Json]) -> dict[str, Node]:
    cleanup_ms = _cleanup_ms(context, document)
    scheme, _, path = str(document.get("function") or "").partition(":")
    module, _, name = path.rpartition(".")
    if scheme != "python" or not module or not name.isidentifier():
        hint = "write function: python:module.name"
        context.add("bad_target", f"`function` names no function: {document.get('function')!r}", "/function", hint)
        return {}
    return durable_nodes(name, Durable(document["function"], cleanup_ms))


def _cleanup_ms(context: Context, document: Mapping[str, Json]) -> int:
    """How long a cancelled function may clean up."""
    given_ms = context.duration_ms(document, "cleanup", "")
    if given_ms is not None and given_ms > CLEANUP_MAX_MS:
        context.add("bad_value", "`cleanup` is too long", "/cleanup", f"at most {CLEANUP_MAX_MS // 1000} s")
    return CLEANUP_MS if given_ms is None else given_ms


@dataclass(frozen=True, slots=True)
class Found:
    """A durable function as its module's text tells it, as a definition."""

    document: Mapping[str, Json]
    line: int

    @property
    def version(self) -> int:
        version: int = self.document.get("version", 1)
        return version


def functions_in(text: str, file: str) -> tuple[list[Found], list[Problem]]:
    """The functions marked `@workflow` at the top of a module. A module that cannot be read has none, and a problem."""
    try:
        tree = _parsed(text, file)
    except (SyntaxError, ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None) or 0
        return [], [Problem("bad_syntax", f"Python cannot read the module: {error}", file=file, line=line)]
    found: list[Found] = []
    problems: list[Problem] = []
    for node, mark in _marked(tree):
        if not isinstance(node, ast.AsyncFunctionDef):
            message = f"@workflow takes an `async def`, and `{node.name}` is none"
            problems.append(Problem("bad_workflow", message, file=file, line=node.lineno))
            continue
        try:
            options = _options(mark)
        except ValueError:
            message = f"an option of @workflow at `{node.name}` is not written as a literal"
            hint = "the module is read, not imported: write values, no names or calls"
            problems.append(Problem("bad_workflow", message, hint=hint, file=file, line=node.lineno))
            continue
        path = f"python:{PurePath(file).stem}.{node.name}"
        found.append(Found({"workflow": options.pop("name", node.name), "function": path, **options}, node.lineno))
    return found, problems


def _parsed(text: str, file: str) -> ast.Module:
    try:
        return ast.parse(text, file)
    except SystemError:  # CPython 3.11 miscounts its own depth where a collection of garbage runs code in between
        return ast.parse(text, file)


def _marked(tree: ast.Module) -> Iterator[tuple[ast.AsyncFunctionDef | ast.FunctionDef, ast.expr]]:
    for node in tree.body:
        if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef):
            for mark in node.decorator_list:
                called = mark.func if isinstance(mark, ast.Call) else mark
                name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
                if name == "workflow":
                    yield node, mark


def _options(mark: ast.expr) -> dict[str, Json]:
    """Raises ValueError for one that is no literal."""
    if not isinstance(mark, ast.Call):
        return {}
    if mark.args or any(one.arg is None for one in mark.keywords):
        raise ValueError("options are given by name")
    return {one.arg: ast.literal_eval(one.value) for one in mark.keywords if one.arg is not None}
