"""Redriving a durable function amid its tasks: which of their operations are kept, and which go on.

    failed run   0 begins a, b, c ── 1 a ended ── 2 b failed ── 3 c ended ── 4 the function failed
    new run      0 begins a, b, c ── 1 a ended ── 2 c ended ── 3 REDRIVEN ── 4 the tasks wait: b goes on ──

The log is kept up to the failure. The ends that came after it, of what had begun before it, are inputs: they are as
good in this order. What is still open goes on, when the function has been asked again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stepwell.engine.copying import changed
from stepwell.engine.fold import apply, fold
from stepwell.engine.journal import Entry
from stepwell.engine.records import ENDED, Kind, Record
from stepwell.engine.table import Phase
from stepwell.engine.tasks import place_of
from stepwell.engine.token import Token


def is_amid_tasks(token: Token) -> bool:
    """Tells whether a function's tasks have something under way: operations, or a timer."""
    waits = token.phase is Phase.WAITING_AT_FAN_IN and token.parked is not None and token.parked.of_tasks
    return waits or token.has_open_tasks


def slot_of_failure(records: Sequence[Record], operation: Entry | None) -> int:
    """Returns the slot before which the log of a function is kept, that failed of itself.

    That is the first end that failed as the function did, of those that were under way without a break until then; the
    first that failed at all, if the function raised an error of its own; the end of the log, if none had failed.
    """
    found: list[Record] = []
    for stretch in _stretches(records[:-1]):
        found = stretch
        if operation is not None and any(one.slot == operation.slot for one in stretch):
            break
    alike = [one for one in found if _is_same(one, records[-1])]
    return (alike or found or [records[-1]])[0].slot


def with_ends(records: Sequence[Record], slot: int, begun: Token) -> tuple[Record, ...]:
    """Returns the records before this slot, and the ends behind it of what had begun before and did not fail."""
    slot = before_aside(records, slot, begun)
    kept = list(records[:slot])
    token = fold(kept, begun)
    for record in records[slot:]:
        if _is_end(record) and record.error is None and record.resumption is not None:
            fork, index = place_of(record.resumption.part)
            if fork in token.tasks and index in token.tasks[fork].open:
                is_last = token.open_tasks == 1 and token.phase is Phase.WAITING_AT_FAN_IN
                kept.append(changed(record, slot=len(kept), kind=Kind.RESUMED if is_last else Kind.RECEIVED))
                token = apply(token, kept[-1])
    return tuple(kept)


def before_aside(records: Sequence[Record], slot: int, begun: Token) -> int:
    """Returns this slot, or an earlier one: not after a mark of a redrive, nor in a wait for code."""
    while slot and (records[slot - 1].kind is Kind.REDRIVEN or fold(records[:slot], begun).aside is not None):
        slot -= 1
    return slot


def _stretches(records: Sequence[Record]) -> Iterator[list[Record]]:
    """Yields the failed ends of each stretch in which something was under way; the last one may be empty."""
    token, failed = Token(), list[Record]()
    for record in records:
        if not token.has_open_tasks:
            yield failed
            failed = []
        if _is_end(record) and record.error is not None:
            failed.append(record)
        token = apply(token, record)
    yield failed


def _is_end(record: Record) -> bool:
    return record.resumption is not None and record.resumption.kind == ENDED


def _is_same(one: Record, last: Record) -> bool:
    error, ended = one.error, last.error
    return error is not None and ended is not None and (error.type, error.message) == (ended.type, ended.message)
