"""Reads and checks the code of a workflow folder without importing it. No problem here keeps a run from starting."""

from __future__ import annotations

from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path

from stepwell.definition.code.checks import check_code
from stepwell.definition.code.children import children_of, unknown_children
from stepwell.definition.code.limits import long_timeouts_of, unknown_limits_of
from stepwell.definition.code.modules import Code, read_code
from stepwell.definition.code.names import check_names
from stepwell.definition.code.retries import doubtful_categories_of
from stepwell.definition.code.short_waits import short_waits_of
from stepwell.definition.code.steps import wrong_steps_of
from stepwell.definition.code.targets import check_targets, target_functions
from stepwell.definition.code.typed_dicts import typed_dicts_of
from stepwell.definition.loader import Loaded, load_document
from stepwell.definition.resources import FILES as RESOURCE_FILES
from stepwell.errors import Problem
from stepwell.project import project_of, this_python
from stepwell.runtime.folder.fired import unfit_firings
from stepwell.runtime.folder.imports import check_imports
from stepwell.runtime.folder.loading import definition_files, load_folder, load_limits
from stepwell.runtime.folder.reading import read_text
from stepwell.runtime.folder.sources import read_texts
from stepwell.scan import module_name, modules


def check_folder_code(path: Path, packages: Collection[Path] = ()) -> tuple[Problem, ...]:
    """Returns the problems of a folder's durable functions, definition targets, named steps, imports and limit names.

    `packages`: the project's packages beside the folder.
    """
    texts = read_texts(path, packages)
    code, own = read_code(texts), [module_name(path, file) for file in modules(path)]
    problems, targets = [*check_code(code), *long_timeouts_of(code), *doubtful_categories_of(code)], set[str]()
    problems += (*wrong_steps_of(code), *short_waits_of(code))
    limits = load_limits(path)
    problems += [] if limits.problems else unknown_limits_of(code, limits.document)
    written: dict[str, tuple[Path, Loaded]] = {}
    for file in (*definition_files(path), *_resource_files(path)):
        text, _ = read_text(file)
        if text is not None:
            loaded = load_document(text)
            targets |= target_functions(loaded)
            written[_workflow_of(loaded, file)] = file, loaded
            problems += check_targets(loaded, str(file), code, lambda name: _is_there(name, texts))
            problems += check_names(loaded, text, str(file), code, own)
    problems += _unknown_children(path, code, own)
    problems += [one for graph in load_folder(path).graphs for one in unfit_firings(graph, code, written)]
    problems += typed_dicts_of(code, targets, _oldest_python(path))
    return (*problems, *check_imports(code, texts, {one.rpartition(".")[0] for one in targets}))


def _resource_files(path: Path) -> list[Path]:
    """Returns the file that says what runs in place of the resources of state machines, if there is one."""
    return [file for name in RESOURCE_FILES if (file := path / name).is_file()]


def _workflow_of(loaded: Loaded, file: Path) -> str:
    """The name of a definition's workflow, which is by default that of its file."""
    return str(loaded.data.get("workflow", file.stem)) if isinstance(loaded.data, dict) else file.stem


def _unknown_children(path: Path, code: Code, own: Collection[str]) -> list[Problem]:
    """Returns a problem for each child run of an unknown workflow: none while it may be in a file with errors."""
    children = list(children_of(code))
    folder = load_folder(path) if children else None
    if folder is None or folder.errors:
        return []
    return unknown_children(children, sorted(graph.name for graph in folder.graphs), own)


def _oldest_python(path: Path) -> tuple[int, ...]:
    """Returns the version of this Python, or that of the project's functions, if it is older."""
    return min(tuple(map(int, one.split("."))) for one in (this_python(), project_of(path).python))


def _is_there(module: str, own: Collection[str]) -> bool:
    """Tells whether a module can be imported: an installed package is found, and not run."""
    head = module.partition(".")[0]
    return module in own or (head not in own and find_spec(head) is not None)
