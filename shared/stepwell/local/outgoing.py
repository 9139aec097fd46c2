"""Outgoing webhooks of the dev server: deliveries to endpoints from queues in a separate file.

The store reports each change after writing it; a queued delivery survives a restart. A change that is written just as
the process is killed is not delivered; on AWS, the stream would deliver it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from stepwell.definition.graph import Json
from stepwell.engine.records import Status
from stepwell.errors import StepwellError
from stepwell.local.database import Database
from stepwell.local.endpoint_queues import EndpointQueue, adopt, drop_others, post_all
from stepwell.local.ends import Ends
from stepwell.local.live import LiveFeed
from stepwell.local.snapshotting import SnapshottingStore
from stepwell.local.sqlite_queue import SqliteQueue
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.notify.endpoints import Endpoint, endpoints_of
from stepwell.runtime.notify.notifications import notifications_of
from stepwell.runtime.notify.sender import Sender
from stepwell.runtime.notify.telling import Notice, Teller
from stepwell.runtime.ports import Appended, Blobs, Clock, EventRef, Pause, Writes
from stepwell.runtime.ports.headers import Header, StatusChange

_logger = logging.getLogger("stepwell.webhooks")

_BROKEN = (StepwellError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class Outgoing:
    """The endpoints and their queues. The queues' file is created when needed."""

    def __init__(self, file: Path, sender: Sender, clock: Clock, stopping: threading.Event) -> None:
        self._file, self._sender, self._clock, self._stopping = file, sender, clock, stopping
        self._endpoints: tuple[Endpoint, ...] = ()
        self._database: Database | None = None
        self._queues: dict[str, EndpointQueue] = {}

    @property
    def wanted(self) -> bool:
        """Whether there are endpoints."""
        return bool(self._endpoints)

    def replace(self, document: Mapping[str, Json] | None) -> None:
        """Serves this `webhooks.yaml` from now on; drops deliveries to other endpoints. Raises PortError."""
        found = endpoints_of(document)
        self._sender.replace(found)
        if self._database is None and (found or self._file.exists()):
            self._database = self._opened()
        self._endpoints = tuple(found.values())
        if self._database is not None:
            self._serve(self._database, found)

    def post(self, notices: list[Notice]) -> None:
        """Raises PortError."""
        notifications = [
            notification for notice in notices for notification in notifications_of(notice, self._endpoints)
        ]
        if notifications and self._database is not None:
            post_all(self._database, self._clock, notifications)
            for name in {one.endpoint for one in notifications} & {*self._queues}:
                self._queues[name].wake()

    def scrub(self) -> None:
        """Rewrites the queues' file without what was sent, or dropped. Raises PortError."""
        if self._database is not None:
            self._database.compact()

    def close(self) -> None:
        if self._database is not None:
            self._database.close()

    def _opened(self) -> Database:
        database = Database(self._file)
        SqliteQueue(database, self._clock).reclaim()
        adopt(database)
        return database

    def _serve(self, database: Database, endpoints: Collection[str]) -> None:
        """Starts the senders of new endpoints, and ends those of others, whose deliveries are dropped."""
        kept, ended = self._queues, {*self._queues} - {*endpoints}
        new = {
            name: EndpointQueue(name, database, self._sender, self._clock, self._stopping)
            for name in endpoints
            if name not in kept
        }
        self._queues = {name: queue for name, queue in kept.items() if name in endpoints} | new
        for name in ended:
            kept[name].end()
        drop_others(database, endpoints)
        for queue in new.values():
            queue.start()


_COMPARED = frozenset({Status.WAITING, Status.COMPENSATING})  # what was shown before tells whether they are news


class TellingStore(SnapshottingStore):
    """The store, which reports its changes after writing them. No run waits for an endpoint or fails because of it."""

    def __init__(self, database: Database, blobs: Blobs, ends: Ends) -> None:
        super().__init__(database)
        self._ends = ends
        self.outgoing: Outgoing | None = None
        self.live: LiveFeed | None = None
        # gets each change of a header but that a run goes on; of an end, not always what the header was before
        self.seen: Callable[[Header | None, Header], None] | None = None
        self.teller = Teller(self, self, self, blobs)
        self._telling = threading.Lock()  # a teller is for one thread

    async def scrub(self) -> None:
        await super().scrub()
        if self.outgoing is not None:
            self.outgoing.scrub()

    async def drop_run(self, run_id: str, held_until_ms: int) -> bool:
        dropped = await super().drop_run(run_id, held_until_ms)
        with self._telling:
            self.teller.forget(run_id)
        return dropped

    async def create_run(self, header: Header) -> Header | None:
        there = await super().create_run(header)
        if there is None:
            self._changed(None, header)
        return there

    async def change_status(self, change: StatusChange) -> bool:
        is_seen = self.seen is not None and (change.status.terminal or change.status in _COMPARED)
        compares = self._is_told or (is_seen and change.status in _COMPARED)
        before = await self.get_run(change.run_id) if compares else None
        changed, after = await self.changed(change)
        if changed and change.status.terminal:
            self._ends.ended(change.run_id)
        if changed and (is_seen or before is not None):
            after = after or await self.get_run(change.run_id)
            if after is not None:
                self._changed(before or after, after)
        return changed

    async def hold(self, seen: Header, pause: Pause | None, at_ms: int) -> bool:
        held = await super().hold(seen, pause, at_ms)
        after = await self.get_run(seen.run_id) if held else None
        if after is not None:
            self._changed(seen, after)
        return held

    def _changed(self, before: Header | None, after: Header) -> None:
        if self.seen is not None:
            self.seen(before, after)
        if self._is_told:
            self._tell(lambda: self.teller.header_changed(before, after))

    async def append(
        self, run_id: str, token: str, slot: int, body: str, *, consumes: EventRef | None = None, also: Writes = ()
    ) -> Appended:
        found = await super().append(run_id, token, slot, body, consumes=consumes, also=also)
        if found is None and self._is_told:
            self._tell(lambda: run_now(self.teller.appended(run_id, token, slot, body)))
        return found

    @property
    def _is_told(self) -> bool:
        live, outgoing = self.live, self.outgoing
        return (live is not None and live.wanted) or (outgoing is not None and outgoing.wanted)

    def _tell(self, notices: Callable[[], list[Notice]]) -> None:
        try:
            with self._telling:
                sent = notices()
            if self.live is not None:
                self.live.tell(sent)
            if self.outgoing is not None:
                self.outgoing.post(sent)
        except _BROKEN as error:
            _logger.warning("a change of a run is told to nobody: %s", error)
