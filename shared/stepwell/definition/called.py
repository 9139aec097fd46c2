"""The workflows that a definition calls as child runs, and a check that they exist."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from itertools import islice

from stepwell.definition.text import closest
from stepwell.errors import Problem
from stepwell.values import dataclass

MOST_PLACES = 100  # reported for one definition: more than anybody reads


@dataclass(frozen=True, slots=True)
class Called:
    """A workflow that a definition calls, and the problem to report if no workflow has that name."""

    workflow: str
    unknown: Problem


def called_at(workflow: str, path: str) -> Called:
    """Records a call; `path` is the JSON pointer to the name."""
    return Called(workflow, Problem("unknown_workflow", f"there is no workflow `{workflow}`", path))


def unknown_workflows(
    called: Iterable[Called], known: Collection[str], severity: str = "error", hint: str = ""
) -> tuple[Problem, ...]:
    """Returns problems for workflows outside `known`, at most MOST_PLACES. The default hint is the closest name."""
    unknown = islice((one for one in called if one.workflow not in known), MOST_PLACES)
    return tuple(replace(one.unknown, severity=severity, hint=hint or closest(one.workflow, known)) for one in unknown)
