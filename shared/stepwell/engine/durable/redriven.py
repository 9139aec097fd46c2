"""Redriving a durable function amid its tasks: which of their operations are kept, and which go on.

    failed run   0 begins a, b, c ── 1 a ended ── 2 b failed ── 3 c ended ── 4 the function failed
    new run      0 begins a, b, c ── 1 a ended ── 2 c ended ── 3 REDRIVEN ── 4 the tasks wait: b goes on ──

The log is kept up to the failure. The ends that came after it, of what had begun before it, are inputs: they are as
good in this order. What is still open goes on, when the function has been asked again. Steps that other tasks began
after the failure, and completed, are kept apart: the new run takes their results (`engine/durable/finished.py`). An
`all` or `map` that ended with failures which it tolerates has failed too, unless a task has gone on with its result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from stepwell.engine.copying import changed
from stepwell.engine.durable.finished import KINDS, UNKNOWN, begun_by, made_at, makers_of, path_of
from stepwell.engine.durable.journal import INPUTS, Entry, Journal
from stepwell.engine.durable.tasks import place_of
from stepwell.engine.fold import apply, fold
from stepwell.engine.forks.branches import branch_id, fork_id
from stepwell.engine.forks.join import failures_in
from stepwell.engine.records import ENDED, ROOT, Failure, Finished, Goto, Kind, Record
from stepwell.engine.table import Phase
from stepwell.engine.token import Token
from stepwell.values import dataclass


def is_amid_tasks(token: Token) -> bool:
    """Tells whether a function's tasks have something under way: operations, or a timer."""
    waits = token.phase is Phase.WAITING_AT_FAN_IN and token.parked is not None and token.parked.of_tasks
    return waits or token.has_open_tasks


def is_asked_by_tasks(token: Token) -> bool:
    """Tells whether its tasks' last wait is over, and the function has begun nothing since."""
    return token.parked is not None and token.parked.of_tasks


@dataclass(frozen=True, slots=True)
class Ended:
    """An operation of a function's tasks that has ended, or was cancelled."""

    name: str
    what: str  # its kind and name
    task: str
    begun: int  # the slot of the record that began it, and
    slot: int  # of the one that ended it
    error: Failure | None = None
    tolerated: tuple[Failure, ...] = ()  # of a fork that completed: those of its branches
    has_followed: bool = False  # its task, or one that awaited it, has begun something since
    is_cancelled: bool = False
    token: str = ROOT  # whose log has its result
    arguments: int = 0  # of a step: their checksum, where the function's own log has it

    @property
    def first(self) -> int:
        """Returns the slot before which the log is kept if this operation is to run again."""
        return self.begun if self.token == ROOT else self.slot

    @property
    def is_broken(self) -> bool:
        """Tells whether it is to run again. What has followed from failures that were tolerated is not done twice."""
        return self.error is not None or self.is_cancelled or bool(self.tolerated and not self.has_followed)

    def is_why(self, last: Record) -> bool:
        """Tells whether the function ended with the error of this operation, or with one that it tolerated."""
        return any(is_same(error, last) for error in (self.error, *self.tolerated))


def failed_in_tasks(records: Sequence[Record], operation: Entry | None) -> Ended | None:
    """Returns the operation of its tasks with which a function failed that failed of itself; None if none had failed.

    That is the first one that failed as the function did, of those that were under way without a break until then; the
    first that failed at all, if the function raised an error of its own.
    """
    found: list[Ended] = []
    for stretch in _stretches(records[:-1]):
        found = stretch
        if operation is not None and any(operation.slot in (one.slot, one.begun) for one in stretch):
            break
    alike, broken = [one for one in found if one.is_why(records[-1])], [one for one in found if one.is_broken]
    return next(iter([one for one in alike if one.is_broken] or alike or broken), None)


def finished_later(records: Sequence[Record], kept: int, failed: Ended) -> Iterator[Ended]:
    """Yields the steps that tasks completed after the failure, if it did not reach them.

    It reaches its own task, those that made that one, and what these have made since. So does every later failure, and
    a cancel. `kept`: how many of the first records are kept.
    """
    reached: list[Ended] = []
    ended = list(_ended(records))
    broken = [one for one in ended if one.is_broken or one.slot == failed.slot]
    for one in sorted(ended, key=lambda one: one.begun):
        reached = [other for other in broken if failed.slot <= other.slot < one.begun]
        is_whole = not one.is_broken and one.begun >= kept and one.what.partition(" ")[0] in KINDS
        if is_whole and one.task not in ("", UNKNOWN) and not any(_reaches(other, one.task) for other in reached):
            yield one


