"""The workflows that a definition calls as child runs, and those among them that nobody has defined."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from itertools import islice

from stepwell.definition.text import closest
from stepwell.errors import Problem

MOST_PLACES = 100  # told of one definition: more than anybody reads


@dataclass(frozen=True, slots=True)
class Called:
    """A workflow that a definition names, with what there is to say, at its place, where no workflow has that name."""

    workflow: str
    unknown: Problem


def called_at(workflow: str, path: str) -> Called:
    """`path`: the JSON pointer to the name."""
    return Called(workflow, Problem("unknown_workflow", f"there is no workflow `{workflow}`", path))


def unknown_workflows(
    called: Iterable[Called], known: Collection[str], severity: str = "error", hint: str = ""
) -> tuple[Problem, ...]:
    """The places that name a workflow which is not among `known`, at most MOST_PLACES. Default hint: the closest."""
    unknown = islice((one for one in called if one.workflow not in known), MOST_PLACES)
    return tuple(replace(one.unknown, severity=severity, hint=hint or closest(one.workflow, known)) for one in unknown)
