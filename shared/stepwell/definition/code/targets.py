"""Checks the `python:` targets of a definition against the code of its folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from stepwell.definition.code.modules import Code
from stepwell.definition.code.signatures import missing_input
from stepwell.definition.graph import Json
from stepwell.definition.loader import Loaded
from stepwell.definition.text import closest, pointer_part
from stepwell.errors import Problem

_SCHEME = "python:"
_KEYS = ("run", "function")


def check_targets(loaded: Loaded, file: str, code: Code, is_installed: Callable[[str], bool]) -> list[Problem]:
    """Returns the targets that name no module or function, and inputs that lack a parameter.

    `is_installed`: whether a module of this name can be imported from elsewhere.
    """
    found: list[Problem] = []
    for path, key, parent in _targets(loaded.data, ""):
        run = parent[key].removeprefix(_SCHEME)
        if problem := _problem_of(run, path, key, parent, code, is_installed):
            found.append(loaded.placed(problem, file))
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
    function, given = module.functions.get(name), parent.get("input")
    if key == "function" or function is None or not isinstance(given, dict):
        return None
    why = missing_input(function.node, given.keys())
    return Problem("bad_arguments", why, path, "add it to `input`") if why else None
