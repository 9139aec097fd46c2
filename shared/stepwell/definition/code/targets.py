"""Checks the `python:` targets of a definition against the code of its folder."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping

from stepwell.definition.code.misspelt_inputs import misspelt_inputs
from stepwell.definition.code.modules import Code, Module
from stepwell.definition.code.signatures import missing_input
from stepwell.definition.graph import Json
from stepwell.definition.loader import Loaded
from stepwell.definition.text import closest, pointer_part
from stepwell.errors import Problem

_SCHEME = "python:"
_KEYS = ("run", "function")
_VALUES = (ast.Constant, ast.JoinedStr, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)


def check_targets(loaded: Loaded, file: str, code: Code, is_installed: Callable[[str], bool]) -> list[Problem]:
    """Returns the targets that name no module or function, and inputs that lack a parameter, or misspell one.

    `is_installed`: whether a module of this name can be imported from elsewhere.
    """
    found: list[Problem] = []
    for path, key, parent in _targets(loaded.data, ""):
        run = parent[key].removeprefix(_SCHEME)
        if problem := _problem_of(run, path, key, parent, code, is_installed):
            found.append(loaded.placed(problem, file))
        elif key != "function":
            found += [loaded.placed(one, file) for one in _misspelt(run, path, parent.get("input"), code)]
    return found


def target_functions(loaded: Loaded) -> set[str]:
    """Returns the functions that the definition's targets name, as `module.name`."""
    return {parent[key].removeprefix(_SCHEME) for _, key, parent in _targets(loaded.data, "")}


def _targets(value: Json, path: str) -> Iterator[tuple[str, str, Mapping[str, Json]]]:
    """Each Python function of a `run:`, a `function:` or the `resources`: its place, its key, the mapping around it."""
    if isinstance(value, dict):
        for key, part in value.items():
            here = f"{path}/{pointer_part(key)}"
            if (key in _KEYS or path == "/resources") and isinstance(part, str) and part.startswith(_SCHEME):
                yield here, key, value
            yield from _targets(part, here)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _targets(part, f"{path}/{index}")


def _problem_of(
    run: str, path: str, key: str, parent: Mapping[str, Json], code: Code, is_installed: Callable[[str], bool]
) -> Problem | None:
    home, _, name = run.rpartition(".")
    if not home:
        return None  # it names no function, which is reported with the definition
    module = code.modules.get(home)
    if module is None:
        if is_installed(home):
            return None
        hint = closest(home, code.modules) or (
            "modules are imported from the workflow folder, and from the packages that [tool.stepwell] names"
        )
        return Problem("unknown_module", f"there is no module {home!r}", path, hint)
    if not module.has(name):
        return Problem("unknown_function", f"there is no function {name!r} in {home}", path,
                       closest(name, module.functions))  # fmt: skip
    if _is_value(module, name):
        message = f"{name!r} in {home} is {ast.unparse(module.values[name])[:40]}, and no function"
        return Problem("unknown_function", message, path, closest(name, module.functions))
    function, given = module.functions.get(name), parent.get("input")
    if key == "function" or function is None or not isinstance(given, dict):
        return None
    why = missing_input(function.node, given.keys())
    return Problem("bad_arguments", why, path, "add it to `input`") if why else None


def _misspelt(run: str, path: str, given: Json, code: Code) -> Iterator[Problem]:
    """Warns of the names of an input that are left out, and most likely are to be others."""
    home, _, name = run.rpartition(".")
    function = code.modules[home].functions.get(name) if home in code.modules else None
    if function is None or not isinstance(given, dict):
        return
    for wrong, owner, hint in misspelt_inputs(function, given, code):
        place = f"{path.rpartition('/')[0]}/input/{pointer_part(wrong)}"
        yield Problem("unknown_input", f"{owner} has no {wrong!r}, which is left out", place, hint, severity="warning")


def _is_value(module: Module, name: str) -> bool:
    """Tells whether the module gives this name a value that is certainly no function, and nothing else."""
    others = (module.functions, module.classes, module.imports, module.given_twice)
    return isinstance(module.values.get(name), _VALUES) and not any(name in other for other in others)
