"""Handlers that read the deployment: workflows, statistics, health, and the OpenAPI document."""

from __future__ import annotations

from stepwell.api.checked import CheckBody, check_view
from stepwell.api.exchange import Answer, Call, Route
from stepwell.api.graphs import workflow_summary, workflow_view
from stepwell.api.handlers.asking import page_of_all
from stepwell.api.pauses import pause_view
from stepwell.api.requests import NoQuery, StatsQuery, WholeListQueryString
from stepwell.api.stats import costs_of, stats_view
from stepwell.errors import PortError
from stepwell.limits import PAGE_ITEMS_MAX
from stepwell.runtime.loop.pauses import stopping
from stepwell.runtime.ports import Ports
from stepwell.runtime.ports.headers import RunQuery

_PROBE = "health"  # the kind and the name of the note that tests whether the store accepts writes


async def list_workflows(call: Call) -> Answer:
    asked = call.asked(WholeListQueryString)
    current, pauses = call.parts.catalog.current, await call.parts.workflow_pauses.all()
    return page_of_all([workflow_summary(current[name], stopping(pauses, name)) for name in sorted(current)], asked)


async def get_workflow(call: Call) -> Answer:
    call.asked(NoQuery)
    catalog = call.parts.catalog
    graph = catalog.named(call.path["name"])
    pause = stopping(await call.parts.workflow_pauses.all(), graph.name)
    return Answer(200, workflow_view(graph, pause, catalog.functions.get(graph.code)))


async def check_definition(call: Call) -> Answer:
    """Checks a definition without deploying it, and simulates runs of it."""
    call.asked(NoQuery)
    return Answer(200, check_view(call.body(CheckBody), call.parts.catalog))


async def get_stats(call: Call) -> Answer:
    asked = call.asked(StatsQuery)
    now_ms = call.parts.ports.clock.now_ms()
    overdue = await call.parts.service.runs(RunQuery(overdue_at_ms=now_ms, limit=PAGE_ITEMS_MAX))
    rows = await call.parts.ports.runs.stats()
    costs = await costs_of(call.parts.service, rows) if asked.costs else None
    pauses = [pause_view(one) for one in (await call.parts.workflow_pauses.all()).values()]
    # Of the overdue, a page at most counts.
    return Answer(200, stats_view(rows, len(overdue.headers), now_ms, costs, pauses))


async def get_health(call: Call) -> Answer:
    """Answers whether the store responds and accepts writes."""
    call.asked(NoQuery)
    try:
        await call.parts.ports.notes.get_definition(_PROBE)
        await _probe(call.parts.ports)
    except PortError as error:
        return Answer(503, _health("unavailable", error.message), headers={"Retry-After": "1"})
    return Answer(200, _health("ok", "reached"))


async def _probe(ports: Ports) -> None:
    """Writes a note and reads it back. Raises PortError."""
    notes = ports.notes
    before = await notes.get_note(_PROBE, _PROBE)
    await notes.put_note(_PROBE, _PROBE, str(ports.clock.now_ms()), before)  # False: another call's write was first
    if await notes.get_note(_PROBE, _PROBE) is None:
        raise PortError("the store took a write that cannot be read back")


def _health(status: str, store: str) -> dict[str, object]:
    return {"status": status, "version": installed_version(), "dependencies": {"store": store}}


def installed_version() -> str:
    """Returns the version of this package, or `unknown` if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - loads email and zipfile too

    try:
        return version("stepwell")
    except PackageNotFoundError:
        return "unknown"


LOOKING_ROUTES = (
    Route("GET", "/workflows", list_workflows, "List the deployed workflows", {200: "all of them, or a page"},
          "WorkflowPage", query=WholeListQueryString),
    Route("GET", "/workflows/{name}", get_workflow, "Show a workflow, with its graph and its hash",
          {200: "the deployed version", 404: "no such workflow"}, "WorkflowView"),
    Route("POST", "/check", check_definition, "Check a definition without deploying it, and simulate runs of it",
          {200: "its problems, and if it has no errors its graph and a simulation"}, "CheckView", CheckBody),
    Route("GET", "/stats", get_stats, "Show statistics of all runs", {200: "the statistics"}, "StatsView"),
    Route("GET", "/health", get_health, "Check whether the API works",
          {200: "it works", 503: "a dependency does not answer, or accepts no writes"}, "HealthView"),
)  # fmt: skip
