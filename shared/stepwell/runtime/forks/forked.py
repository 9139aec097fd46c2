"""Finds what a run's logs refer to elsewhere, for its deletion.

A wait for child runs leaves the set of those that ended, as a fork of one page does.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from stepwell.definition.event_names import AGENT_ENDED
from stepwell.engine.children import child_id
from stepwell.engine.effects import GOVERNANCE
from stepwell.engine.forks.branches import branch_id, fork_id
from stepwell.engine.records import ROOT, End, Fork, Kind, Parked, Pause, Record, Topic
from stepwell.engine.waits import event_topic
from stepwell.engine.waits.kind import coming_of
from stepwell.errors import PortError
from stepwell.limits import PAGE_BRANCHES
from stepwell.runtime.log.lanes import Lanes
from stepwell.runtime.ports import BROKEN_BLOB, Blobs, EventRef, Log, Saved, Waiter

_logger = logging.getLogger("stepwell.eraser")

ForkSizes: TypeAlias = list[tuple[str, int, int]]


@dataclass(slots=True)
class Left:
    """What a run has left elsewhere.

    `forks`: (id, width, pages), the innermost first. `children`: ids of runs, some of which may never have begun.
    `offered`: events that the run may have consumed. `sent`: events that the engine sent for it.
    """

    forks: ForkSizes = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    waits: list[Waiter] = field(default_factory=list)
    offered: list[EventRef] = field(default_factory=list)
    sent: list[EventRef] = field(default_factory=list)


class _Readable(Lanes):
    """Passes over records whose blob is lost: they must not keep a run from being deleted."""

    async def decoded(self, saved: Sequence[Saved]) -> list[Record]:
        found: list[Record] = []
        for one in saved:
            try:
                found += await super().decoded([one])
            except PortError as error:
                if error.code != BROKEN_BLOB:
                    raise
                _logger.warning("what record %d of a deleted run began may be left: %s", one.slot, error)
        return found


async def forks_of(log: Log, blobs: Blobs, run_id: str) -> ForkSizes:
    """Returns (id, width, pages) of each fork. One query for each page."""
    return (await left_by(log, blobs, run_id)).forks


async def left_by(log: Log, blobs: Blobs, run_id: str) -> Left:
    """Reads all logs of the run: one query for each page of a fork."""
    left, lanes = Left(), _Readable(log, blobs)
    await _add_log(lanes, run_id, ROOT, await lanes.token(run_id, ROOT), left)
    return left


async def add_late(log: Log, blobs: Blobs, run_id: str, forks: Iterable[tuple[str, int, int]], left: Left) -> None:
    """Adds what late workers left from branches of these forks, whose own records are deleted already."""
    lanes = _Readable(log, blobs)
    for fork, width, _ in forks:
        for first in range(0, width, PAGE_BRANCHES):
            page = range(first, min(first + PAGE_BRANCHES, width))
            logs = await log.read_logs(run_id, [branch_id(fork, index) for index in page])
            for branch, saved in logs.items():
                await _add_log(lanes, run_id, branch, await lanes.decoded(saved), left)


async def _add_log(lanes: Lanes, run_id: str, token: str, records: Iterable[Record], left: Left) -> None:
    topics: list[Topic] = []  # of the token's current wait
    unopened: tuple[str, Fork] | None = None  # a fork that it was to reopen
    for record in records:
        if record.kind is Kind.REDRIVEN and record.reopens is not None:
            unopened = fork_id(token, record.slot + 1), record.reopens
        elif record.kind is Kind.REOPENED:
            unopened = None
        if record.parked is not None:
            topics = [topic for arm in record.parked.arms for topic in arm.topics]
            _add_wait(run_id, token, record.slot, record.parked, left)
        if record.resumption is not None and record.resumption.event_id:
            left.offered += [(topic, record.resumption.event_id) for topic in topics]
        left.sent += _sent(run_id, token, record)
        if isinstance(record.next, Fork):
            await _add_fork(lanes, run_id, fork_id(token, record.slot), record.next, left)
    if unopened is not None:  # its branches have what the redrive kept
        await _add_fork(lanes, run_id, *unopened, left)


async def _add_fork(lanes: Lanes, run_id: str, fork: str, opened: Fork, left: Left) -> None:
    for page in opened.pages:
        try:
            logs, _ = await lanes.branches(run_id, opened, fork, opened.page_indexes(page))
        except PortError as error:
            if error.code != BROKEN_BLOB:
                raise
            _logger.warning("what branches of %s in lanes began may be left: %s", fork, error)
            continue
        for branch, records in logs.items():
            await _add_log(lanes, run_id, branch, records, left)
    left.forks.append((fork, opened.width, len(opened.pages)))


def _add_wait(run_id: str, token: str, slot: int, parked: Parked, left: Left) -> None:
    left.children += [child_id(run_id, token, slot, index) for index in range(len(parked.children))]
    if len(parked.children) > 1:
        left.forks.append((fork_id(token, slot), len(parked.children), 1))
    for index, arm in enumerate(parked.arms):
        left.waits += [Waiter(topic, run_id, token, slot, parked.since_ms, index, arm.match) for topic in arm.topics]


def _sent(run_id: str, token: str, record: Record) -> Iterator[EventRef]:
    """Yields Stepwell's own events that this record's effects may have sent: see `engine.effects`."""
    event_id = f"{run_id}:{token}@{record.slot}"
    if record.kind is Kind.STEP and record.error is not None and isinstance(record.next, Pause):
        yield event_topic(GOVERNANCE, ""), event_id
    if record.resumption is not None and (name := coming_of(record.resumption).announces):
        yield event_topic(name, ""), event_id
    if token == ROOT and isinstance(record.next, End):
        yield event_topic(AGENT_ENDED, run_id), event_id
