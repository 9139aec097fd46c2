"""Mutants of `durability: batch`: each takes one of its rules away, and the simulator must notice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

from stepwell.engine import batching
from stepwell.engine.actions import Action, Write
from stepwell.engine.records import Goto, Kind, Record
from stepwell.engine.stored import token_batches
from stepwell.engine.waits import code
from stepwell.runtime.log import door, lanes, logbook, open_batch
from stepwell.runtime.log.door import Answer
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.worker import Worker

_append, _decode, _behind = Logbook.append, token_batches.decode_records, door._behind


@contextmanager
def everything_waits() -> Iterator[None]:
    """Failures, steps with a compensation and steps that run at most once wait for others too."""

    def waits(graph: Any, token: Any, write: Write, after: Any) -> bool:
        return isinstance(write.record.next, Goto) and write.record.kind in {Kind.STEP, Kind.MOVED}

    with mock.patch.object(door, "waits", waits):
        yield


@contextmanager
def beginnings_wait() -> Iterator[None]:
    """A step that runs at most once begins before it is written that it does."""
    waits = batching.waits

    def waits_too(graph: Any, token: Any, write: Write, after: Any) -> bool:
        return write.record.kind is Kind.BEGAN or waits(graph, token, write, after)

    with mock.patch.object(door, "waits", waits_too):
        yield


@contextmanager
def batches_without_end() -> Iterator[None]:
    """No number of records closes a batch."""
    with mock.patch.object(open_batch, "BATCH_RECORDS", 1_000):
        yield


@contextmanager
def long_steps_wait() -> Iterator[None]:
    """A batch stays open while a long step runs."""
    with mock.patch.object(Worker, "_late", return_value=(0, None)):
        yield


@contextmanager
def handed_over_open() -> Iterator[None]:
    """Whoever hands over, or rests, leaves its batch open."""

    async def closed(self: Worker, at: Standing, turn: Any) -> None:
        await self._hand_over(at, "default", turn)

    with mock.patch.object(Worker, "_closed", closed):
        yield


@contextmanager
def batches_taken_for_closed() -> Iterator[None]:
    """Nobody sees that a batch is open: snapshots, wakes and other records come before what is in it."""
    with mock.patch.object(Standing, "is_open", property(lambda self: False)):
        yield


@contextmanager
def batch_at_its_end() -> Iterator[None]:
    """A batch is written into the slot of its last record, where nobody else writes yet."""

    async def append(self: Logbook, at: Standing, write: Write, records: Sequence[Record]) -> Any:
        if len(records) == 1:
            return await _append(self, at, write, records)
        body = token_batches.encode_records(records)
        found = await self._log.append(at.run_id, at.token.id, records[-1].slot, body)
        return _decode(found) if isinstance(found, str) else found

    with mock.patch.object(Logbook, "append", append):
        yield


@contextmanager
def batch_read_in_part() -> Iterator[None]:
    """A reader takes the first record of a batch for all that is there."""
    with (
        mock.patch.object(logbook, "decode_records", lambda body: _decode(body)[:1]),
        mock.patch.object(lanes, "decode_records", lambda body: _decode(body)[:1]),
    ):
        yield


@contextmanager
def refused_and_kept() -> Iterator[None]:
    """Whoever is refused takes its batch for written."""

    def behind(at: Standing, found: Any, by: str, action: Action) -> tuple[Standing, Answer | None]:
        if at.batch is not None and at.is_open:
            at.batch.written(at.token)
            return at, Answer(at, action, is_mine=True, is_new=True)
        return _behind(at, found, by, action)

    with mock.patch.object(door, "_behind", behind):
        yield


@contextmanager
def batch_keyed_anew() -> Iterator[None]:
    """What a batch had run and not written gets other keys once an earlier step has waited for code."""
    with mock.patch.object(code, "_rules_of_keys", return_value=()):
        yield


OF_BATCHES = (
    everything_waits,
    beginnings_wait,
    batches_without_end,
    long_steps_wait,
    handed_over_open,
    batches_taken_for_closed,
    batch_at_its_end,
    batch_read_in_part,
    refused_and_kept,
    batch_keyed_anew,
)
