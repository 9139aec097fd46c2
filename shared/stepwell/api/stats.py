"""Statistics of all runs: counts and ages by status, by workflow, and by wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from typing_extensions import TypedDict

from stepwell.definition.graph import Json


class StatusNumbers(TypedDict):
    """Runs of one status; ages are since their creation."""

    count: int
    average_age_seconds: float
    oldest_age_seconds: float


class StatsView(TypedDict):
    """The statistics of all runs."""

    total: int
    statuses: dict[str, StatusNumbers]
    workflows: dict[str, dict[str, int]]
    waits: dict[str, int]
    overdue: int


def stats_view(rows: Iterable[Mapping[str, Json]], overdue: int, now_ms: int) -> StatsView:
    """Builds the statistics from the store's rows, one for each (workflow, status, waiting_for)."""
    by_status: dict[str, list[Mapping[str, Json]]] = {}
    workflows: dict[str, dict[str, int]] = {}
    waits: dict[str, int] = {}
    for row in rows:
        status, count = str(row["status"]), int(row["count"])
        by_status.setdefault(status, []).append(row)
        counts = workflows.setdefault(str(row["workflow"]), {})
        counts[status] = counts.get(status, 0) + count
        if row["waiting_for"]:
            waits[row["waiting_for"]] = waits.get(row["waiting_for"], 0) + count
    statuses = {status: _numbers(found, now_ms) for status, found in by_status.items()}
    total = sum(numbers["count"] for numbers in statuses.values())
    return StatsView(total=total, statuses=statuses, workflows=workflows, waits=waits, overdue=overdue)


def _numbers(rows: list[Mapping[str, Json]], now_ms: int) -> StatusNumbers:
    count = sum(int(row["count"]) for row in rows)
    average_ms = now_ms - sum(int(row["sum_created_ms"]) for row in rows) / count
    oldest_ms = now_ms - min(int(row["oldest_created_ms"]) for row in rows)
    return StatusNumbers(
        count=count, average_age_seconds=round(average_ms / 1000, 3), oldest_age_seconds=round(oldest_ms / 1000, 3)
    )
