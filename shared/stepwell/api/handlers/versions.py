"""Handlers of versions: which have open runs, and the aliases that name one."""

from __future__ import annotations

from pydantic import Field

from stepwell.api.exchange import Answer, Call, Route
from stepwell.api.requests import NAME_PATTERN, Body, NoQuery, Query
from stepwell.api.versions import AliasView, names_of, versions_view
from stepwell.errors import NotFound
from stepwell.limits import OPEN_RUNS, OPEN_RUNS_MAX
from stepwell.runtime.starts.draining import open_runs
from stepwell.runtime.starts.versions import Versions


class VersionsQuery(Query):
    most: int = Field(OPEN_RUNS, ge=1, le=OPEN_RUNS_MAX, description="how many open runs are counted, the newest first")


class AliasBody(Body):
    alias: str = Field(json_schema_extra={"pattern": NAME_PATTERN})
    version: str = Field(
        "",
        description="a version's hash or its beginning, a durable function's number, another alias, or latest; "
        "default: the one deployed now",
    )


async def list_versions(call: Call) -> Answer:
    asked, workflow = call.asked(VersionsQuery), call.path["name"]
    versions = _versions(call)
    deployed = await _deployed(call, versions, workflow)
    found, is_whole = await open_runs(call.parts.ports.runs, workflow, asked.most)
    aliases = await versions.aliases(workflow)
    graphs = {one: await versions.stored(one) for one in names_of(deployed, found, aliases)}
    numbers = {one: graph.number for one, graph in graphs.items() if graph is not None}
    return Answer(200, versions_view(workflow, deployed, aliases, found, numbers, is_whole=is_whole))


async def point_alias(call: Call) -> Answer:
    call.asked(NoQuery)
    body, workflow = call.body(AliasBody), call.path["name"]
    version = await _versions(call).point(workflow, body.alias, body.version)
    return Answer(200, AliasView(workflow=workflow, alias=body.alias, version=version))


async def drop_alias(call: Call) -> Answer:
    call.asked(NoQuery)
    await _versions(call).drop(call.path["name"], call.path["alias"])
    return Answer(204, "")


async def _deployed(call: Call, versions: Versions, workflow: str) -> str:
    """Returns the version deployed now; "" if none is, and there are others. Raises NotFound."""
    try:
        return call.parts.catalog.named(workflow).version
    except NotFound:
        if not await versions.known(workflow):
            raise
        return ""


def _versions(call: Call) -> Versions:
    return Versions(call.parts.ports, call.parts.catalog)


VERSION_ROUTES = (
    Route("GET", "/workflows/{name}/versions", list_versions, "List the versions of a workflow that have open runs",
          {200: "the deployed version first, if one is", 404: "no such workflow"}, "VersionsView", query=VersionsQuery),
    Route("POST", "/workflows/{name}/aliases", point_alias, "Make an alias of a version, or move it",
          {200: "it names this version now", 404: "no such workflow or version", 409: "there are 20 aliases"},
          "AliasView", AliasBody),
    Route("DELETE", "/workflows/{name}/aliases/{alias}", drop_alias, "Delete an alias; runs keep their version",
          {204: "deleted", 404: "no such alias"}),
)  # fmt: skip
