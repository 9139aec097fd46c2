"""A file beside the definitions that holds a mapping, such as `limits.yaml` and `prices.yaml`: how it is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stepwell.definition.formats.common import Context
from stepwell.definition.graph import Json
from stepwell.errors import Problem
from stepwell.values import dataclass

Check = Callable[[Context, Json], Mapping[str, Json]]  # reports what is wrong, and returns the document


@dataclass(frozen=True, slots=True)
class SideFile:
    """A file's problems and, without errors, its document. An empty one says nothing."""

    document: Mapping[str, Json]
    problems: tuple[Problem, ...] = ()


def check_side_file(text: str, file: str, check: Check) -> SideFile:
    """Checks the text of a side file; never raises. Each problem gets its line."""
    from stepwell.definition.loader import load_document  # noqa: PLC0415 - YAML takes 50 ms

    loaded = load_document(text, file)
    if loaded.problems:
        return SideFile({}, tuple(loaded.problems))
    context = Context()
    document = check(context, loaded.data)
    problems = tuple(loaded.placed(problem, file) for problem in context.problems)
    return SideFile({} if context.failed else document, problems)