def left_over(before: Token, records: Sequence[Record], slot: int) -> Iterator[Finished]:
    """Yields what the failed run had not yet taken of the run before it, of tasks in which nothing failed since."""
    ended = _ended(records) if before.finished else ()
    reached = [one for one in ended if one.slot == slot or (one.is_broken and slot < one.slot)]
    for task, found in before.finished.items():
        if not any(task in makers_of(path_of(one.task)) for one in reached):
            yield from found


def _reaches(broken: Ended, task: str) -> bool:
    """Tells whether the end of one task's operation may be why this task did what it did afterwards."""
    reached = set(makers_of(path_of(broken.task)))
    is_made_after = any(maker in reached and slot >= broken.slot for maker, slot in made_at(task))
    return is_made_after or path_of(task) in reached


def with_ends(records: Sequence[Record], slot: int, begun: Token, failed: Ended | None) -> tuple[Record, ...]:
    """Returns the records before this slot, and the ends behind it of what had begun before and did not fail."""
    again = {one.slot for one in _ended(records) if one.is_broken} | ({failed.slot} if failed is not None else set())
    slot = before_aside(records, slot, begun)
    kept = list(records[:slot])
    token = fold(kept, begun)
    for record in records[slot:]:
        if _is_end(record) and record.slot not in again and record.resumption is not None:
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


def _stretches(records: Sequence[Record]) -> Iterator[list[Ended]]:
    """Yields the failed operations of each stretch in which tasks had something under way; the last may be empty."""
    failed = {one.slot: one for one in _ended(records) if one.error is not None or one.tolerated}
    token, found = Token(), list[Ended]()
    for record in records:
        if not token.has_open_tasks and _is_of_function(record):
            yield found
            found = []
        if record.slot in failed:
            found.append(failed[record.slot])
        token = apply(token, record)
    yield found


def _is_of_function(record: Record) -> bool:
    """Tells whether the function itself goes on with this record, where none of its tasks has anything under way."""
    if record.kind is Kind.WAITING and record.parked is not None and record.parked.of_tasks:
        return all([*made_at(task)] in ([], [("", record.slot - 1)]) for _, task in begun_by(record))
    return record.kind in {Kind.STEP, Kind.BEGAN, Kind.WAITING, Kind.MOVED, Kind.RETURNED} and not record.task


def _ended(records: Sequence[Record]) -> Iterator[Ended]:
    """Yields the operations of tasks that ended or were cancelled, in this order, in the function's present life."""
    for one in _ends(records):
        yield replace(one, has_followed=True) if one.tolerated and _has_followed(one, records) else one


def _has_followed(ended: Ended, records: Sequence[Record]) -> bool:
    """Tells whether a task that the operation's end has reached began something afterwards."""
    later = records[ended.slot + 1 :]
    tasks = [*(task for record in later for _, task in begun_by(record)), *(one.task for one in later if one.task)]
    return any(task == UNKNOWN or _reaches(ended, task) for task in tasks)


def _ends(records: Sequence[Record]) -> list[Ended]:
    journal, begun, found = Journal(), dict[str, Ended](), list[Ended]()
    for record in records:
        for index, (what, task) in enumerate(begun_by(record)):
            token = branch_id(fork_id(ROOT, record.slot), index)
            begun[f"{record.slot}.{index}"] = Ended(_name(what), what, task, record.slot, -1, token=token)
        cancelled = record.parked.cancelled if record.parked is not None else ()
        found += [replace(begun[one], slot=record.slot, is_cancelled=True) for one in cancelled if one in begun]
        entry = journal.take(record)
        if record.kind is Kind.RETURNED and isinstance(record.next, Goto):
            begun, found = {}, []
        elif record.resumption is not None and record.resumption.part in begun and _is_end(record):
            one = begun[record.resumption.part]
            tolerated = failures_in(record.output) if one.what.partition(" ")[0] == "all" else ()
            found.append(replace(one, slot=record.slot, error=record.error, tolerated=tolerated))
        elif entry is not None and entry.ended_ms is not None and entry.kind not in INPUTS and records[entry.slot].task:
            task = records[entry.slot].task
            found.append(Ended(entry.name, str(entry), task, entry.slot, record.slot, entry.error,
                               arguments=entry.arguments))  # fmt: skip
    return found


def _name(what: str) -> str:
    return what.partition(" ")[2] or what


def _is_end(record: Record) -> bool:
    return record.resumption is not None and record.resumption.kind == ENDED


def is_same(error: Failure | None, last: Record) -> bool:
    """Tells whether the function ended with this error, which it may have caught and raised again."""
    ended = last.error
    if error is None or ended is None:
        return False
    return (error.type, error.message) == (ended.type, ended.message) or _is_within(error, ended)


def _is_within(error: Failure, group: Failure) -> bool:
    """Tells whether the message of an exception group, such as that of a TaskGroup, names this error."""
    told = f": {error.message}" if error.message != error.type else f"{error.type}: "
    return group.type.endswith("ExceptionGroup") and told in group.message
