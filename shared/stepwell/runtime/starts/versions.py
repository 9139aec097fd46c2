"""Versions of a workflow as callers name them: the deployed one, any that is stored, or an alias.

An alias is a note that names a version until it is moved. It is resolved when a run is created, so a run keeps its
version. A version's hash may be cut short, as `stepwell versions` shows it, and a durable function's be named by the
number that its author gave it; an alias comes before both.
PIN means the version of the run that another run is made from; a start with PIN is pinned to the deployed
version.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from stepwell.definition.graph import Graph
from stepwell.errors import Conflict, EngineFault, InvalidInput, NotFound
from stepwell.limits import ALIASES, OPEN_RUNS, PAGE_ITEMS_MAX
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.ports import Ports
from stepwell.runtime.ports.headers import Header, RunQuery
from stepwell.runtime.starts.admission import check_name
from stepwell.runtime.starts.draining import open_runs

LATEST, PIN = "latest", "pin"
_HASH = "sha256:"
_BEGINNING = re.compile(r"(?:sha256:)?([0-9a-f]{7,64})", re.ASCII)
_WHOLE = len(_HASH) + 64
_NUMBER = re.compile(r"[1-9][0-9]{0,5}", re.ASCII)  # shorter than a beginning of a hash


class Versions:
    """Finds the graph of a version, and keeps the aliases."""

    def __init__(self, ports: Ports, catalog: Catalog) -> None:
        self._runs, self._notes, self._catalog = ports.runs, ports.notes, catalog

    async def graph(self, workflow: str, asked: str = "", own: str = "") -> Graph:
        """Returns the graph of a version. Raises NotFound, and InvalidInput `ambiguous_version`.

        `asked`: a version's hash or its beginning, its number, an alias, LATEST, or PIN; "": LATEST. `own`: the version
        that PIN means; "": the deployed one.
        """
        if asked in ("", LATEST) or (asked == PIN and not own):
            return await self._deployed(workflow, own)
        version = own if asked == PIN else await self._whole(workflow, asked)
        try:
            graph = await self._catalog.pinned(version, self._notes)
        except EngineFault as fault:
            raise _unknown(workflow, f"no version {version!r} is stored") from fault
        if graph.name != workflow:
            raise _unknown(workflow, f"{version!r} is a version of {graph.name}")
        return graph

    async def lasting(self, workflow: str, asked: str) -> str:
        """Returns what names the version later too: for a beginning, the whole hash. Raises as `graph` does."""
        graph = await self.graph(workflow, asked)
        is_name = asked in ("", LATEST, PIN) or asked in await self.aliases(workflow)
        return asked if is_name else graph.version

    async def _deployed(self, workflow: str, own: str) -> Graph:
        """Returns the deployed version. Raises NotFound, which says where another one is left."""
        try:
            return self._catalog.named(workflow)
        except NotFound as missing:
            if workflow in self._catalog.flawed or not await self.known(workflow):
                raise
            hint = f"name a `version`: {f'{PIN}, or ' if own else ''}one that `stepwell versions {workflow}` shows"
            if "" in self._catalog.flawed:
                hint = f"{missing.hint}; or {hint}"
            raise NotFound(missing.message, code="unknown_workflow", hint=hint) from missing

    async def known(self, workflow: str) -> frozenset[str]:
        """Returns the deployed version, those with an alias, those of open runs and those of the newest runs."""
        current = self._catalog.current.get(workflow)
        opened, _ = await open_runs(self._runs, workflow, OPEN_RUNS)
        newest = await self._runs.list_runs(RunQuery(workflow, limit=PAGE_ITEMS_MAX))
        found = {*(await self.aliases(workflow)).values(), *opened, *(one.version for one in newest.headers)}
        return frozenset(found | ({current.version} if current else set()))

    async def _whole(self, workflow: str, asked: str) -> str:
        """Returns the whole hash for an alias, a hash or a number. Raises as `graph` does."""
        if asked.startswith(_HASH) and len(asked) == _WHOLE:
            return asked
        if not asked.startswith(_HASH) and (version := await self._notes.get_note(_kind(workflow), asked)):
            return version
        if _NUMBER.fullmatch(asked):
            return await self._numbered(workflow, int(asked))
        begun = _BEGINNING.fullmatch(asked)
        found = sorted(one for one in await self.known(workflow) if one.startswith(_HASH + begun[1])) if begun else []
        if not found:
            raise _unknown(workflow, f"{workflow} has no version or alias {asked!r}")
        if len(found) > 1:
            raise InvalidInput(f"{len(found)} versions of {workflow} begin with {asked!r}", code="ambiguous_version",
                               hint=f"give more of one: {', '.join(found)}")  # fmt: skip
        return found[0]

    async def _numbered(self, workflow: str, number: int) -> str:
        """Returns the hash of a durable function's version by its author's number. The deployed one comes first."""
        current = self._catalog.current.get(workflow)
        if current is not None and is_numbered(current, number):
            return current.version
        graphs = [graph for one in await self.known(workflow) if (graph := await self.stored(one)) is not None]
        found = sorted(graph.version for graph in graphs if is_numbered(graph, number))
        if not found:
            raise _unknown(workflow, f"{workflow} has no version or alias '{number}'")
        if len(found) > 1:
            raise InvalidInput(f"{len(found)} versions of {workflow} have the number {number}",
                               code="ambiguous_version", hint=f"give the hash of one: {', '.join(found)}")  # fmt: skip
        return found[0]

    async def stored(self, version: str) -> Graph | None:
        """Returns the graph of a version; None if it is stored no more, or cannot be read."""
        try:
            return await self._catalog.pinned(version, self._notes)
        except EngineFault:
            return None

    async def aliases(self, workflow: str) -> Mapping[str, str]:
        """Returns the versions by their aliases."""
        return await self._notes.notes(_kind(workflow))

    async def point(self, workflow: str, alias: str, asked: str = "") -> str:
        """Makes or moves an alias; `asked`: as for `graph`. Returns the version.

        Raises NotFound, InvalidInput, Conflict `too_many_aliases`.
        """
        check_name(alias, "alias")
        if alias in (LATEST, PIN) or alias.startswith(_HASH):
            raise InvalidInput(f"{alias!r} cannot be an alias", code="bad_name", hint="it names a version already")
        graph = await self.graph(workflow, asked)
        there = await self.aliases(workflow)
        if alias not in there and len(there) >= ALIASES:
            raise Conflict(f"{workflow} has {ALIASES} aliases", code="too_many_aliases", hint="delete one")
        await self._catalog.keep(graph, self._notes)
        while not await self._notes.put_note(_kind(workflow), alias, graph.version, there.get(alias)):
            there = await self.aliases(workflow)
        return graph.version

    async def drop(self, workflow: str, alias: str) -> None:
        """Deletes an alias. Raises NotFound. Runs that were started with it keep their version."""
        if not await self._notes.drop_note(_kind(workflow), alias):
            raise _unknown(workflow, f"{workflow} has no alias {alias!r}")


def _unknown(workflow: str, message: str) -> NotFound:
    hint = f"{PIN}, {LATEST}, or one that `stepwell versions {workflow}` shows"
    return NotFound(message, code="unknown_version", hint=hint)


def asked_of(old: Header, asked: str) -> str:
    """Returns the version for a run made from this one: as asked, else PIN if this one is pinned, else LATEST."""
    return asked or (PIN if old.pinned else LATEST)


def is_numbered(graph: Graph, number: int) -> bool:
    """Tells whether a version has this number. A durable function without one has 1."""
    return graph.replays and (graph.number or 1) == number


def _kind(workflow: str) -> str:
    return f"alias:{workflow}"
