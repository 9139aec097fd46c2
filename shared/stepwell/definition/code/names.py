"""Checks the steps that a definition names without a module, such as `agent: scorer`, against its folder's code."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from stepwell.definition.code.modules import Code, Function, Module
from stepwell.definition.compiler import compile_definition
from stepwell.definition.graph import Graph, Json, Step
from stepwell.definition.loader import Loaded
from stepwell.definition.text import closest, pointer_part
from stepwell.errors import Problem

_KEYS = frozenset({"run", "agent", "action", "action_type", "actionType"})


def check_names(loaded: Loaded, text: str, file: str, code: Code, own: Collection[str]) -> list[Problem]:
    """Returns a warning for each step that none, or several, of the folder's own modules' `@step` have the name of.

    `own`: the names of these modules. Says nothing where the code may make steps that cannot be read off it.
    """
    graph = compile_definition(text, file).graph
    asked = {step.run for step in steps_of(graph) if ":" not in step.run} if graph is not None else set()
    if not asked or not all(name in code.modules and _is_plain(code.modules[name]) for name in own):
        return []
    known = {name for module in own for name in _names_in(code.modules[module], code)}
    lacking = asked - known - {name for module in own for name in _from_elsewhere(code.modules[module], code)}
    found = [
        _problem(name, path, known, code, own) if name in lacking else _of_several(name, path, code, own)
        for path, name in _places(loaded.data, "")
        if name in asked
    ]
    return [loaded.placed(one, file) for one in found if one is not None]


def _of_several(name: str, path: str, code: Code, own: Collection[str]) -> Problem | None:
    """A name that several steps of the folder have: a run takes the first."""
    steps = (one for module in own for one in code.modules[module].functions.values() if one.mark == "step")
    several = [f"python:{one.module.name}.{one.name}" for one in steps if step_name(one) == name]
    if len(several) < 2:
        return None
    hint = "give one of them another name, or write which you mean"
    message = f"{len(several)} steps are named `{name}`: {', '.join(several)}"
    return Problem("ambiguous_step_name", message, path, hint, severity="warning")


def _problem(name: str, path: str, known: Collection[str], code: Code, own: Collection[str]) -> Problem:
    hint = closest(name, known) or "mark a function of the folder with @step, or write run: python:module.function"
    for one in code.functions():
        target = f"python:{one.module.name}.{one.name}"
        if one.mark == "step" and step_name(one) == name:  # of a package
            hint = f"write {target}; a step goes by its name only in the modules of the workflow folder"
        elif target == f"python:{name}":
            hint = f"write {target}"
        elif one.name == name and one.module.name in own:
            hint = f"mark it with @step, or write {target}"
    return Problem("unknown_step_name", f"no step is named `{name}`", path, hint, severity="warning")


def steps_of(graph: Graph) -> Iterator[Step]:
    """Yields all steps of a definition: those of its nodes, their compensations, and actions after time-outs."""
    for node in graph.nodes.values():
        of_wait = node.wait.timeout_actions if node.wait is not None else ()
        of_call = node.call.timeout_actions if node.call is not None else ()
        yield from (step for step in (node.step, node.compensate, *of_wait, *of_call) if step is not None)


def timed_steps(code: Code, own: Collection[str]) -> set[str]:
    """Returns the `run` of each step with a time limit from `@step(timeout=…)`: its target, and in `own` its name."""
    found = set[str]()
    for module in code.modules.values():
        named = {**imported_functions(module, code), **module.functions}
        for name, function in named.items():
            if function.mark == "step" and _option(function, "timeout") is not None:
                found |= {f"python:{module.name}.{name}", *([step_name(function)] if module.name in own else ())}
    return found


def _is_plain(module: Module) -> bool:
    """Whether all steps of the module can be read off it: none is made by a call, or comes by `import *`."""
    calls = (part for value in module.values.values() for part in ast.walk(value) if isinstance(part, ast.Call))
    return not module.stars and not any(ast.unparse(call.func).rpartition(".")[2] == "step" for call in calls)


def _names_in(module: Module, code: Code) -> Iterator[str]:
    """The names of the steps that the module has, or has imported from the project."""
    yield from (step_name(one) for one in module.functions.values() if one.mark == "step")
    yield from (step_name(one) for one in imported_functions(module, code).values() if one.mark == "step")


def imported_functions(module: Module, code: Code) -> dict[str, Function]:
    """The functions of the project that the module has imported, by their names there."""
    found = dict[str, Function]()
    for local, full in module.imports.items():
        home, _, name = full.rpartition(".")
        if home in code.modules and name in code.modules[home].functions:
            found[local] = code.modules[home].functions[name]
    return found


def _from_elsewhere(module: Module, code: Code) -> Iterator[str]:
    """What the module has imported from installed packages: it may be a step of this name."""
    yield from (local for local, full in module.imports.items() if full.rpartition(".")[0] not in code.modules)


def step_name(function: Function) -> str:
    """The name of a step: from `@step(name=…)`, else the function's own."""
    given = _option(function, "name")
    return given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else function.name


def _option(function: Function, name: str) -> ast.expr | None:
    """What a decorator of the function is given by this name; None for nothing, and for None."""
    calls = (one for one in function.node.decorator_list if isinstance(one, ast.Call))
    found = (one.value for call in calls for one in call.keywords if one.arg == name)
    return next((one for one in found if not (isinstance(one, ast.Constant) and one.value is None)), None)


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
