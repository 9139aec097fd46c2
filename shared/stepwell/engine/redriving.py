"""Redriving: how much of a failed run's log another run keeps, and where that one goes on.

    failed run   0 charge ── 1 pack ── 2 ship (failed) ── 3 ship (failed): the end
    new run      0 charge ── 1 pack ── 2 REDRIVEN, at ship ── 3 ship …

The visit of the node that failed begins anew, with its waits and its retries; what came before it is kept.

    failed run   0 charge, which forks ── 1 joined (failed): the end     0/0.0 completed   0/0.1 failed
    new run      0 charge, which forks ── 1 REDRIVEN ── 2 REOPENED ──    0/2.0 as it was   0/2.1 REDRIVEN, at its step

In a fork, the branches that completed are kept; each of the others goes on like a run that failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from stepwell.engine.durable.journal import INPUTS, Entry, Journal
from stepwell.engine.durable.redriven import (
    Ended,
    before_aside,
    failed_in_tasks,
    finished_later,
    is_amid_tasks,
    is_asked_by_tasks,
    is_same,
    left_over,
    with_ends,
)
from stepwell.engine.durable.tasks import names_of
from stepwell.engine.fold import apply, fold
from stepwell.engine.forks.join import failures_in
from stepwell.engine.limits.locks import LOCK, UNLOCK
from stepwell.engine.records import Failure, Finished, Fork, Goto, Kind, Record, Status
from stepwell.engine.stored.formats import EVALUATOR
from stepwell.engine.table import Phase
from stepwell.engine.token import Token
from stepwell.errors import Conflict, EngineFault, InvalidInput
from stepwell.values import dataclass

_NO_WORK = INPUTS | {LOCK, UNLOCK}  # entries of a journal that do nothing which could undo a step


@dataclass(frozen=True, slots=True)
class Kept:
    """The records that the new run keeps, the token after them, and where that goes on."""

    records: tuple[Record, ...]
    token: Token
    node: str  # "": where these records lead
    keyed_by: str  # the run whose idempotency key the visit keeps; "": it gets a new one
    first_run: str  # in which this log began, and
    first_ms: int  # when; 0: in this run, when that did
    reopens: Fork | None = None  # the fork in which it failed, and
    fork_slot: int = -1  # where that is in the failed run
    evaluator: int = EVALUATOR  # of that fork's record
    later: tuple[Ended, ...] = ()  # steps of a function's tasks that completed after it had failed, in order
    finished: tuple[Finished, ...] = ()  # those of the run before that, which this one had not yet taken


def kept_of(run_id: str, records: Sequence[Record], since: str = "") -> Kept:
    """Returns what a redrive of this ended run keeps. `since`: a node or operation to go on from, instead.

    Raises Conflict for a run that cannot be redriven, InvalidInput for a `since` that it did not come to.
    """
    before = fold(records[:-1], Token())
    _check(before, apply(before, records[-1]))
    return _kept(run_id, before, records, since)


def kept_of_branch(place: str, records: Sequence[Record], begun: Token) -> Kept:
    """Returns what a redrive keeps of a branch that ended and did not complete. `place`: where it was, run:branch.

    `begun`: the branch in the new run, before its first record. Raises Conflict.
    """
    return _kept(place, fold(records[:-1], begun), records)


def is_whole(records: Sequence[Record]) -> bool:
    """Tells whether nothing failed in a branch that completed. `records`: its log."""
    operation = _failed_operation(records) if records[-1].kind is Kind.RETURNED else None
    return operation is None or not isinstance(records[operation.slot].next, Fork)


def _kept(place: str, before: Token, records: Sequence[Record], since: str = "") -> Kept:
    last = records[-1]
    starts = _starts(records)
    operation = _failed_operation(records) if last.kind is Kind.RETURNED else None
    begun = Token(before.id)
    failed: Ended | None = None
    fork_slot = -1 if since else _slot_of_fork(before, operation, records)
    if fork_slot >= 0:
        return _kept_at_fork(place, before, records, fork_slot)
    node, failed_slot = _failed(before, last, operation, starts)
    slot = failed_slot
    if since:
        if since not in starts:
            raise InvalidInput(f"the run did not come to {since!r}", code="unknown_step",
                               hint="GET /runs/{id}/history lists the steps that it came to")  # fmt: skip
        node, slot = since, starts[since]
    elif last.kind is Kind.RETURNED and _may_be_of_tasks(operation, records):
        failed = failed_in_tasks(records, operation)
        slot = failed_slot = failed.first if failed else last.slot
        node = failed.name if failed else ""
    elif is_amid_tasks(before) or is_asked_by_tasks(before):
        node, slot = "", last.slot
    if is_amid_tasks(fold(records[:slot], begun)):
        kept = _kept_amid_tasks(place, before, with_ends(records, slot, begun, failed))
        slot = before_aside(records, slot, begun)
        return kept if since else _with_finished(kept, before, records, slot, failed)
    if not since:
        _check_place(last)
    slot, is_again = _with_mark(records, slot, node, begun), slot == failed_slot
    token = fold(records[:slot], begun)
    check_start(token)
    keyed_by = (_keyed_by(records[slot]) or place) if is_again else ""
    kept = Kept(tuple(records[:slot]), token, node, keyed_by, before.first_run or _run_of(place), before.first_ms)
    return kept if since else _with_finished(kept, before, records, slot, failed)


def _is_of_tasks(operation: Entry, records: Sequence[Record]) -> bool:
    return operation.place is not None or bool(records[operation.slot].task)


def _with_finished(kept: Kept, before: Token, records: Sequence[Record], slot: int, failed: Ended | None) -> Kept:
    """Adds what other tasks completed after the failure. `slot`: that of the first record that is not kept."""
    later = finished_later(records, slot, failed) if failed is not None else ()
    left = left_over(before, records, failed.slot if failed is not None else slot)
    return replace(kept, later=tuple(later), finished=tuple(left))


def _kept_at_fork(place: str, before: Token, records: Sequence[Record], fork_slot: int) -> Kept:
    """Keeps the record that forked. One that was reopened before is reopened anew, in the same slot."""
    unopened = _unopened(before)
    forked = unopened or records[fork_slot]
    slot = fork_slot - 1 if unopened or forked.kind is Kind.REOPENED else fork_slot + 1
    token = fold(records[:slot], Token(before.id))
    check_locks(token)
    was = forked.reopens or forked.next
    if not isinstance(was, Fork):
        raise EngineFault(f"slot {fork_slot} has no fork", code="broken_log")
    fork = replace(
        was,
        kept=(),
        since_ms=was.since_ms or forked.at_ms,
        lane=0,
        by_arrival=bool(was.needs) or any(group.max_concurrency for group in was.groups),
    )
    first = before.first_run or _run_of(place), before.first_ms
    return Kept(tuple(records[:slot]), token, "", "", *first, fork, fork_slot, forked.evaluator)


def _kept_amid_tasks(place: str, before: Token, records: tuple[Record, ...]) -> Kept:
    token = fold(records, Token(before.id))
    check_locks(token)
    return Kept(records, token, "", "", before.first_run or _run_of(place), before.first_ms)


def _slot_of_fork(before: Token, operation: Entry | None, records: Sequence[Record]) -> int:
    """Returns the slot of the fork in which the token failed; -1 if it did not fail in one."""
    if _unopened(before) is not None:
        return before.slot + 1
    at_fan_in = before.slot if before.phase is Phase.WAITING_AT_FAN_IN else -1
    slot = at_fan_in if operation is None else operation.slot
    there = records[slot].next if slot >= 0 else None
    return slot if isinstance(there, Fork) and not there.is_of_tasks and not before.has_open_tasks else -1


def _unopened(before: Token) -> Record | None:
    """Returns the mark of the redrive before, if the token ended before it reopened its fork."""
    return before.last if before.last is not None and before.last.reopens is not None else None


def _run_of(place: str) -> str:
    return place.partition(":")[0]


def _with_mark(records: Sequence[Record], slot: int, node: str, begun: Token) -> int:
    """Returns the slot of the redrive before, if it began this visit: of a function's operation, one slot earlier.

    The operation may have waited for code, or for a permit, in between.
    """
    first = slot
    while first and fold(records[:first], begun).aside is not None:
        first -= 1
    before = records[first - 1] if first else None
    is_mark = before is not None and before.kind is Kind.REDRIVEN and before.node in ("", node)
    return first - 1 if is_mark else slot


def _keyed_by(first: Record) -> str:
    """Returns the run whose key the visit has kept since it was redriven before."""
    return first.keyed_by if first.kind is Kind.REDRIVEN else ""


def _check(before: Token, ended: Token) -> None:
    if ended.end is None:
        raise Conflict("the run has not ended", code="not_ended", hint="cancel or terminate it first")
    if ended.end.status is Status.COMPLETED:
        raise Conflict("the run completed: nothing is left to go on from", code="completed",
                       hint="rerun starts it anew; fork makes a run that goes on from any of its slots")  # fmt: skip
    check_undoing(ended)
    if before.cleaning is not None:
        raise Conflict("the run's function has cleaned up: nothing is left to go on from", code="has_cleaned_up",
                       hint="rerun starts it anew")  # fmt: skip


def check_undoing(token: Token) -> None:
    """Raises Conflict for a run that is undone, or was to be: nobody knows which of its steps still count."""
    if token.undoing is None:
        return
    if token.end is None:
        raise Conflict("the run is being undone", code="compensating", hint="rerun starts it anew")
    if token.end.status is Status.COMPENSATED:
        raise Conflict("the run was compensated: its steps are undone, and nothing is left to go on from",
                       code="was_compensated", hint="rerun starts it anew")  # fmt: skip
    count = len(token.undoing.undone)
    steps = "1 step is" if count == 1 else f"{count} steps are"
    raise Conflict(f"the rollback of the run ended midway: {steps} undone, and others are not", code="partly_undone",
                   hint="undo yourself what `rollback.not_undone` of the run names; rerun starts it anew")  # fmt: skip


def _check_place(last: Record) -> None:
    """Raises Conflict for a failure that no visit of a node can repeat."""
    if last.kind in {Kind.STEP, Kind.MOVED} and last.error is None:
        raise Conflict(f"{last.node} succeeded, and the run failed on the way to the next node",
                       code="failed_between", hint="redrive it `from` a step, or rerun it")  # fmt: skip


def check_start(token: Token) -> None:
    """Raises Conflict if what the log needs there cannot be had again."""
    check_locks(token)
    if token.phase not in {Phase.INITIALIZING, Phase.EXECUTING_STEP} or token.has_open_tasks:
        raise Conflict("other operations were under way there", code="failed_in_fork",
                       hint="redrive it `from` a step before the fork, or rerun it")  # fmt: skip


def check_locks(token: Token) -> None:
    if token.locks is not None:
        names = ", ".join(token.locks.names)
        raise Conflict(f"the run held the lock {names} there, and has let it go", code="held_lock",
                       hint="redrive it `from` a step before the lock, or rerun it")  # fmt: skip


def _starts(records: Sequence[Record]) -> dict[str, int]:
    """Returns the slot in which the last visit of each node began; of a function, in its present life."""
    found = dict[str, int]()
    for slot, node in visits_of(records):
        if not node:
            found.clear()
        else:
            found[node] = slot
    return found


def moved_forks(records: Sequence[Record]) -> set[int]:
    """Returns the slots of the forks that a redrive reopened in a later slot: their branches are there."""
    return {record.slot - 1 for record in records if record.kind is Kind.REDRIVEN and record.reopens is not None}


def visits_of(records: Sequence[Record]) -> Iterator[tuple[int, str]]:
    """Yields the slot in which each visit began, and its node; before a function's new life, one without a node.

    That of an operation of a function's tasks is the slot of the record that began it.
    """
    token = Token()
    for record in records:
        before, token = token, apply(token, record)
        following = record.next.node if isinstance(record.next, Goto) else ""
        if record.kind is Kind.RETURNED and following:
            yield record.slot + 1, ""
        gained = token.visits.get(record.node, 0) - before.visits.get(record.node, 0)
        if gained > (following == record.node):
            yield record.slot, record.node
        if following:
            yield record.slot + 1, following
        for name in names_of(record):
            yield record.slot, name


def _failed(before: Token, last: Record, operation: Entry | None, starts: dict[str, int]) -> tuple[str, int]:
    """Returns the node that failed, and the slot in which its visit began."""
    if operation is not None:
        return operation.name, operation.slot
    if last.kind is Kind.RETURNED:
        return "", last.slot
    node = before.node or last.node
    if not node:  # nothing had begun: an idle run was started, or one of gathered starts, or not even that
        starts_kept = before.gathered.count if before.gathered is not None else 0
        return "", starts_kept + 1 if before.started_ms else 0
    return node, starts.get(node, last.slot)


def _failed_operation(records: Sequence[Record]) -> Entry | None:
    """Returns the operation whose failure ended the function: the last one, or the last that failed as it did.

    A fork that tolerates failures has failed too, if some of its branches have, or some of a fork in one of these.
    None: the function's own code failed.
    """
    journal, ended = Journal(), list[tuple[Entry, list[Failure]]]()
    for record in records:
        entry = journal.take(record)
        if record.kind is Kind.RETURNED and isinstance(record.next, Goto):
            ended.clear()
        elif entry is not None and entry.ended_ms is not None:
            ended.append((entry, _failures(entry, record)))
    last = len(ended) - 1
    failed = [
        one
        for at, (one, errors) in enumerate(ended)
        if any(is_same(error, records[-1]) for error in errors)
        or (errors and at == last and (one.error is not None or one.place is None))
    ]
    return failed[-1] if failed else None


def _failures(entry: Entry, last: Record) -> list[Failure]:
    """Returns what an operation failed with; of a fork that tolerates failures, those of its branches.

    `last`: its last record.
    """
    if entry.error is not None:
        return [entry.error]
    is_joined = last.kind is Kind.JOINED
    return [*failures_in(entry.value)] if is_joined or entry.place is not None else []


def completed_later(records: Sequence[Record]) -> Iterator[tuple[str, int]]:
    """Yields what a function itself completed after the operation that it failed with, each with its last slot.

    It is what its `except` and `finally` did, and may have undone what was before. A redrive goes on before it.
    """
    is_returned = records[-1].kind is Kind.RETURNED
    operation = _failed_operation(records) if is_returned else None
    failed = failed_in_tasks(records, operation) if is_returned and _may_be_of_tasks(operation, records) else None
    first = failed.slot if failed is not None else operation.slot if operation is not None else len(records)
    journal = Journal()
    for record in records:
        entry = journal.take(record)
        if entry is None or entry.ended_ms is None or entry.error is not None or entry.slot <= first:
            continue
        if entry.kind not in _NO_WORK:
            yield entry.name, record.slot


def _may_be_of_tasks(operation: Entry | None, records: Sequence[Record]) -> bool:
    return operation is None or _is_of_tasks(operation, records)
