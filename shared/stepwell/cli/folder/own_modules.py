"""Imports of the project's own modules that `packages` leaves out, so that Lambda does not get them.

They are found here where the project is installed, as `uv sync` and `pip install -e .` do.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from stepwell.definition.code.modules import read_code
from stepwell.errors import Problem
from stepwell.project import Project
from stepwell.runtime.folder.sources import read_texts

_MISSING = re.compile(r"there is no module '([^'.]+)")
_ITSELF = frozenset({".", "-e .", "--editable ."})  # a requirement that packs the project


def with_own_places(problems: Iterable[Problem], project: Project) -> Iterator[Problem]:
    """Yields the problems; where a module is not found that the project has, the hint says so."""
    for problem in problems:
        missing = _MISSING.match(problem.message)
        place = _place(project, missing[1]) if missing else None
        yield problem if place is None else replace(problem, hint=_hint(place))


def not_in_packages(folder: Path, project: Project) -> Iterator[Problem]:
    """Yields a warning for each module of the project that its code imports and that is not packed."""
    left = _found_outside(project)
    if not left or _packs_itself(project):
        return
    texts = read_texts(folder, project.sources[1:])
    for name in texts:
        left.pop(name.partition(".")[0], None)
    for module in read_code(texts).modules.values() if left else ():
        imported = {name.partition(".")[0] for name in (*module.imports.values(), *module.stars)}
        for head in sorted(imported & left.keys()):
            message = f"{head} is the project's own, and not among `packages` of [tool.stepwell]: Lambda lacks it"
            hint = _hint(left.pop(head))
            yield Problem("not_in_packages", message, hint=hint, file=module.file, severity="warning")


def _hint(place: Path) -> str:
    return f"add {json.dumps(place.as_posix())} to `packages` of [tool.stepwell]"


def _place(project: Project, name: str) -> Path | None:
    """Returns where the project has a module of this name, from its root."""
    if not project.document:
        return None
    for base in (Path(), Path("src")):
        if (project.root / base / name / "__init__.py").is_file():
            return base / name
        if (project.root / base / f"{name}.py").is_file():
            return base / f"{name}.py"
    return None


def _found_outside(project: Project) -> dict[str, Path]:
    """Returns the project's own modules that an import finds here, by name, but for its packages."""
    if not project.document:
        return {}
    packed = {project.folder.resolve(), *((project.root / package).resolve() for package in project.packages)}
    places = (path for place in ("*.py", "*/__init__.py", "src/*.py", "src/*/__init__.py")
              for path in project.root.glob(place))  # fmt: skip
    names = {path.parent.name if path.name == "__init__.py" else path.stem for path in places}
    found = {name: place for name in names - sys.stdlib_module_names if (place := _place(project, name))}
    return {
        name: place
        for name, place in found.items()
        if (project.root / place).resolve() not in packed and _is_found_at(project.root / place, name)
    }


def _is_found_at(place: Path, name: str) -> bool:
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return False
    origin = Path(spec.origin).resolve() if spec is not None and spec.origin else None
    return origin in {place.resolve(), (place / "__init__.py").resolve()}


def _packs_itself(project: Project) -> bool:
    lines = (line for file in project.requirements_files for line in file.read_text(encoding="utf-8").splitlines())
    return any(line.strip() in _ITSELF for line in lines)
