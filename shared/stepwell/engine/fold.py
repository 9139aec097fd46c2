"""Fold: a token's state, computed from its records alone. The definition is not needed to read a log.

`fold(log)` after a crash equals the state before it, because `apply` is the only way a token changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from stepwell.engine import starts
from stepwell.engine.copying import changed
from stepwell.engine.durable import finished, tasks
from stepwell.engine.durable.journal import brought
from stepwell.engine.entering import NEW_VISIT, entered_by, slot_kept, without_aside
from stepwell.engine.limits import locks, shares, throttles
from stepwell.engine.records import (
    ENDED,
    ROOT,
    UPDATE,
    CleanUp,
    Compensate,
    End,
    Fork,
    Goto,
    Kind,
    Parked,
    Pause,
    Record,
    Resumption,
    RetryAt,
    Status,
)
from stepwell.engine.table import Phase, Signal, walk
from stepwell.engine.token import Cleaning, StepView, Token, Undoing
from stepwell.engine.waits.kind import coming_of, kind_named
from stepwell.errors import EngineFault
from stepwell.limits import SEEN_EVENTS

_SIGNALS = {
    Kind.STARTED: Signal.STARTED,
    Kind.ACTED: Signal.ACTED,
    Kind.RECEIVED: Signal.RECEIVED,
    Kind.RESUMED: Signal.RESUMED,
    Kind.REDRIVEN: Signal.REDRIVEN,
    Kind.REOPENED: Signal.REOPENED,
    Kind.GATHERED: Signal.GATHERED,
}
Changes: TypeAlias = dict[str, Any]  # fields of a Token by name

_END_SIGNALS = {Status.COMPLETED: Signal.COMPLETED, Status.CANCELLED: Signal.CANCELLED}


def signals(record: Record, phase: Phase) -> tuple[Signal, ...]:
    """Returns the signals of a record: its walk through the table."""
    first = (Signal.PICKED_UP,) if phase is Phase.INITIALIZING and record.kind not in _BEFORE_PICK_UP else ()
    if phase is Phase.WAITING_AT_FAN_IN and record.kind in _BY_FUNCTION:
        first = (Signal.LOOKED,)
    match record.kind:
        case Kind.BEGAN:
            return (*first, Signal.BEGAN)
        case Kind.WAITING if record.parked:
            return (*first, kind_named(record.parked.kind).signal)
        case kind if kind in _SIGNALS:
            return (_SIGNALS[kind],)
        case Kind.JOINED if record.next is not None:
            return (Signal.JOINED, _ways_on(record)[-1])
        case Kind.UNDONE:
            return (Signal.UNDONE, Signal.FAILED) if isinstance(record.next, End) else (Signal.UNDONE,)
        case Kind.ENDED if isinstance(record.next, CleanUp):
            return (Signal.INTERRUPTED,)
        case Kind.ENDED if isinstance(record.next, End | Compensate):
            broken = isinstance(record.next, Compensate)
            return (Signal.BROKEN if broken else _END_SIGNALS.get(record.next.status, Signal.FAILED),)
        case Kind.STEP | Kind.MOVED | Kind.RETURNED if record.next is not None:
            return (*first, *_ways_on(record))
        case _:
            raise EngineFault(f"slot {record.slot}: a {record.kind} record without its parts", code="broken_record")


_BEFORE_PICK_UP = frozenset({Kind.STARTED, Kind.ENDED, Kind.REDRIVEN, Kind.GATHERED})
_BY_FUNCTION = frozenset({Kind.WAITING, Kind.RETURNED, Kind.MOVED})  # while its tasks wait


def _ways_on(record: Record) -> tuple[Signal, ...]:
    through_branch = (Signal.CONTINUED,) if not record.rules or ".diverge[" not in record.rules[-1] else ()
    match record.next:
        case Pause() if record.error is None:
            return (Signal.ASKED,)
        case Pause():
            return (Signal.NODE_ENDED, Signal.ASKED)
        case RetryAt():
            return (Signal.NODE_ENDED, Signal.RETRIED)
        case Goto():
            return (Signal.NODE_ENDED, *through_branch, Signal.ROUTED)
        case Fork():
            return (Signal.NODE_ENDED, *through_branch, Signal.FORKED)
        case End(status=status) if status in _END_SIGNALS:
            return (Signal.NODE_ENDED, *through_branch, _END_SIGNALS[status])
        case following:
            last = Signal.BROKEN if isinstance(following, Compensate) else Signal.FAILED
            return (Signal.NODE_ENDED, last) if record.error else (Signal.NODE_ENDED, *through_branch, last)


def fold(records: Iterable[Record], token: Token) -> Token:
    """Applies records in slot order. Raises EngineFault for a gap or an illegal record."""
    for record in records:
        token = apply(token, record)
    return token


def apply(token: Token, record: Record) -> Token:
    """Returns the token after one more record. Raises EngineFault if the record cannot follow."""
    if record.slot != token.slot + 1:
        raise EngineFault(f"slot {record.slot} cannot follow slot {token.slot}", code="gap_in_log")
    phase = walk(token.phase, signals(record, token.phase))[-1]
    kept, token = (-1, token) if token.aside is None else (slot_kept(token), without_aside(token, record))
    entered = entered_by(token, record, kept)
    changes = _CHANGES[record.kind](entered, record)  # one copy of the token for all of them: this is the hot path
    if token.locks is not None or token.released:
        changes = {**changes, **locks.after(token, record)}
    if token.permit is not None or token.returned:
        changes = {**changes, **throttles.after(token, record)}
    if token.share is not None or (record.rules and shares.frees(record)):
        changes = {**changes, **shares.after(token, record, changes.get("returned", ()))}
    if token.finished or record.finished:
        changes = {**changes, "finished": finished.after(token, record)}
    parked = record.parked or token.parked
    if token.tasks or token.dropped or (parked is not None and parked.of_tasks):
        changes = {**changes, **tasks.after(token, record)}
    return changed(entered, slot=record.slot, last=record, phase=phase, **changes)


def _started(token: Token, record: Record) -> Changes:
    return {"started_ms": record.at_ms}


def _redriven(token: Token, record: Record) -> Changes:
    """Goes on in a run of its own: with its own time and cost, and the idempotency key that the visit had."""
    started_ms = record.at_ms if token.started_ms and token.id == ROOT else token.started_ms
    own: Changes = {"origin": record.origin, "keyed_by": record.keyed_by, "calls": 0, "started_ms": started_ms,
                    "share": None}  # fmt: skip
    if record.writes:
        own["scope"] = {**token.scope, **record.writes}
    entered_slot = token.keyed_slot if record.keyed_by and token.keyed_slot >= 0 else record.slot - token.shift
    return {**own, "entered_slot": entered_slot, "keyed_slot": -1, "first_run": record.first_run,
            "first_ms": record.started_ms}  # fmt: skip


def _reopened(token: Token, record: Record) -> Changes:
    return _leave(token, record, 0)


def _began(token: Token, record: Record) -> Changes:
    return {}


def _step(token: Token, record: Record) -> Changes:
    before = token.steps.get(record.node)
    again = before is not None and token.attempt > 0
    status = _view_status(record)
    view = StepView(
        status=status,
        output=None if record.is_done else record.output,
        error=record.error,
        attempts=record.attempt,
        started_ms=before.started_ms if again and before else record.started_ms,
        ended_ms=0 if status in ("running", "waiting") else record.at_ms,
    )
    left = _leave(token, record, record.attempt)
    return {"calls": token.calls + (not record.taken), **_show(token, record, view), **left}


def _moved(token: Token, record: Record) -> Changes:
    before = token.steps.get(record.node)
    is_awaited = isinstance(record.next, Fork) and record.next.is_awaited
    is_plain = token.parked is None and record.error is None and not record.skipped
    if is_plain and (is_awaited or not record.writes):  # it was passed: what makes a result writes something beside it
        passed = {"scope": {**token.scope, **(record.writes or {})}, **_leave(token, record, 0)}
        if before is None or is_awaited:
            return passed
        view = changed(before, status="completed", error=None, ended_ms=record.at_ms)  # its join had failed before
        return {**passed, "steps": {**token.steps, record.node: view}, "error": None}
    base = before or StepView("running", started_ms=record.at_ms if is_plain else 0)
    is_tried_again = isinstance(record.next, RetryAt)  # of child runs
    view = changed(base, status=_view_status(record), output=None if record.is_done else record.output,
                   error=record.error, attempts=record.attempt if base.children else base.attempts,
                   ended_ms=0 if is_tried_again else record.at_ms)  # fmt: skip
    attempt = record.attempt if is_tried_again else 0
    changes = {**_show(token, record, view), **_leave(token, record, attempt)}
    is_nap = token.parked is not None and token.parked.is_nap and record.error is None
    return {**changes, "result": token.result} if is_nap else changes


def _returned(token: Token, record: Record) -> Changes:
    """Applies a durable function's end, or its new beginning, with its state."""
    left = _leave(token, record, 0)
    if isinstance(record.next, Goto):
        return {**left, "scope": dict(record.writes or {}), "began_slot": record.slot}
    scope = {**token.scope, **(record.writes or {})}
    return {**left, "scope": scope, "result": record.output, "error": record.error}


