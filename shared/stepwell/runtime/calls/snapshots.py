"""Snapshots: a run's state and history as JSON Lines, for archives and analysis.

The first line is the run as `GET /runs/{id}` shows it; each further one is an entry of its history, oldest first, up to
the same record. A snapshot is made from the log at the time of writing, never from the change that asked for it: so a
change that comes twice, late, or after a newer one leaves the newest file possible.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Protocol

from stepwell.definition.graph import Graph, Json
from stepwell.engine.entries import entry_json
from stepwell.engine.records import Status
from stepwell.errors import NotFound
from stepwell.runtime.calls.service import Service
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.ports.headers import Header
from stepwell.runtime.stores.files import name_of
from stepwell.runtime.stores.jsontext import encode

View = Callable[[Service, Standing], Awaitable[Mapping[str, Json]]]  # returns the run as the API shows it


class Files(Protocol):
    """The store of snapshots."""

    async def write(self, name: str, lines: AsyncIterator[str]) -> None:
        """Writes all lines, and replaces the file only when the last one is there. Raises PortError."""


class Snapshots:
    """Writes the snapshots that definitions ask for."""

    def __init__(self, service: Service, files: Files, view: View) -> None:
        self._service, self._files, self._view = service, files, view

    async def write_if_due(self, header: Header) -> bool:
        """Writes a snapshot if this state calls for one, and tells whether. Raises PortError, EngineFault."""
        if not may_be_due(header.status):
            return False  # no need to load the definition
        graph = await self._service.graph_of(header)
        if not is_due(graph, header.status):
            return False
        try:
            at = await self._service.standing(header.run_id)
        except NotFound:
            return False  # its retention is over: the last snapshot stays
        await self._files.write(name_of(header), self._lines(at))
        return True

    async def _lines(self, at: Standing) -> AsyncIterator[str]:
        yield _line(await self._view(self._service, at))
        narrator = await self._service.whole_narrator(at.run_id)
        async for entry in narrator.entries(until=at.token.slot):
            yield _line(entry_json(entry))


def may_be_due(status: Status) -> bool:
    """Tells whether any workflow takes a snapshot at this status."""
    return status.terminal or status is Status.WAITING


def is_due(graph: Graph, status: Status) -> bool:
    """Tells whether this workflow takes a snapshot at this status."""
    match graph.snapshot:
        case "on_end":
            return status.terminal
        case "on_wait":
            return may_be_due(status)
        case _:
            return False


def _line(value: Json) -> str:
    return encode(value) + "\n"
