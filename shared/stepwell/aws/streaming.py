"""Processes the table's stream in batches: events, webhook deliveries, snapshots, and the erasure of expired runs.

A change with broken data is logged and skipped, because it would never succeed and would block those behind it; so is
one whose blob is gone. If a service does not answer, or the time for snapshots and erasures runs out, processing
resumes from that change: an event may be sent twice, a snapshot is written again, an erased run is empty.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from stepwell.aws.bus import Bus, batches
from stepwell.aws.changes import Appended, Change, Deleted, Expired, HeaderChanged, change_of, place_of
from stepwell.aws.live import Feed, open_feed
from stepwell.aws.notifications import NotificationQueue, Outgoing, tens
from stepwell.aws.s3_blobs import S3Blobs
from stepwell.aws.s3_snapshots import S3Snapshots
from stepwell.aws.store.items import NEXT_RUN_MS
from stepwell.aws.store.store import DynamoStore
from stepwell.aws.wiring import Deployed
from stepwell.definition.graph import Json
from stepwell.engine.records import Status
from stepwell.errors import EngineFault, NewerFormat, PortError, UserError
from stepwell.runtime.calls.snapshots import Snapshots, View
from stepwell.runtime.forks.forked import forks_of
from stepwell.runtime.notify.endpoints import endpoints_of
from stepwell.runtime.notify.notifications import notifications_of
from stepwell.runtime.notify.telling import Notice, Teller
from stepwell.runtime.ports import BROKEN_BLOB, Blobs
from stepwell.runtime.stores.blobs import of_run

_logger = logging.getLogger("stepwell.stream")

# The exceptions of reading broken data, including the engine's own errors.
_BROKEN = (EngineFault, UserError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(slots=True)
class Taken:
    """The progress of a batch. Changes before position `done` are done; the others will be delivered again."""

    done: int
    placed: list[tuple[int, Notice]] = field(default_factory=list)  # with the position of each notice's change
    broken: set[int] = field(default_factory=set)
    left: dict[str, tuple[int, HeaderChanged | Deleted]] = field(default_factory=dict)  # the last of each run
    expired: list[tuple[int, Expired]] = field(default_factory=list)  # another run may have the id of each

    def has_deleted(self, run_id: str) -> bool:
        """Tells whether the batch has deleted the run, so that what follows is a late worker's."""
        return run_id in self.left and isinstance(self.left[run_id][1], Deleted)

    @property
    def notices(self) -> list[Notice]:
        """Returns the notices of the done changes, each once however often a batch is delivered."""
        return [notice for position, notice in self.placed if position < self.done]

    @property
    def passed_over(self) -> int:
        """Returns how many done changes were skipped as broken."""
        return sum(position < self.done for position in self.broken)


class RunBlobs(Blobs, Protocol):
    """Blobs of which the old ones of an owner can be deleted."""

    async def drop(self, owner: str, before_ms: int | None = None) -> None: ...


