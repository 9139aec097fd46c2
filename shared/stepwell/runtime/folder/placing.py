"""Finds the lines of problems that were found in a folder as a whole: they have a pointer, and no line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from stepwell.definition.loader import Loaded, load_document
from stepwell.errors import Problem
from stepwell.runtime.folder.loading import is_definition
from stepwell.runtime.folder.reading import read_text

_ENVELOPE = "/spec"  # a definition may stand in one, which its own pointers do not have


def with_lines(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Returns the problems, each with the line of its pointer. A problem in code has none."""
    load = lru_cache(maxsize=None)(_load)
    return tuple(_with_line(one, load(one.file)) if _lacks_line(one) else one for one in problems)


def _lacks_line(problem: Problem) -> bool:
    return bool(problem.path) and not problem.line and is_definition(Path(problem.file))


def _load(file: str) -> Loaded:
    text, _ = read_text(Path(file))
    return Loaded() if text is None else load_document(text, file)


def _with_line(problem: Problem, loaded: Loaded) -> Problem:
    is_inside = problem.path not in loaded.places and f"{_ENVELOPE}{problem.path}" in loaded.places
    path = f"{_ENVELOPE}{problem.path}" if is_inside else problem.path
    return loaded.placed(replace(problem, path=path), problem.file)
