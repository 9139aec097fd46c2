"""The API's view of a workflow's versions: which is deployed, which have aliases, and which have open runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from typing_extensions import TypedDict

from stepwell.engine.names import iso
from stepwell.runtime.log.conditions import step_shown
from stepwell.runtime.starts.draining import OpenRuns


class OldestView(TypedDict):
    """The oldest open run of a version, and what it waits for."""

    run_id: str
    created_at: str
    status: str
    waiting_for: str | None
    waiting_step: str | None


class WaitCount(TypedDict):
    """How many open runs wait for this at that step."""

    waiting_for: str
    step: str
    runs: int


class VersionView(TypedDict):
    """A version, with its open runs. `version_number`: what the author of a durable function gave it."""

    version: str
    version_number: int | None
    deployed: bool
    aliases: list[str]
    runs: int
    statuses: dict[str, int]
    waits: list[WaitCount]
    oldest: OldestView | None


class VersionsView(TypedDict):
    """The deployed version, then others by their open runs. `is_whole`: all open runs were counted."""

    workflow: str
    is_whole: bool
    items: list[VersionView]


class AliasView(TypedDict):
    """An alias and the version that it names."""

    workflow: str
    alias: str
    version: str


def versions_view(
    workflow: str,
    deployed: str,
    aliases: Mapping[str, str],
    found: Mapping[str, OpenRuns],
    numbers: Mapping[str, int | None],
    *,
    is_whole: bool,
) -> VersionsView:
    """Builds the view; a version with an alias is in it without open runs too. `deployed`: "" if none is."""
    names = names_of(deployed, found, aliases)
    items = [
        _view(name, numbers.get(name), found.get(name), [one for one in aliases if aliases[one] == name],
              name == deployed)
        for name in names
    ]  # fmt: skip
    items.sort(key=lambda one: (not one["deployed"], -one["runs"]))
    return VersionsView(workflow=workflow, is_whole=is_whole, items=items)


def names_of(deployed: str, found: Iterable[str], aliases: Mapping[str, str]) -> list[str]:
    """Returns the versions to list, each once."""
    return list(dict.fromkeys((*((deployed,) if deployed else ()), *found, *aliases.values())))


def _view(
    version: str, number: int | None, runs: OpenRuns | None, aliases: list[str], is_deployed: bool
) -> VersionView:
    waits = runs.waits.most_common() if runs else []
    return VersionView(
        version=version,
        version_number=number,
        deployed=is_deployed,
        aliases=aliases,
        runs=runs.count if runs else 0,
        statuses=dict(runs.statuses) if runs else {},
        waits=[WaitCount(waiting_for=kind, step=step_shown(kind, step), runs=count) for (kind, step), count in waits],
        oldest=_oldest(runs) if runs else None,
    )


def _oldest(runs: OpenRuns) -> OldestView:
    one = runs.oldest
    return OldestView(
        run_id=one.run_id,
        created_at=iso(one.created_ms),
        status=one.status.value,
        waiting_for=one.waiting_for or None,
        waiting_step=step_shown(one.waiting_for, one.waiting_node) or None,
    )