class Stream:
    """Processes batches in order, one at a time."""

    def __init__(
        self,
        store: DynamoStore,
        blobs: RunBlobs,
        teller: Teller,
        bus: Bus,
        snapshots: Snapshots,
        outgoing: Outgoing | None = None,
        feed: Feed | None = None,
    ) -> None:
        self._store, self._blobs, self._teller, self._bus, self._snapshots = store, blobs, teller, bus, snapshots
        self._outgoing, self._feed = outgoing, feed

    async def take(self, records: Sequence[Mapping[str, Any]], left_ms: Callable[[], int] = lambda: 1) -> Taken:
        """Publishes a batch, then writes snapshots and erases expired runs. Raises only for a defect.

        `left_ms`: the time that is left to begin one of those.
        """
        taken = Taken(len(records))
        for position, record in enumerate(records):
            await self._attempt(taken, position, place_of(record), partial(self._tell, taken, position, record))
        self._publish(taken)
        if self._outgoing is not None:
            self._post(taken, self._outgoing)
        self._show(taken)
        await self._follow_all(taken, left_ms)
        return taken

    async def _attempt(self, taken: Taken, position: int, what: str, work: Callable[[], Awaitable[None]]) -> None:
        if position >= taken.done:
            return
        try:
            await work()
        except (NewerFormat, PortError) as error:
            if isinstance(error, PortError) and error.code == BROKEN_BLOB:
                _logger.error("%s cannot be told, and is passed over: %s", what, error)
                taken.broken.add(position)
                return
            _logger.warning("taken up again from %s on: %s", what, error)
            taken.done = position
        except _BROKEN:
            _logger.exception("%s cannot be told, and is passed over", what)
            taken.broken.add(position)

    async def _tell(self, taken: Taken, position: int, record: Mapping[str, Any]) -> None:
        change = change_of(record)
        if isinstance(change, Appended) and taken.has_deleted(change.run_id):
            return
        taken.placed += [(position, notice) for notice in await self._notices(change)]
        if isinstance(change, Expired):
            taken.expired.append((position, change))
        elif isinstance(change, HeaderChanged | Deleted):
            taken.left[change.run_id] = position, change

    async def _notices(self, change: Change | None) -> list[Notice]:
        match change:
            case HeaderChanged(_, before, after, has_input):
                return self._teller.header_changed(before, after, has_input)
            case Appended(run_id, token, slot, item):
                return await self._teller.appended(run_id, token, slot, await self._store.body_of(item))
            case _:
                return []

    def _publish(self, taken: Taken) -> None:
        """Publishes the notices; those sent before a failure are sent again later."""
        wanted = (self._bus.ready(position, notice) for position, notice in taken.placed if self._bus.wants(notice))
        for batch in batches(wanted):
            first = batch[0].position
            try:
                self._bus.put(batch)
            except PortError as error:
                _logger.warning("events are sent again from change %d on: %s", first, error)
                taken.done = min(taken.done, first)
                return

    def _post(self, taken: Taken, outgoing: Outgoing) -> None:
        """Queues webhook deliveries, because endpoints are slow; those of retried changes wait."""
        done = [(position, notice) for position, notice in taken.placed if position < taken.done]
        notifications = [
            (at, notification) for at, notice in done for notification in notifications_of(notice, outgoing.endpoints)
        ]
        for batch in tens(notifications):
            first = batch[0][0]
            try:
                outgoing.queue.post_all([notification for _, notification in batch])
            except PortError as error:
                _logger.warning("notifications are posted again from change %d on: %s", first, error)
                taken.done = min(taken.done, first)
                return

    def _show(self, taken: Taken) -> None:
        """Tells watchers of what is done. Nothing waits for them, so nothing is tried again for them."""
        if self._feed is None:
            return
        try:
            self._feed.tell(taken.notices)
        except _BROKEN:
            _logger.exception("watchers get nothing of a batch")

    async def _follow_all(self, taken: Taken, left_ms: Callable[[], int]) -> None:
        """Follows the last change of each run, the first one in any case, so that each invocation gets further."""
        left = sorted([*taken.left.values(), *taken.expired], key=lambda one: one[0])
        for number, (position, change) in enumerate(left):
            what = f"the state of run {change.run_id}"
            if number and position < taken.done and left_ms() <= 0:
                _logger.warning("taken up again from %s on: no time is left", what)
                taken.done = position
                return
            await self._attempt(taken, position, what, partial(self._follow, change))

    async def _follow(self, change: HeaderChanged | Expired | Deleted) -> None:
        if isinstance(change, HeaderChanged):
            before_ms = change.after.created_ms - NEXT_RUN_MS
            if _stands_still(change) and self._store.has_older(change.run_id, before_ms):
                await self._erase(Expired(change.run_id, before_ms, has_blob=True))
            await self._snapshots.write_if_due(change.after)
            return
        self._teller.forget(change.run_id)
        if isinstance(change, Deleted):
            return  # the eraser has deleted what there was
        await self._erase(change)

    async def _erase(self, gone: Expired) -> None:
        """Erases what an expired run has left, and nothing of a run that has its id since.

        TTL deletes the header ── the id is used again: that run waits ── erased ── the sweeper wakes that run

        If the stream has lost the header's deletion, the sweeper's own mark on the run that waits has it erased.
        """
        forks = await forks_of(self._store, self._blobs, gone.run_id)
        count, has_blobs = self._store.erase(gone.run_id, forks, gone.before_ms)
        if has_blobs or gone.has_blob:  # last, because the records that name the forks may be blobs
            await self._blobs.drop(of_run(gone.run_id), gone.before_ms)
        if has_blobs:
            self._store.forget_blobs(gone.run_id)
        _logger.info("run %s has expired: %d items erased", gone.run_id, count)


def _stands_still(change: HeaderChanged) -> bool:
    """Tells whether the sweeper has met a run for the first time, and that has no record that it knows of."""
    before, after = change.before, change.after
    return before is not None and after.watched > before.watched and after.status in (Status.IDLE, Status.PENDING)


def open_stream(deployed: Deployed, view: View, webhooks: Mapping[str, Json] | None = None) -> Stream:
    """Assembles the stream processor; `view` renders a run for the API, `webhooks` is the folder's `webhooks.yaml`.

    Raises UserError `bad_setting`.
    """
    parts, clients, deployment = deployed.parts, deployed.clients, deployed.deployment
    if not deployment.bus:
        raise UserError("STEPWELL_BUS is not set", code="bad_setting", hint="the stack sets it: deploy again")
    teller = Teller(deployed.store, deployed.store, deployed.store, parts.ports.blobs)
    teller.graph_of = parts.service.graph_of
    return Stream(
        deployed.store,
        S3Blobs(deployment.bucket, clients.s3),
        teller,
        Bus(deployment.bus, clients.events, events=deployment.events),
        Snapshots(parts.service, S3Snapshots(deployment.bucket, clients.s3), view),
        _outgoing(deployed, webhooks),
        _feed(deployed),
    )


def _feed(deployed: Deployed) -> Feed | None:
    if not deployed.deployment.live_table:
        return None
    return open_feed(deployed)[1]


def _outgoing(deployed: Deployed, webhooks: Mapping[str, Json] | None) -> Outgoing | None:
    endpoints = endpoints_of(webhooks)
    if not endpoints:
        return None
    if not deployed.deployment.notifications:
        raise UserError("STEPWELL_NOTIFICATIONS is not set", code="bad_setting", hint="the stack sets it: deploy again")
    queue = NotificationQueue(deployed.deployment.notifications, deployed.clients.sqs, deployed.parts.ports.clock)
    return Outgoing(tuple(endpoints.values()), queue)
