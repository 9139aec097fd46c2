"""Erasing: deletes a run with all its data, and the child runs that it waited for.

    children, each like this ── waits, events ── its snapshot ── logs ── blobs ── header

The logs refer to everything else, and the header to the logs, so they go last: a crash on the way leaves a run that can
be deleted again. A worker that outlives the run may still write to it, for a quarter of an hour at most; what it wrote
is deleted then. The run's id is refused for an hour, so that none of that becomes part of another run.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol, TypeAlias

from stepwell.engine.records import ROOT, Topic
from stepwell.engine.waits import is_callback, run_of, run_topic
from stepwell.errors import Conflict, EngineFault, NotFound, PortError
from stepwell.limits import ID_HELD_MS, MINUTE_MS
from stepwell.runtime.calls import kin, updates
from stepwell.runtime.forks.forked import Left, add_late, left_by
from stepwell.runtime.log.alarms import QUEUE_HORIZON_MS
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.messages import Erase, Shut, to_json
from stepwell.runtime.ports import BROKEN_BLOB, Lane, Ports, Waiter
from stepwell.runtime.ports.headers import Header
from stepwell.runtime.starts.starting import Caller
from stepwell.runtime.steps import output
from stepwell.runtime.stores.blobs import of_run
from stepwell.runtime.stores.files import name_of
from stepwell.runtime.waits.permits import Permits
from stepwell.values import dataclass

_logger = logging.getLogger("stepwell.eraser")

FORKS_SENT = 2_000  # in one message
_SAFE_MS = 10 * MINUTE_MS  # how long before the id is free nothing is deleted any more: it may take that long
CHILDREN_SENT = 1_000  # in one message
WAITS_SENT = 100  # in one message: a worker that outlives the run registers one of the latest
Terminate: TypeAlias = Callable[[str, str, str], Awaitable[bool]]
EndPage: TypeAlias = Callable[[Shut, str], Awaitable[None]]
_Member: TypeAlias = tuple[Header, Left]


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

    def __init__(
        self, ports: Ports, logbook: Logbook, terminate: Terminate, shut: EndPage, files: Files | None
    ) -> None:
        """`terminate` ends a run, `shut` the branches of one page of a fork."""
        self._ports, self._logbook, self._files = ports, logbook, files
        self._terminate, self._shut = terminate, shut
        self._permits = Permits(ports, logbook)

    async def delete(
        self, run_id: str, *, force: bool = False, who: str = "", held_until_ms: int | None = None
    ) -> Erased:
        """Deletes an ended run and its child runs; with `force`, ends them first.

        `held_until_ms`: until when their ids are refused; None: for an hour from now.

        Raises NotFound, and Conflict: `run_open` if one of them has not ended, `parent_open` for a child of a run that
        has not ended.
        """
        family = await self._family(run_id)
        if not family:
            raise NotFound(f"there is no run {run_id!r}", code="unknown_run", hint="stepwell runs lists them")
        live = [header.run_id for header, _ in family if not header.status.terminal]
        if live and not force:
            raise Conflict(f"run {live[0]} is under way", code="run_open",
                           hint="wait for its end, or terminate it: `force`, or --force")  # fmt: skip
        await self._check_parent(family[0][0])
        family = await self._quiet(run_id, family, who)
        known, items = {header.run_id for header, _ in family}, 0
        for header, left in reversed(family):
            unborn = [child for child in left.children if child not in known]
            held_ms = self._ports.clock.now_ms() + ID_HELD_MS if held_until_ms is None else held_until_ms
            items += await self._erase(header, left, unborn, held_ms)
        return Erased(len(family), items)

    async def scrub(self) -> None:
        """Overwrites what deleted runs left in the store's files, if it has files."""
        await self._ports.erasure.scrub()

    async def again(self, message: Erase) -> None:
        """Deletes what a worker wrote to a run after that was deleted."""
        run_id = message.run_id
        is_late = self._ports.clock.now_ms() + _SAFE_MS > (message.held_until_ms or math.inf)
        if is_late or await self._ports.runs.get_run(run_id) is not None:
            return  # another run may have this id
        left = await left_by(self._ports.log, self._ports.blobs, run_id)
        known = {fork[0] for fork in left.forks}
        forks = [fork for fork in message.forks if fork[0] not in known]
        await add_late(self._ports.log, self._ports.blobs, run_id, forks, left)
        left.forks += forks
        for child in (*left.children, *message.children):
            with suppress(NotFound):
                await self.delete(child, force=True, held_until_ms=message.held_until_ms)
        if message.rate:
            await self._permits.drop_turn(message.rate, run_id)
        left.waits += [Waiter(Topic(*wait[:2]), run_id, wait[2], wait[3], 0, wait[4]) for wait in message.waits]
        await self._erase_beside(run_id, left, message.snapshot)

    async def _family(self, run_id: str) -> list[_Member]:
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

    async def _quiet(self, run_id: str, family: list[_Member], who: str) -> list[_Member]:
        """Ends the runs, the branches of their forks, and what those began meanwhile. Returns the family as it is then.

        A late worker cannot append to these logs before they are erased, so nothing is in them that was not read.
        """
        done: set[str] = set()
        while todo := {name: one for name, one in self._under_way(family).items() if name not in done}:
            for one in todo.values():
                await (self._end_page(one) if isinstance(one, Shut) else self._end(one, who))
            done.update(todo)
            if any(isinstance(one, Shut) or not one.status.terminal for one in todo.values()):
                family = await self._family(run_id)
        return family

    def _under_way(self, family: list[_Member]) -> dict[str, Header | Shut]:
        """Returns the runs, and the pages of forks of those that a worker may still be at work on, by name."""
        found: dict[str, Header | Shut] = {}
        for header, left in family:
            found[header.run_id] = header
            if header.status.terminal and header.ended_ms + ID_HELD_MS < self._ports.clock.now_ms():
                continue
            for fork, _, pages in left.forks:
                parent, _, slot = fork.rpartition("/")
                shuts = [Shut(header.run_id, parent, int(slot), page) for page in range(pages)]
                found |= {f"{header.run_id} {shut.id}": shut for shut in shuts}
        return found

    async def _end_page(self, shut: Shut) -> None:
        try:
            await self._shut(shut, shut.id)
        except (EngineFault, PortError) as fault:  # a deletion that died has left it so, and has ended its run
            _raise_unless_lost(fault)
            _logger.warning("run %s is deleted, though a log of %s is not whole: %s", shut.run_id, shut.parent, fault)

    async def _end(self, header: Header, who: str) -> None:
        """Ends the run, also one that has ended: its last worker may have died before it returned the permit.

        A deletion that died has done so, and may have left a log that is not whole. A run whose blob is lost cannot be
        ended, and no worker can go on with it.
        """
        try:
            await self._terminate(header.run_id, "it is deleted", who)
            at = await self._logbook.load(header.run_id, ROOT)
        except NotFound:  # another deletion was first
            return
        except (EngineFault, PortError) as fault:
            _raise_unless_lost(fault)
            if isinstance(fault, EngineFault) and not header.status.terminal:
                raise
            _logger.warning("run %s is deleted, though its log is not whole: %s", header.run_id, fault)
            return
        if at is not None:
            await self._permits.forget(at)

    async def _erase(self, header: Header, left: Left, unborn: list[str], held_until_ms: int) -> int:
        """Deletes the run. `unborn`: children that it has not started, and a late worker may."""
        run_id, snapshot = header.run_id, name_of(header)
        forks, children = tuple(left.forks[:FORKS_SENT]), tuple(unborn[:CHILDREN_SENT])
        rate = await self._rate_of(header)
        message = Erase(run_id, snapshot, forks, _latest(left.waits), held_until_ms, children, rate)
        again_ms = self._ports.clock.now_ms() + QUEUE_HORIZON_MS
        await self._ports.queue.send(Lane.WORK, to_json(message), again_ms)
        items = await self._erase_beside(run_id, left, snapshot)  # after this nobody knows the run's forks any more
        await self._ports.erasure.drop_run(run_id, held_until_ms)
        return items

    async def _rate_of(self, header: Header) -> str:
        try:
            return await self._permits.rate_of(header)
        except (EngineFault, PortError) as fault:  # nobody can go on with a run whose log, or version, is lost
            _raise_unless_lost(fault)
            return ""

    async def _erase_beside(self, run_id: str, left: Left, snapshot: str) -> int:
        """Deletes everything but the header. Returns how many items the logs had."""
        erasure = self._ports.erasure
        for wait in left.waits:
            await self._ports.mailbox.forget_waiter(wait)
        for topic in dict.fromkeys(wait.topic for wait in left.waits):
            if run_of(topic) == run_id or is_callback(topic):
                await erasure.erase_topic(topic)
        own = (run_topic(name, run_id) for name in (*output.EVENTS, *updates.EVENTS, *kin.EVENTS))
        for topic in {*await erasure.topics_to(run_id), *own}:
            await erasure.erase_topic(topic)
        for topic, event_id in left.offered:
            await erasure.erase_event(topic, event_id, run_id)
        for topic, event_id in left.sent:
            await erasure.erase_event(topic, event_id)
        if self._files is not None:
            await self._files.drop(snapshot)
        items = await erasure.erase_logs(run_id, left.forks)
        await self._ports.blobs.drop(of_run(run_id))
        return items


def _raise_unless_lost(fault: EngineFault | PortError) -> None:
    """Raises an error of a port, but for a blob that is lost: no later call finds it."""
    if isinstance(fault, PortError) and fault.code != BROKEN_BLOB:
        raise fault


def _latest(waits: list[Waiter]) -> tuple[tuple[str, str, str, int, int], ...]:
    latest = sorted(waits, key=lambda wait: wait.since_ms)[-WAITS_SENT:]
    return tuple((wait.topic.name, wait.topic.key, wait.token, wait.slot, wait.arm) for wait in latest)
