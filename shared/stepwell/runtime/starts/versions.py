"""Versions of a workflow as callers name them: the deployed one, any that is stored, or an alias.

An alias is a note that names a version until it is moved. It is resolved when a run is created, so a run keeps its
version. PIN means the version of the run that another run is made from; a start with PIN is pinned to the deployed
version.
"""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.definition.graph import Graph
from stepwell.errors import Conflict, EngineFault, InvalidInput, NotFound
from stepwell.limits import ALIASES
from stepwell.runtime.admission import check_name
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.ports import Notes
from stepwell.runtime.ports.headers import Header

LATEST, PIN = "latest", "pin"
_HASH = "sha256:"


class Versions:
    """Finds the graph of a version, and keeps the aliases."""

    def __init__(self, notes: Notes, catalog: Catalog) -> None:
        self._notes, self._catalog = notes, catalog

    async def graph(self, workflow: str, asked: str = "", own: str = "") -> Graph:
        """Returns the graph of a version. Raises NotFound.

        `asked`: a version's hash, an alias, LATEST, or PIN; "": LATEST. `own`: the version that PIN means; "": the
        deployed one.
        """
        if asked == PIN:
            asked = own
        if asked in ("", LATEST):
            return self._catalog.named(workflow)
        version = asked if asked.startswith(_HASH) else await self._notes.get_note(_kind(workflow), asked)
        if version is None:
            raise NotFound(f"{workflow} has no version or alias {asked!r}", code="unknown_version",
                           hint=f"{PIN}, {LATEST}, or one that `stepwell versions {workflow}` shows")  # fmt: skip
        try:
            graph = await self._catalog.pinned(version, self._notes)
        except EngineFault as fault:
            raise NotFound(f"no version {version!r} is stored", code="unknown_version") from fault
        if graph.name != workflow:
            raise NotFound(f"{version!r} is a version of {graph.name}", code="unknown_version")
        return graph

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
            raise NotFound(f"{workflow} has no alias {alias!r}", code="unknown_version")


def asked_of(old: Header, asked: str) -> str:
    """Returns the version for a run made from this one: as asked, else PIN if this one is pinned, else LATEST."""
    return asked or (PIN if old.pinned else LATEST)


def _kind(workflow: str) -> str:
    return f"alias:{workflow}"