def _show(token: Token, record: Record, view: StepView) -> Changes:
    paused = view.status == "waiting"
    writes = {record.node: record.output} if record.writes is None else record.writes
    return {
        "steps": {**token.steps, record.node: view},
        "scope": token.scope if paused or record.error is not None else {**token.scope, **writes},
        "result": token.result if record.error is not None or paused else record.output,
        "error": record.error if record.error is not None else (token.error if paused else None),
    }


def _view_status(record: Record) -> str:
    match record.next:
        case RetryAt():
            return "running"
        case Pause():
            return "waiting"
        case _ if record.skipped:
            return "skipped"
        case _:
            return "failed" if record.error is not None else "completed"


def _leave(token: Token, record: Record, attempt: int) -> Changes:
    """Moves the token as the record's `next` says."""
    uses = token.rule_uses
    if record.rules:
        uses = {**uses}
        for rule in record.rules:
            uses[rule] = uses.get(rule, 0) + 1
    match record.next:
        case Goto(node):
            visits = {**token.visits, node: token.visits.get(node, 0) + 1}
            return {**NEW_VISIT, "node": node, "entered_slot": record.slot + 1 - token.shift, "visits": visits,
                    "rule_uses": uses}  # fmt: skip
        case End(status, error, at_join):
            end = End(status, error if error is not None or status is Status.COMPLETED else record.error, at_join)
            over: Changes = {"parked": None, "resumption": None, "fork": None}
            return {**over, "rule_uses": uses, "attempt": attempt, "end": end}
        case Fork():
            return {**NEW_VISIT, "rule_uses": uses, "fork": record.next}
        case Compensate(status, error):
            return {**NEW_VISIT, "rule_uses": uses, "undoing": Undoing(status, error or record.error)}
        case _:
            return {"rule_uses": uses, "attempt": attempt, "fork": None}


