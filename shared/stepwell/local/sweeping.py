"""The sweeper of this machine.

It can see the queue, so it wakes only those runs that no message is there for: one whose step merely takes long, or
whose next attempt is due later, is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from stepwell.definition.graph import Json
from stepwell.local.database import Database
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.loop.stopping import Stopping
from stepwell.runtime.loop.sweeper import UNREADABLE, StuckRun, Sweeper
from stepwell.runtime.ports import Lane, Ports, Queue

_QUEUED = "SELECT DISTINCT json_extract(message, '$.type'), json_extract(message, '$.run_id') FROM messages"


class LocalSweeper:
    """Sweeps with a look at the queue first."""

    def __init__(self, ports: Ports, catalog: Catalog, database: Database, stopping: Stopping) -> None:
        self._ports, self._database, self._stopping = ports, database, stopping
        self._logbook = Logbook(ports, catalog)

    async def sweep(self, still_ms: int) -> tuple[StuckRun, ...]:
        """Wakes runs that stand still and have no message. Returns those, and those that cannot be read."""
        queued = frozenset((str(kind), str(run_id)) for kind, run_id in self._database.rows(_QUEUED))
        missing = _MissingOnly(self._ports.queue, queued)
        ports = replace(self._ports, queue=missing)
        found = await Sweeper(ports, self._logbook, self._stopping, sees_queue=True).sweep(still_ms)
        return tuple(one for one in found if one.why == UNREADABLE or one.run_id in missing.sent)


class _MissingOnly:
    """The Queue port, which passes on only what was not there when the sweep began."""

    def __init__(self, queue: Queue, queued: frozenset[tuple[str, str]]) -> None:
        self._queue, self._queued = queue, queued
        self.sent: set[str] = set()

    async def send(self, lane: Lane, message: Mapping[str, Json], at_ms: int = 0) -> None:
        if (message["type"], message["run_id"]) in self._queued:
            return
        self.sent.add(str(message["run_id"]))
        await self._queue.send(lane, message, at_ms)

    async def send_all(self, lane: Lane, messages: Sequence[Mapping[str, Json]]) -> None:
        for message in messages:
            await self.send(lane, message)
