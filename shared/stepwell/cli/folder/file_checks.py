"""Checks one definition file like the folder that it is in: its targets, the modules that these import, its limits."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from stepwell.definition.clauses.throttles import unknown_limits
from stepwell.definition.code.modules import Code, read_code
from stepwell.definition.code.targets import target_functions
from stepwell.definition.graph import Graph
from stepwell.definition.loader import load_document
from stepwell.errors import Problem
from stepwell.project import project_of
from stepwell.runtime.folder.code import check_folder_code
from stepwell.runtime.folder.loading import check_module, load_limits
from stepwell.runtime.folder.sources import read_texts

_ELSEWHERE = "it may be in a folder above; check the whole folder"


def check_code_of(path: Path, text: str, folder: Path, *, is_known: bool) -> Sequence[Problem]:
    """Returns what the check of the folder says of a definition's targets and named steps, and of their modules.

    `is_known`: the folder is a project's. Else a missing module may be in a folder above, and is a warning.
    """
    homes = {one.rpartition(".")[0] for one in target_functions(load_document(text))}
    packages = project_of(folder).sources[1:]
    try:
        found, texts = check_folder_code(folder, packages), read_texts(folder, packages)
    except PermissionError:  # of a folder beside the file, such as one in /tmp
        return ()
    code = read_code(texts)
    own = [replace(one, file=str(path)) for one in found if Path(one.file).resolve() == path.resolve()]
    files = {texts[name][0] for name in _reached(code, homes & texts.keys())}
    imports = [one for one in found if one.code == "unknown_import" and one.file in files]
    unread = [one for name in sorted((homes & texts.keys()) - code.modules.keys())
              for one in check_module(Path(texts[name][0]))[1]]  # fmt: skip
    sure = [one if is_known or one.code != "unknown_module" else _doubtful(one) for one in own]
    return (*sure, *imports, *unread)


def check_limits_of(graph: Graph, folder: Path, file: str, *, is_known: bool) -> Sequence[Problem]:
    """Returns the limits that the definition names and the folder's limits.yaml does not have."""
    limits = load_limits(folder)
    found = [] if limits.problems else list(unknown_limits(graph, limits.document, file))
    return found if is_known else list(map(_doubtful, found))


def _doubtful(problem: Problem) -> Problem:
    """Returns the problem as a warning, with the hint that the folder may be another one."""
    hint = f"{problem.hint}; {_ELSEWHERE}" if problem.hint else _ELSEWHERE
    return replace(problem, severity="warning", hint=hint)


def _reached(code: Code, names: Collection[str]) -> Iterator[str]:
    """Yields these modules of the project, and those of it that they import."""
    todo, seen = [*names], set[str]()
    while todo:
        if (name := todo.pop()) in seen:
            continue
        seen.add(name)
        yield name
        module = code.modules.get(name)
        for full in (*module.imports.values(), *module.stars) if module else ():
            todo += [one for one in (full, full.rpartition(".")[0]) if one in code.modules]
