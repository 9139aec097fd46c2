"""Reads the modules of a workflow folder, and of the project's packages beside it, without importing them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from stepwell.definition.checks import UNTIMED, untimed
from stepwell.definition.code.modules import Code, read_code
from stepwell.definition.code.names import timed_steps
from stepwell.definition.graph import Graph
from stepwell.errors import Problem
from stepwell.project import project_of
from stepwell.runtime.folder.reading import read_text
from stepwell.scan import module_name, modules


def read_folder_code(path: Path, packages: Collection[Path] = ()) -> Code:
    """Reads the modules of the folder and of the packages."""
    return read_code(read_texts(path, packages))


def read_texts(path: Path, packages: Collection[Path]) -> Mapping[str, tuple[str, str]]:
    """Returns the file and the source of each module, by its name."""
    return {
        name: (str(file), text)
        for name, file in _all_modules(path, packages)
        if (text := read_text(file)[0]) is not None
    }


def without_timed(problems: Iterable[Problem], graphs: Iterable[Graph], path: Path) -> tuple[Problem, ...]:
    """Leaves out the warnings about steps whose functions have a time limit, from `@step(timeout=…)`."""
    found = tuple(problems)
    if not any(one.code == UNTIMED for one in found):
        return found
    code = read_folder_code(path, project_of(path).sources[1:])
    timed = timed_steps(code, [module_name(path, file) for file in modules(path)])
    theirs = {
        (graph.name, untimed(node.name))
        for graph in graphs
        for node in graph.nodes.values()
        if node.step is not None and node.step.run in timed
    }
    return tuple(one for one in found if one.code != UNTIMED or (one.workflow, one.message) not in theirs)


def _all_modules(path: Path, packages: Collection[Path]) -> Iterator[tuple[str, Path]]:
    """Yields the modules of the folder and of the packages, by the names under which they are imported."""
    yield from ((module_name(path, file), file) for file in modules(path))
    for package in packages:
        found = modules(package) if package.is_dir() else [package]
        yield from ((module_name(package.parent, file), file) for file in found)
