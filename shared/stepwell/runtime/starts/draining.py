"""Draining: lists the versions of a workflow that have open runs, and what those wait for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from stepwell.engine.records import Status
from stepwell.limits import PAGE_ITEMS_MAX
from stepwell.runtime.ports import Runs
from stepwell.runtime.ports.headers import Header, RunQuery

OPEN = frozenset(status for status in Status if not status.terminal)


@dataclass
class OpenRuns:
    """The open runs of one version: counts in all, by status and by wait, and the oldest run."""

    oldest: Header
    count: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    waits: Counter[tuple[str, str]] = field(default_factory=Counter)  # (kind, step)


async def open_runs(runs: Runs, workflow: str, most: int) -> tuple[dict[str, OpenRuns], bool]:
    """Returns the newest `most` open runs by version, and whether those are all."""
    found: dict[str, OpenRuns] = {}
    counted, cursor = 0, ""
    while counted < most:
        limit = min(most - counted, PAGE_ITEMS_MAX)
        page = await runs.list_runs(RunQuery(workflow, OPEN, limit=limit, cursor=cursor))
        for header in page.headers:
            one = found.setdefault(header.version, OpenRuns(header))
            one.oldest = header  # the newest come first
            one.count += 1
            one.statuses[header.status.value] += 1
            if header.waiting_for:
                one.waits[header.waiting_for, header.waiting_node] += 1
        counted, cursor = counted + len(page.headers), page.next_cursor
        if not cursor:
            return found, True
    return found, False