def _joined(token: Token, record: Record) -> Changes:
    """Gives the branches' outputs to the parent, which continues."""
    calls = token.calls + (record.tally.calls if record.tally else 0)
    left = {"calls": calls, **_leave(token, record, 0)}
    is_early = token.fork is not None and record.tally is not None and record.tally.arrived < token.fork.width
    if is_early:
        left |= {"early_slot": record.slot}
    if isinstance(record.next, Fork):  # its failure led to another fork, by the rules of the node where they met
        left |= {"node": record.node}
    elif is_early:
        left |= {"fork": token.fork}
    if record.error is not None and not record.node:
        return {**left, "error": record.error}
    if record.error is not None:
        failed = StepView("failed", error=record.error, started_ms=record.at_ms, ended_ms=record.at_ms)
        return {**left, "steps": {**token.steps, record.node: failed}, "error": record.error}
    writes = {record.node: record.output} if record.writes is None else record.writes
    return {**left, "scope": {**token.scope, **writes}, "result": record.output, "error": None}


def _waiting(token: Token, record: Record) -> Changes:
    parked = record.parked
    return {} if parked is None else kind_named(parked.kind).parked(token, record, parked)


def _received(token: Token, record: Record) -> Changes:
    slot = token.waiting_slot
    if record.resumption is not None and record.resumption.kind == UPDATE:  # of no account for the wait
        return {"received_slot": slot, "scope": {**token.scope, **(record.writes or {})}}
    if record.resumption is not None and record.resumption.kind == ENDED:
        return {"received_slot": slot}
    if token.parked is not None and token.parked.of_tasks:  # a timer
        return {"received_slot": slot, "parked": changed(token.parked, until_ms=None)}
    resumptions = () if record.resumption is None else (record.resumption,)
    replaced = {(one.kind, one.arm) for one in resumptions if coming_of(one).only_last}
    before = tuple(one for one in token.received if (one.kind, one.arm) not in replaced)
    return {"received": (*before, *resumptions), "received_slot": slot, **_seen(token, record)}


