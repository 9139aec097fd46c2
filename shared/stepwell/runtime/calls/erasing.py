"""Erasing: deletes a run with all its data, and the child runs that it waited for.

    children, each like this ── waits, events ── its snapshot ── logs ── blobs ── header

The logs refer to everything else, and the header to the logs, so they go last: a crash on the way leaves a run that can
be deleted again. A worker that outlives the run may still write to it, for a quarter of an hour at most; what it wrote
is deleted then. The run's id is refused for an hour, so that none of that becomes part of another run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from stepwell.engine.records import ROOT
from stepwell.engine.waits import is_callback, run_of, run_topic
from stepwell.errors import Conflict, NotFound
from stepwell.limits import ID_HELD_MS
from stepwell.runtime.calls import kin, updates
from stepwell.runtime.forks.forked import Left, left_by
from stepwell.runtime.log.alarms import QUEUE_HORIZON_MS
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.messages import Erase, to_json
from stepwell.runtime.ports import Lane, Ports
from stepwell.runtime.ports.headers import Header
from stepwell.runtime.starts.starting import Caller
from stepwell.runtime.steps import output
from stepwell.runtime.stores.blobs import of_run
from stepwell.runtime.stores.files import name_of
from stepwell.runtime.waits.permits import Permits
from stepwell.values import dataclass

FORKS_SENT = 2_000  # in one message
Terminate = Callable[[str, str, str], Awaitable[bool]]


class Files(Protocol):
    """The store of snapshots."""

    async def drop(self, name: str) -> None:
        """Deletes the file. Idempotent. Raises PortError."""


@dataclass(frozen=True, slots=True)
class Erased:
    """How many runs were deleted, child runs among them, and how many items of their logs."""

    runs: int
    items: int


class Eraser:
    """Deletes runs. Each call may be repeated."""

    def __init__(self, ports: Ports, logbook: Logbook, terminate: Terminate, files: Files | None) -> None:
        self._ports, self._logbook, self._terminate, self._files = ports, logbook, terminate, files
        self._permits = Permits(ports, logbook)

    async def delete(self, run_id: str, *, force: bool = False, who: str = "") -> Erased:
        """Deletes an ended run and its child runs; with `force`, ends them first.

        Raises NotFound, and Conflict: `run_open` if one of them has not ended, `parent_open` for a child of a run that
        has not ended.
        """
        family = await self._family(run_id)
        if not family:
            raise NotFound(f"there is no run {run_id!r}", code="unknown_run", hint="stepwell runs lists them")
        live = [header.run_id for header, _ in family if not header.status.terminal]
        if live and not force:
            raise Conflict(f"run {live[0]} is under way", code="run_open",
                           hint="wait for its end, or terminate it: --force")  # fmt: skip
        await self._check_parent(family[0][0])
        for header, _ in family:  # also an ended one: its last worker may have died before it returned the permit
            await self._terminate(header.run_id, "it is deleted", who)
        if live:
            family = await self._family(run_id)  # with what their ends wrote
        items = 0
        for header, left in reversed(family):
            items += await self._erase(header, left)
        return Erased(len(family), items)

    async def scrub(self) -> None:
        """Overwrites what deleted runs left in the store's files, if it has files."""
        await self._ports.erasure.scrub()

    async def again(self, message: Erase) -> None:
        """Deletes what a worker wrote to a run after that was deleted."""
        run_id = message.run_id
        if await self._ports.runs.get_run(run_id) is not None:
            return  # another run has this id now
        left = await left_by(self._ports.log, self._ports.blobs, run_id)
        known = {fork[0] for fork in left.forks}
        left.forks += [fork for fork in message.forks if fork[0] not in known]
        for child in left.children:
            if await self._ports.runs.get_run(child) is not None:
                await self.delete(child, force=True)
        await self._erase_beside(run_id, left, message.snapshot)

    async def _family(self, run_id: str) -> list[tuple[Header, Left]]:
        """Returns the run and the runs that it waited for, parents first, each with what its logs refer to."""
        header = await self._ports.runs.get_run(run_id)
        if header is None:
            return []
        left = await left_by(self._ports.log, self._ports.blobs, run_id)
        found = [(header, left)]
        for child in left.children:
            found += await self._family(child)
        return found

    async def _check_parent(self, header: Header) -> None:
        """Raises Conflict if the run's parent has not ended: it would wait for a run that is gone."""
        caller = Caller.of(header)
        parent = await self._ports.runs.get_run(caller.run_id) if caller is not None and caller.index >= 0 else None
        if parent is not None and not parent.status.terminal:
            raise Conflict(f"run {parent.run_id} waits for it, or reads its result", code="parent_open",
                           hint=f"delete {parent.run_id}, and its child runs go with it")  # fmt: skip

    async def _erase(self, header: Header, left: Left) -> int:
        run_id, snapshot = header.run_id, name_of(header)
        at = await self._logbook.load(run_id, ROOT)
        if at is not None:
            await self._permits.forget(at)
        items = await self._erase_beside(run_id, left, snapshot)
        now_ms = self._ports.clock.now_ms()
        if header.ended_ms + ID_HELD_MS > now_ms or not header.status.terminal:
            message = Erase(run_id, snapshot, tuple(left.forks[:FORKS_SENT]))
            await self._ports.queue.send(Lane.WORK, to_json(message), now_ms + QUEUE_HORIZON_MS)
        await self._ports.erasure.drop_run(run_id, now_ms + ID_HELD_MS)
        return items

    async def _erase_beside(self, run_id: str, left: Left, snapshot: str) -> int:
        """Deletes everything but the header. Returns how many items the logs had."""
        erasure = self._ports.erasure
        for wait in left.waits:
            await self._ports.mailbox.forget_waiter(wait)
        for topic in dict.fromkeys(wait.topic for wait in left.waits):
            if run_of(topic) == run_id or is_callback(topic):
                await erasure.erase_topic(topic)
        for name in {*await erasure.names_to(run_id), *output.EVENTS, *updates.EVENTS, *kin.EVENTS}:
            await erasure.erase_topic(run_topic(name, run_id))
        for topic, event_id in left.offered:
            await erasure.erase_event(topic, event_id, run_id)
        for topic, event_id in left.sent:
            await erasure.erase_event(topic, event_id)
        if self._files is not None:
            await self._files.drop(snapshot)
        items = await erasure.erase_logs(run_id, left.forks)
        await self._ports.blobs.drop(of_run(run_id))
        return items
