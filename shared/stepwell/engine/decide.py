"""Decide: what a token does next.

Pure: deciding twice, from the same log at the same moment, decides the same.
"""

from __future__ import annotations

from stepwell.engine import functions
from stepwell.engine.actions import Action, Rest, Write
from stepwell.engine.attempts import lost_record, run_step
from stepwell.engine.compensation import undo_next
from stepwell.engine.forks import fork_into
from stepwell.engine.join import joined_record
from stepwell.engine.journal import CODE
from stepwell.engine.lock_records import lock_record, refused_record, wanted
from stepwell.engine.locks import REFUSED
from stepwell.engine.names import Moment
from stepwell.engine.needs import is_passed_over, may_begin
from stepwell.engine.records import CleanUp, End, Fork, Goto, Kind, Pause, Record, RetryAt, Status
from stepwell.engine.routing import Ended
from stepwell.engine.settle import settle
from stepwell.engine.token import Token
from stepwell.engine.writing import (
    deadline_ms,
    ended_node,
    ended_record,
    node_named,
    record,
    timeout_failure,
    waiting_record,
)
from stepwell.errors import EngineFault


def decide(moment: Moment, token: Token) -> Action:
    """The next thing to do for a token. Raises EngineFault for a log that this graph cannot have written."""
    if token.ended:
        return Rest()
    if token.undoing is not None:
        return undo_next(moment, token)
    limit_ms = deadline_ms(moment.graph, moment.run, token)
    if limit_ms is not None and moment.now_ms >= limit_ms:
        return Write(ended_record(moment, token, Status.TIMED_OUT, timeout_failure(moment.graph)))
    if token.last is None or token.last.kind is Kind.STARTED:
        return _first(moment, token)
    return _go_on(moment, token, token.last)


def _go_on(moment: Moment, token: Token, last: Record) -> Action:
    """What follows from where the last record left the token."""
    match last.kind, last.next:
        case Kind.WAITING | Kind.RECEIVED, _:
            return Rest()
        case Kind.RESUMED, _:
            return _settle(moment, token)
        case _, RetryAt(at_ms) if moment.now_ms < at_ms:
            return Rest(at_ms)
        case Kind.BEGAN, _:
            return functions.amid(moment, token) or Write(lost_record(moment, token))
        case Kind.ACTED, _:
            return settle(moment, token)
        case _, Fork(width=0):
            return Write(joined_record(moment, token, ()))
        case _, Fork():
            return Rest()
        case _, Pause() as pause:
            return functions.amid(moment, token) or Write(waiting_record(moment, token, pause))
        case _, Goto() | RetryAt() | CleanUp():
            return _enter(moment, token, token.node)
    raise EngineFault(f"a log cannot stand at {last.kind} with next {last.next}", code="broken_log")


def _settle(moment: Moment, token: Token) -> Action:
    """After a wait. One that has the locks it asked for, or new code, is where it was before.

    A durable function takes itself what it has awaited; what its steps wait for is theirs.
    """
    parked, came = token.parked, token.resumption
    if came is None or (parked is not None and (parked.of_function or parked.kind == CODE)):
        return _enter(moment, token, token.node or moment.graph.first.name)
    if came.kind == REFUSED:
        return Write(refused_record(moment, token, came))
    return functions.amid(moment, token) or settle(moment, token)


def _first(moment: Moment, token: Token) -> Action:
    if token.branch is not None and not may_begin(token.branch):
        return Rest()
    if token.branch is not None and is_passed_over(token.branch):
        return Write(record(moment, token, Kind.MOVED, token.branch.start, skipped=True, next=End(Status.COMPLETED)))
    if token.branch is not None and token.branch.start == token.branch.join:  # led straight to where they meet
        return Write(record(moment, token, Kind.MOVED, token.branch.fork, next=End(Status.COMPLETED, at_join=True)))
    if token.branch is not None:
        return _enter(moment, token, token.branch.start)
    if moment.run.idle and token.last is None:
        return Rest()
    if moment.now_ms < moment.run.start_at_ms:
        return Rest(moment.run.start_at_ms)
    lock = wanted(moment.graph, token, "")
    return Write(lock_record(moment, token, "", lock)) if lock else _enter(moment, token, moment.graph.first.name)


def _enter(moment: Moment, token: Token, name: str) -> Action:
    node = node_named(moment.graph, name)
    if node.durable is not None:
        return functions.asked(moment) or functions.enter(moment, token)
    if node.members:
        return Write(record(moment, token, Kind.MOVED, name, next=fork_into(node)))
    if (lock := wanted(moment.graph, token, name)) is not None:
        return Write(lock_record(moment, token, name, lock))
    if node.wait is not None or node.call is not None:
        return Write(waiting_record(moment, token, None))
    if node.step is not None:
        return run_step(moment, token, node, node.step)
    return Write(ended_node(moment, token, Ended(name, 0, token.result, stands=True), Kind.MOVED))
