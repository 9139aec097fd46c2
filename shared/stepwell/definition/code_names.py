"""Checks the steps that a definition names without a module, such as `agent: scorer`, against its folder's code."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from stepwell.definition.code import Code, Function, Module
from stepwell.definition.compiler import compile_definition
from stepwell.definition.graph import Graph, Json, Step
from stepwell.definition.loader import Loaded
from stepwell.definition.text import closest, pointer_part
from stepwell.errors import Problem

_KEYS = frozenset({"run", "agent", "action", "action_type", "actionType"})


def check_names(loaded: Loaded, text: str, file: str, code: Code, own: Collection[str]) -> list[Problem]:
    """Returns a warning for each step that no `@step` of the folder's own modules has the name of.

    `own`: the names of these modules. Says nothing where the code may make steps that cannot be read off it.
    """
    graph = compile_definition(text, file).graph
    asked = {step.run for step in steps_of(graph) if ":" not in step.run} if graph is not None else set()
    if not asked or not all(name in code.modules and _is_plain(code.modules[name]) for name in own):
        return []
    known = {name for module in own for name in _names_in(code.modules[module], code)}
    lacking = asked - known - {name for module in own for name in _from_elsewhere(code.modules[module], code)}
    return [
        loaded.placed(_problem(name, path, known, code, own), file)
        for path, name in _places(loaded.data, "")
        if name in lacking
    ]


def _problem(name: str, path: str, known: Collection[str], code: Code, own: Collection[str]) -> Problem:
    hint = closest(name, known) or "mark a function of the folder with @step, or write run: python:module.function"
    for one in code.functions():
        target = f"python:{one.module.name}.{one.name}"
        if one.mark == "step" and _name_of(one) == name:  # of a package
            hint = f"write {target}; a step goes by its name only in the modules of the workflow folder"
        elif one.name == name and one.module.name in own:
            hint = f"mark it with @step, or write {target}"
    return Problem("unknown_step_name", f"no step is named `{name}`", path, hint, severity="warning")


def steps_of(graph: Graph) -> Iterator[Step]:
    """Yields all steps of a definition: those of its nodes, their compensations, and actions after time-outs."""
    for node in graph.nodes.values():
        of_wait = node.wait.timeout_actions if node.wait is not None else ()
        of_call = node.call.timeout_actions if node.call is not None else ()
        yield from (step for step in (node.step, node.compensate, *of_wait, *of_call) if step is not None)


def _is_plain(module: Module) -> bool:
    """Whether all steps of the module can be read off it: none is made by a call, or comes by `import *`."""
    calls = (part for value in module.values.values() for part in ast.walk(value) if isinstance(part, ast.Call))
    return not module.stars and not any(ast.unparse(call.func).rpartition(".")[2] == "step" for call in calls)


def _names_in(module: Module, code: Code) -> Iterator[str]:
    """The names of the steps that the module has, or has imported from the project."""
    yield from (_name_of(one) for one in module.functions.values() if one.mark == "step")
    for full in module.imports.values():
        home, _, name = full.rpartition(".")
        found = code.modules[home].functions.get(name) if home in code.modules else None
        if found is not None and found.mark == "step":
            yield _name_of(found)


def _from_elsewhere(module: Module, code: Code) -> Iterator[str]:
    """What the module has imported from installed packages: it may be a step of this name."""
    yield from (local for local, full in module.imports.items() if full.rpartition(".")[0] not in code.modules)


def _name_of(function: Function) -> str:
    """The name of a step: from `@step(name=…)`, else the function's own."""
    for one in function.node.decorator_list:
        for given in one.keywords if isinstance(one, ast.Call) else ():
            if given.arg == "name" and isinstance(given.value, ast.Constant) and isinstance(given.value.value, str):
                return given.value.value
    return function.name


def _places(value: Json, path: str) -> Iterator[tuple[str, str]]:
    """Each text under a key that may name a step: its place, and the text."""
    if isinstance(value, dict):
        for key, part in value.items():
            here = f"{path}/{pointer_part(key)}"
            if key in _KEYS and isinstance(part, str):
                yield here, part
            yield from _places(part, here)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _places(part, f"{path}/{index}")
