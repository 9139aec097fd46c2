"""Inputs for a run as a whole: it is started, redriven, paused, or ended from outside."""

from __future__ import annotations

from typing import TypeAlias

from stepwell.engine.actions import Action, Drop, Hold, Refuse, Rest, Write
from stepwell.engine.durable.redriven import is_amid_tasks
from stepwell.engine.inputs import (
    Cancelled,
    Closed,
    DeadlinePassed,
    OverLimit,
    Paused,
    Redriven,
    Started,
    Terminated,
    Unpaused,
)
from stepwell.engine.limits import permits
from stepwell.engine.names import Moment
from stepwell.engine.records import Kind, Record, Status
from stepwell.engine.refusals import refusal
from stepwell.engine.table import Phase
from stepwell.engine.token import Token
from stepwell.engine.writing import deadline_ms, ended_record, record, timeout_failure

ForRun: TypeAlias = (
    Started | Redriven | Paused | Unpaused | Cancelled | OverLimit | Terminated | DeadlinePassed | Closed
)  # fmt: skip


def answer(moment: Moment, token: Token, given: ForRun) -> Action:
    """Starts or holds the run, or ends it or one of its branches at the next free slot."""
    match given:
        case Started():
            return _started(moment, token, given)
        case Paused() | Unpaused():
            return _held(moment, token, given)
        case Redriven():
            return _redriven(moment, token, given)
        case Cancelled() if token.cleaning is not None:
            return refusal(token, given)  # a function is told once
        case Cancelled(reason, who):
            return Write(ended_record(moment, token, Status.CANCELLED, None, reason=reason, who=who))
        case OverLimit(reason):
            return Write(ended_record(moment, token, Status.CANCELLED, None, reason=reason, who=permits.WHO))
        case Terminated(error, reason, who):
            return Write(ended_record(moment, token, Status.FAILED, error, reason=reason, who=who))
        case Closed():
            return Write(ended_record(moment, token, Status.CANCELLED, None))
        case DeadlinePassed():
            limit_ms = deadline_ms(moment.graph, moment.run, token)
            return Drop() if limit_ms is None else overdue(moment, token) or Rest(limit_ms)


def _started(moment: Moment, token: Token, given: Started) -> Action:
    if not moment.run.idle or token.last is not None:
        return Refuse("the run is not idle", "not_idle")
    at_ms = max(moment.now_ms, moment.run.created_ms)
    return Write(Record(token.next_slot, Kind.STARTED, moment.by, at_ms, who=given.who))


def _redriven(moment: Moment, token: Token, given: Redriven) -> Action:
    if token.phase is Phase.WAITING_AT_FAN_IN and given.reopens is None and not is_amid_tasks(token):
        return refusal(token, given)
    made = record(
        moment,
        token,
        Kind.REDRIVEN,
        given.node,
        origin=given.origin,
        first_run=given.first_run,
        started_ms=given.first_ms,
        error=given.error,
        keyed_by=given.keyed_by,
        who=given.who,
        reopens=given.reopens,
        finished=given.finished,
        evaluator=given.evaluator,
        writes=dict(given.change.state) or None,
        instead={"output": given.change.result[0]} if given.change.result else None,
    )
    return Write(made)


def overdue(moment: Moment, token: Token) -> Write | None:
    """Ends a run whose own time-out has passed."""
    limit_ms = deadline_ms(moment.graph, moment.run, token)
    if limit_ms is None or moment.now_ms < limit_ms:
        return None
    return Write(ended_record(moment, token, Status.TIMED_OUT, timeout_failure(moment.graph)))


def _held(moment: Moment, token: Token, given: Paused | Unpaused) -> Action:
    """A pause that was asked for before is dropped; its end, if there is none, is refused."""
    if token.cleaning is not None:
        return refusal(token, given)
    if isinstance(given, Paused) and moment.run.idle and token.last is None:
        return Refuse("the run has not been started", "not_begun", "it does nothing before that")
    if isinstance(given, Paused):
        return Drop() if moment.run.is_paused else Hold()
    return Hold() if moment.run.is_paused else Refuse("the run is not paused", "not_paused")
