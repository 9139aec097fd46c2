"""A run as the store holds it: the logs of all its tokens, and the forks in them, whatever the engine believes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from stepwell.engine.fold import fold
from stepwell.engine.forks.branches import branch_id
from stepwell.engine.forks.lanes import split_lane
from stepwell.engine.records import ENDED, ROOT, CleanUp, Compensate, End, Fork, Group, Kind, Record, Status
from stepwell.engine.stored.batches import Batch, decode_batch
from stepwell.engine.stored.token_batches import decode_records
from stepwell.engine.token import Token
from stepwell.memory.store import MemoryStore
from stepwell.runtime.log.claims import fetch
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Blobs
from tests.sim.versions import as_seen

RUN = "run_sim"


@dataclass(frozen=True, slots=True)
class Opened:
    """A fork as its parent's log tells it, and the record that followed."""

    parent: str
    slot: int
    fork: Fork
    closed_by: Record | None

    @property
    def branches(self) -> list[str]:
        return [f"{self.parent}/{self.slot}.{index}" for index in range(self.fork.width)]

    def group_of(self, index: int) -> tuple[Group, int]:
        """The group of a branch, and the first branch of that group."""
        first = 0
        for group in self.fork.groups:
            if index < first + group.count:
                return group, first
            first += group.count
        raise IndexError(index)

    def line_of(self, index: int) -> list[int]:
        """The branches of its rule, without those that were kept from a failed run."""
        group, first = self.group_of(index)
        return [one for one in range(first, first + group.count) if one not in self.fork.kept]

    def beside(self, index: int) -> list[str]:
        """The other branches of its rule."""
        branches = self.branches
        return [branches[one] for one in self.line_of(index) if one != index]

    def before_in_line(self, index: int, begun: int) -> tuple[list[str], int]:
        """The branches of which so many end before this one begins; none for one that begins at once, or was kept.

        Any of its rule, of which one more has to end for each that begins; `begun`: how many have, this one left out.
        """
        most, line = self.group_of(index)[0].max_concurrency, self.line_of(index)
        if not most or index not in line or line.index(index) < most:
            return [], 0
        if not self.fork.by_arrival:
            return [self.branches[line[line.index(index) - most]]], 1
        return self.beside(index), max(begun - most + 1, 0)


def forks_of(token: str, records: list[Record]) -> Iterator[Opened]:
    """Every fork of a token."""
    for place, record in enumerate(records):
        if isinstance(record.next, Fork):
            following = records[place + 1] if place + 1 < len(records) else None
            if following is not None and following.kind is Kind.REDRIVEN:
                continue  # its branches are those of the record that reopens it
            if record.next.is_of_tasks:
                following = _over(record.next, records[place:])
            yield Opened(token, record.slot, record.next, following)


def is_of_tasks(record: Record) -> bool:
    return isinstance(record.next, Fork) and record.next.is_of_tasks


def _over(fork: Fork, records: list[Record]) -> Record | None:
    """The record with which the last of what a function's tasks began there is over; None if something goes on."""
    left = {f"{records[0].slot}.{index}" for index in range(fork.width)}
    for record in records[1:]:
        left -= over_by(record)
        if not left or record.kind is Kind.RETURNED or isinstance(record.next, End | CleanUp | Compensate):
            return record
    return None


def over_by(record: Record) -> set[str]:
    """The operations of tasks that a record ends, or cancels."""
    ended = {record.resumption.part} if record.resumption and record.resumption.kind == ENDED else set()
    return ended | set(record.parked.cancelled if record.parked else ())


def all_forks(logs: dict[str, list[Record]]) -> Iterator[Opened]:
    for token, records in logs.items():
        yield from forks_of(token, records)


def ancestry(token: str) -> Iterator[tuple[str, int]]:
    """(parent, slot of its fork) of a branch, of its parent, and so on to the root."""
    while token != ROOT:
        token, _, tail = token.rpartition("/")
        yield token, int(tail.split(".")[0])


def is_cancel(record: Record) -> bool:
    return record.kind is Kind.ENDED and getattr(record.next, "status", None) is Status.CANCELLED


def fired(opened: Opened) -> bool:
    return opened.closed_by is not None and opened.closed_by.kind is Kind.JOINED


def completed(tokens: Iterable[Token]) -> int:
    return sum(token.end is not None and token.end.status is Status.COMPLETED for token in tokens)


def batch_of(body: str, fork: str, blobs: Blobs) -> Batch:
    """A stored batch, which a large one leaves to a blob."""
    return decode_batch(run_now(fetch(body, blobs)), fork)


def in_full(logs: dict[str, list[Record]]) -> dict[str, list[Record]]:
    """The records of a run, with the outputs that the logs of their operations have."""
    return {token: [_in_full(logs, token, one) for one in records] for token, records in logs.items()}


def _in_full(logs: dict[str, list[Record]], token: str, record: Record) -> Record:
    if record.output_at < 0 or record.resumption is None:
        return record
    (whole,) = (one for one in logs[f"{token}/{record.resumption.part}"] if one.slot == record.output_at)
    return replace(record, output=whole.output)


class Logs:
    """Every token's records and fold, read on from where the last look ended."""

    def __init__(self, memory: MemoryStore, blobs: Blobs, run_id: str = RUN) -> None:
        self._memory, self._blobs, self._run_id = memory, blobs, run_id
        self.records: dict[str, list[Record]] = {}
        self.tokens: dict[str, Token] = {}
        self._known: dict[str, int] = {}  # how much of each log

    def look(self) -> Logs:
        own = [(token, log) for (run_id, token), log in self._memory._logs.items() if run_id == self._run_id]
        own.sort(key=lambda one: split_lane(one[0]) is None)  # a branch's log may be there before its lane: a rest is
        for token, log in own:
            known = self._known.get(token, 0)
            if known != len(log.slots):
                self._known[token] = len(log.slots)
                self._take(token, [saved.body for saved in log.records.values()][known:])
        return self

    def _take(self, token: str, bodies: list[str]) -> None:
        """What has come: records, or a lane's batches, which lie before all that is in its branches' own logs."""
        if (lane := split_lane(token)) is None:
            self._add(token, [record for body in bodies for record in as_seen(decode_records, body)])
            return
        for batch in (as_seen(partial(batch_of, fork=lane[0], blobs=self._blobs), body) for body in bodies):
            for index, record in batch.records.items():
                self._add(branch_id(lane[0], index), [record])

    def _add(self, token: str, new: list[Record]) -> None:
        self.records[token] = sorted(self.records.get(token, []) + new, key=lambda record: record.slot)
        known = self.tokens.get(token) or Token(token)
        is_next = not new or new[0].slot == known.next_slot
        self.tokens[token] = fold(new, known) if is_next else fold(self.records[token], Token(token))
