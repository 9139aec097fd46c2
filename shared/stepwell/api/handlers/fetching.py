"""Handlers that hand out whole values: a run's result, and what other answers show as a size with a link."""

from __future__ import annotations

import math
from typing import Any

from pydantic import Field

from stepwell.api.exchange import Answer, Call, Route
from stepwell.api.large import linked, pointed, result_of
from stepwell.api.problems import problem
from stepwell.api.requests import BRANCH_PATTERN, ENTRY_PATTERN, Query, WaitQuery
from stepwell.api.runs.branches import read_branches
from stepwell.api.runs.flows import read_drawn
from stepwell.api.runs.histories import entry_with
from stepwell.api.runs.moments import state_view
from stepwell.api.runs.states import error_of, status_of, summary_of
from stepwell.api.runs.steps import error_view
from stepwell.api.runs.views import links, view_of
from stepwell.definition.graph import Json
from stepwell.engine.entries import entry_json
from stepwell.engine.forks.branches import fork_id, parent_of
from stepwell.engine.records import ROOT, Status
from stepwell.errors import InvalidInput, NotFound
from stepwell.limits import RUN_STEPS
from stepwell.runtime.calls.moments import as_of


class ValueQueryString(Query):
    path: str = Field(description="a JSON Pointer, such as /state/report", pattern=r"^(/[^/]*)+$")
    entry: str = Field(
        "",
        description="in the entry of the history with this id; else in the run as GET /runs/{id} shows it",
        json_schema_extra={"pattern": ENTRY_PATTERN},
    )
    token: str = Field("", description="in this branch", json_schema_extra={"pattern": f"^$|{BRANCH_PATTERN}"})
    at: int | None = Field(None, ge=0, le=RUN_STEPS, description="in the state that the record of this slot left")
    graph: bool = Field(False, description="in the graph as JSON")
    blob: str = Field(
        "",
        description="in a value that an answer has as a link because it looks like one; it is handed out as it is",
        json_schema_extra={"pattern": "^([0-9a-f]{64})?$"},
    )


async def get_result(call: Call) -> Answer:
    """Answers with a run's result, its error, or the fact that it still runs."""
    run_id, wait = call.path["run_id"], call.asked(WaitQuery).wait
    service = call.parts.service
    if wait > 0:
        await service.wait_for_end(run_id, math.ceil(wait * 1000))
    at = await service.standing(run_id)
    status = status_of(at)
    shown: dict[str, Json] = {"run_id": run_id, "status": status.value}
    if status is Status.COMPLETED:
        return Answer(200, {**shown, "result": await result_of(run_id, at.token.result, service.ports.blobs)})
    if not status.terminal:
        return Answer(202, {**shown, "result": None, "links": links(run_id)}, headers={"Retry-After": "1"})
    more = {"run_id": run_id, "run_status": status.value, "error": error_view(error_of(at.token))}
    return problem(409, f"run_{status.value}", summary_of(at) or status.value, more=more)


async def get_value(call: Call) -> Answer:
    """Answers with one value of a run, however large: another answer shows its size and links here."""
    asked, run_id = call.asked(ValueQueryString), call.path["run_id"]
    named = [name for name in ("entry", "token", "at", "graph", "blob") if name in asked.model_fields_set]
    if len(named) > 1:
        raise InvalidInput(f"`{named[0]}` and `{named[1]}` do not combine", code="bad_filter", hint="send one of them")
    value = pointed(await _shown(call, asked), asked.path)
    if not asked.blob:
        value = await result_of(run_id, value, call.parts.ports.blobs)
    return Answer(200, {"run_id": run_id, "path": asked.path, "value": value})


async def _shown(call: Call, asked: ValueQueryString) -> Any:
    """Returns the answer in which the value is, with nothing left out."""
    service, run_id = call.parts.service, call.path["run_id"]
    if asked.blob:
        return await linked(run_id, asked.blob, service.ports.blobs)
    if asked.entry:
        return entry_json(await entry_with(service, run_id, asked.entry))
    if asked.token:
        parent, slot, index = parent_of(asked.token) or (ROOT, 0, 0)
        found = await service.branches(run_id, fork_id(parent, slot), index, 1) if asked.token != ROOT else ()
        if not found:
            raise NotFound(f"run {run_id} has no branch {asked.token[:80]}", code="unknown_branch")
        return (await read_branches(service, found))[0]
    at = await service.standing(run_id)
    if asked.graph:
        return (await read_drawn(service, at)).json()
    if asked.at is not None:
        before, after = await as_of((await service.narrator(run_id)).logbook, at, asked.at)
        return state_view(before, after, at.token.slot)
    return await view_of(service, at)


_RUN = {404: "no such run"}

FETCHING_ROUTES = (
    Route("GET", "/runs/{run_id}/result", get_result, "Show a run's output",
          {200: "the run completed", 202: "the run has not ended", 409: "the run ended without an output: see `error`",
           **_RUN}, "ResultView", query=WaitQuery),
    Route("GET", "/runs/{run_id}/value", get_value,
          "Hand out a value that another answer shows as its size with a link",
          {200: "the value; of one that cannot be sent its size, and a link that works for five minutes",
           404: "no such run, or nothing is there"}, "ValueView", query=ValueQueryString),
)  # fmt: skip
