"""Statistics of all runs: counts and ages by status, by workflow, and by wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from typing_extensions import TypedDict

from stepwell.api.pauses import WorkflowPauseView
from stepwell.definition.graph import Json
from stepwell.engine.records import Status
from stepwell.errors import EngineFault, NewerFormat, NotFound
from stepwell.prices import Prices, usd_here
from stepwell.runtime.calls.ledger import Cost
from stepwell.runtime.calls.service import Service
from stepwell.runtime.ports.headers import RunQuery

COSTED_WORKFLOWS, COSTED_RUNS = 20, 5  # whose logs one call reads
_ENDED = frozenset(status for status in Status if status.terminal)


class StatusNumbers(TypedDict):
    """Runs of one status; ages are since their creation."""

    count: int
    average_age_seconds: float
    oldest_age_seconds: float


class WorkflowCost(TypedDict):
    """What a workflow's runs cost on AWS: the mean ledger of its newest ended runs.

    `usd_estimated`: of all its ended runs that are stored, at that mean.
    """

    runs_read: int
    usd_per_run: float
    write_units_per_run: float
    step_seconds_per_run: float
    usd_estimated: float
    prices_as_of: str


class StatsView(TypedDict):
    """The statistics of all runs. `costs`: by workflow, if they were asked for. `paused`: workflows, `*` for all.

    `at_least`: statuses of which there are too many to count; their numbers are those of the newest runs.
    """

    total: int
    at_least: list[str]
    statuses: dict[str, StatusNumbers]
    workflows: dict[str, dict[str, int]]
    waits: dict[str, int]
    overdue: int
    costs: dict[str, WorkflowCost] | None
    paused: list[WorkflowPauseView]


def stats_view(
    rows: Iterable[Mapping[str, Json]],
    overdue: int,
    now_ms: int,
    costs: dict[str, WorkflowCost] | None = None,
    paused: Sequence[WorkflowPauseView] = (),
) -> StatsView:
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
    at_least = sorted(status for status, found in by_status.items() if any(row.get("at_least") for row in found))
    return StatsView(
        total=total,
        at_least=at_least,
        statuses=statuses,
        workflows=workflows,
        waits=waits,
        overdue=overdue,
        costs=costs,
        paused=[*paused],
    )


async def costs_of(service: Service, rows: Sequence[Mapping[str, Json]]) -> dict[str, WorkflowCost]:
    """Returns the costs of the workflows with the most ended runs. Reads a page and a few logs of each, writes nothing.

    A run that cannot be read, for example because its retention has just ended, is left out.
    """
    ended: Counter[str] = Counter()
    for row in rows:
        if Status(row["status"]).terminal:
            ended[str(row["workflow"])] += int(row["count"])
    costs = {}
    for name, count in ended.most_common(COSTED_WORKFLOWS):
        page = await service.runs(RunQuery(name, _ENDED, limit=COSTED_RUNS))
        ledgers = [cost for header in page.headers if (cost := await _ledger(service, header.run_id)) is not None]
        if ledgers:
            costs[name] = _cost(ledgers, count, service.prices())
    return costs


async def _ledger(service: Service, run_id: str) -> Cost | None:
    try:
        _, cost = await service.surveyed_with_cost(await service.standing(run_id))
    except (NotFound, EngineFault, NewerFormat):
        return None
    return cost


def _cost(ledgers: Sequence[Cost], ended: int, prices: Prices) -> WorkflowCost:
    count = len(ledgers)
    usd = sum(usd_here(asdict(one), prices) for one in ledgers) / count
    return WorkflowCost(
        runs_read=count,
        usd_per_run=round(usd, 9),
        write_units_per_run=round(sum(one.write_units for one in ledgers) / count, 3),
        step_seconds_per_run=round(sum(one.step_seconds for one in ledgers) / count, 3),
        usd_estimated=round(usd * ended, 6),
        prices_as_of=prices.as_of,
    )


def _numbers(rows: list[Mapping[str, Json]], now_ms: int) -> StatusNumbers:
    count = sum(int(row["count"]) for row in rows)
    average_ms = now_ms - sum(int(row["sum_created_ms"]) for row in rows) / count
    oldest_ms = now_ms - min(int(row["oldest_created_ms"]) for row in rows)
    return StatusNumbers(
        count=count, average_age_seconds=round(average_ms / 1000, 3), oldest_age_seconds=round(oldest_ms / 1000, 3)
    )