def _resumed(token: Token, record: Record) -> Changes:
    parked, resumption = token.parked, record.resumption
    if parked is None or parked.of_tasks:
        return {"resumption": resumption, **_seen(token, record)}
    if parked.of_function and resumption is not None:
        return {"resumption": resumption, **_seen(token, record), **_awaited(token, parked, record, resumption)}
    return {**kind_named(parked.kind).resumed(token, record, parked), **_seen(token, record)}


def _awaited(token: Token, parked: Parked, record: Record, resumption: Resumption) -> Changes:
    """Ends the operation that a durable function awaited, because no further record does."""
    value, error = brought(parked, resumption, token.received, record.node)
    status = "completed" if error is None else "failed"
    view = changed(token.steps[record.node], status=status, output=value, error=error, ended_ms=record.at_ms)
    return {"steps": {**token.steps, record.node: view}, "result": token.result if error else value, "error": error}


def _seen(token: Token, record: Record) -> Changes:
    """Returns the events that this token has seen and did not consume; only the latest ones if there are many."""
    place = record.resumption.seen if record.resumption else ""
    if not place:
        return {}
    topic, _, event = place.partition("\n")
    return {"seen": {**token.seen, topic: tuple(sorted({*token.seen.get(topic, ()), event}))[-SEEN_EVENTS:]}}


def _acted(token: Token, record: Record) -> Changes:
    if isinstance(record.next, RetryAt):
        return {"calls": token.calls + 1, "attempt": record.attempt}
    scope = token.scope if record.writes is None else {**token.scope, **record.writes}
    return {"calls": token.calls + 1, "attempt": 0, "acted": token.acted + 1, "scope": scope}


def _ended(token: Token, record: Record) -> Changes:
    end = record.next if isinstance(record.next, End) else None
    steps = token.steps
    view = steps.get(token.node)
    if view is not None and view.status in {"waiting", "running"}:
        steps = {**steps, token.node: changed(view, status="cancelled", ended_ms=record.at_ms)}
    if isinstance(record.next, CleanUp):
        cleaning = Cleaning(record.next.status, record.next.until_ms, record.reason, record.who)
        return {"cleaning": cleaning, "steps": steps, "attempt": 0, "resumption": Resumption("cancelled")}
    if isinstance(record.next, Compensate):
        undoing = Undoing(record.next.status, record.next.error, record.reason, record.who)
        return {"undoing": undoing, "steps": steps, "attempt": 0, "error": undoing.error or token.error}
    return {"end": end, "steps": steps, "error": end.error if end and end.error else token.error}


def _undone(token: Token, record: Record) -> Changes:
    """Applies an attempt to undo a committed step, or the end of the compensation."""
    over: Changes = {"parked": None, "resumption": None, "fork": None, "attempt": 0}
    if isinstance(record.next, End):
        over["end"] = record.next
    if not record.undid:
        return over
    over["calls"] = token.calls + 1
    if record.error is not None:
        return {**over, "attempt": record.attempt}
    if token.undoing is None:
        raise EngineFault(f"slot {record.slot}: nothing is being undone", code="broken_record")
    view = token.steps.get(record.node)
    if view is not None and record.undid.startswith(f"{token.id}@"):
        over["steps"] = {**token.steps, record.node: changed(view, status="compensated")}
    return {**over, "undoing": replace(token.undoing, undone=(*token.undoing.undone, record.undid))}


_CHANGES: Mapping[Kind, Callable[[Token, Record], Changes]] = {
    Kind.STARTED: _started,
    Kind.GATHERED: starts.gathered,
    Kind.REDRIVEN: _redriven,
    Kind.REOPENED: _reopened,
    Kind.BEGAN: _began,
    Kind.STEP: _step,
    Kind.MOVED: _moved,
    Kind.JOINED: _joined,
    Kind.WAITING: _waiting,
    Kind.RECEIVED: _received,
    Kind.RESUMED: _resumed,
    Kind.ACTED: _acted,
    Kind.ENDED: _ended,
    Kind.UNDONE: _undone,
    Kind.RETURNED: _returned,
}
