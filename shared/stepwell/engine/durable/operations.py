"""Durable functions: turns the next operation of a session into a record, or into a step to run.

An operation is a node that the function creates as it runs. Its first record enters it, and its last record leads back
to the function. So a wait, a retry, a fork and a child run work for a function as for a graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from stepwell.definition.graph import Graph, Json, Node, Step, Wait
from stepwell.engine.actions import Action, AskFunction, RunStep, Write
from stepwell.engine.compensation import ending
from stepwell.engine.durable import task_records
from stepwell.engine.durable.finished import taken_by
from stepwell.engine.durable.journal import CONTINUED_AS, LOST, RUN, TRANSACT
from stepwell.engine.durable.transact import INVALID, REFUSED, Refusal, TableWrite
from stepwell.engine.durable.turns import Asked, Completed, ContinueAs, Failed, Stuck, Suspended, Together, Turn
from stepwell.engine.entering import key_slot
from stepwell.engine.forks.branches import with_lanes
from stepwell.engine.limits.locks import UNLOCK
from stepwell.engine.names import Moment, visit_key
from stepwell.engine.records import (
    TASKS,
    End,
    Failure,
    Fork,
    Goto,
    Group,
    Kind,
    Next,
    Parked,
    Record,
    Status,
)
from stepwell.engine.routing import Ended, output_refused, step_limit
from stepwell.engine.table import Phase
from stepwell.engine.token import Token
from stepwell.engine.waits import parking
from stepwell.engine.waits.code import wait_for_code
from stepwell.engine.waits.kind import is_timeout
from stepwell.engine.waits.lock import park_for_locks
from stepwell.engine.writing import ended_node, node_named, record
from stepwell.errors import EngineFault

_ENDED_EARLY = Failure("non_determinism", "validation", "the function ends before a step that its log has")
_NO_STEP = Step("")  # of an operation whose result is taken, and that is no step
_LOCKED_ALREADY = Failure(
    "lock_nested", "validation", "it asks for a lock, and its run holds the `lock` of its workflow; name both there"
)
OF_ENGINE = frozenset({"lock_nested", "output_schema"})  # errors of runs whose function raised nothing


def asked(moment: Moment) -> AskFunction | None:
    """Returns the question to the function; None if it was asked already."""
    return AskFunction() if moment.turn is None else None


def amid(moment: Moment, token: Token) -> Action | None:
    """What is done before a step goes on: its function is asked which one it is. None for a graph, or once asked."""
    if moment.turn is None:
        return None if node_named(moment.graph, token.node).durable is None else asked(moment)
    if isinstance(moment.turn.result, Suspended):
        return None
    result = moment.turn.result
    failure = result.failure if isinstance(result, Stuck) else _ENDED_EARLY
    return Write(wait_for_code(moment, token, failure, moment.graph.start))


def with_operation(graph: Graph, turn: Turn | None) -> Graph:
    """Returns the graph with a node for the operation that the function awaits."""
    if turn is None or not isinstance(turn.result, Suspended):
        return graph
    asked = turn.result.asked
    node = Node(asked.name, step=asked.step, wait=asked.wait, call=asked.call, durable=graph.first.durable)
    return replace(graph, nodes={**graph.nodes, asked.name: node})


def enter(moment: Moment, token: Token) -> Action:
    """Turns the function's turn into a record or a step to run."""
    turn = _turn(moment)
    match turn.result:
        case Suspended():
            return _operation(moment, token, turn, turn.result)
        case Together() as together:
            return task_records.waiting(moment, token, turn, together)
        case Completed() | Failed() | ContinueAs() as result if token.cleaning is not None:
            error = result.failure if isinstance(result, Failed) and not result.is_cancel else None
            return Write(_returned(moment, token, turn, error=error, next=_broken(token)))
        case Completed(value):
            return Write(_completed(moment, token, turn, value))
        case Failed(failure):
            return Write(_returned(moment, token, turn, error=failure, next=_failed(moment, token, failure)))
        case ContinueAs(given, function):
            following = step_limit(moment, token, moment.graph.start) or Goto(moment.graph.start)
            rules = (CONTINUED_AS + function,) if function else ()
            return Write(_returned(moment, token, turn, output=given, next=following, rules=rules))
        case Stuck(failure):
            return Write(wait_for_code(moment, token, failure, moment.graph.start))


def _operation(moment: Moment, token: Token, turn: Turn, result: Suspended) -> Action:
    asked, taken = result.asked, _taken(token, result)
    if asked.step is not None or taken:
        return _step(moment, token, asked.step or _NO_STEP, result, taken)
    if asked.locks and token.locks is not None:
        return Write(_returned(moment, token, turn, error=_LOCKED_ALREADY, next=_broken(token)))
    if asked.kind == UNLOCK:
        following = Goto(moment.graph.start)
        return Write(record(moment, token, Kind.MOVED, UNLOCK, writes=turn.writes, rules=(UNLOCK,), next=following))
    if asked.transact:
        return Write(_transacted(moment, token, asked, turn), asked.transact)
    if asked.branches:
        group = Group("", moment.graph.start, len(asked.branches), asked.max_concurrency, asked.is_apart,
                      asked.tolerated, of_operations=True)  # fmt: skip
        fork = Fork((group,), asked.kind, by_arrival=bool(asked.max_concurrency))
        fork = with_lanes(moment.graph, fork, moment.lane)
        return Write(record(moment, token, Kind.MOVED, asked.name, writes=turn.writes, next=fork,
                            arguments=asked.arguments))  # fmt: skip
    return Write(_waiting(moment, token, asked, turn))


def of_operation(moment: Moment, made: Record) -> Record:
    """Returns the record of an attempt as one of the operation that the function awaits."""
    if moment.turn is None or made.kind not in {Kind.BEGAN, Kind.STEP}:
        return made
    result = moment.turn.result
    if not isinstance(result, Suspended):
        return made
    return replace(made, rules=(result.asked.kind, *made.rules)) if result.asked.kind in (RUN, TRANSACT) else made


def refused(moment: Moment, token: Token, writes: Sequence[TableWrite], refusal: Refusal) -> Record:
    """The record of a transaction that was not written: the function meets its failure, now and in each replay."""
    turn = _turn(moment)
    if not isinstance(turn.result, Suspended):
        raise EngineFault("the function awaits no transaction", code="no_turn")
    one = writes[refusal.write] if refusal.write >= 0 else None
    what = f"write {refusal.write}, {one}" if one else "the transaction"
    why = refusal.reason or "its condition does not hold"
    data = {"write": refusal.write, "table": one.table} if one else None
    failure = Failure(INVALID if refusal.reason else REFUSED, "validation", f"{what}: {why}",
                      step=turn.result.asked.name, data=data)  # fmt: skip
    return _transacted(moment, token, turn.result.asked, turn, failure)


def _transacted(moment: Moment, token: Token, asked: Asked, turn: Turn, failure: Failure | None = None) -> Record:
    ended = Ended(asked.name, 1, failure=failure, writes=turn.writes)
    made = ended_node(moment, token, ended, Kind.STEP, moment.now_ms)
    return replace(made, rules=(TRANSACT, *made.rules))


def lost(moment: Moment, token: Token, failure: Failure) -> Record:
    """The worker died again and again: at the operation that comes next, or of the function itself.

    Which one it was, only the function could say. So the operation that it awaits next has failed; and where that does
    not help, the function has.
    """
    start = moment.graph.start
    if token.phase is Phase.WAITING_AT_FAN_IN:  # of its operations, none was next: it is the function itself
        return record(moment, token, Kind.RETURNED, start, error=failure, writes={}, rules=(LOST,), next=_broken(token))
    again = token.last is not None and LOST in token.last.rules
    following: Next = _broken(token) if again else Goto(start)
    return record(moment, token, Kind.STEP, start, attempt=failure.attempts, error=failure, writes={}, rules=(LOST,),
                  next=following)  # fmt: skip


def _turn(moment: Moment) -> Turn:
    if moment.turn is None:
        raise EngineFault("the function was not asked", code="no_turn")
    return moment.turn


def _taken(token: Token, result: Suspended) -> str:
    """Returns the place of the operation's result, if the run that failed has one: of a task, or of its branch."""
    if token.branch is not None and (token.last is None or token.last.kind is Kind.STARTED):  # or waited for code
        return token.branch.taken
    return taken_by(token, result.by, result.asked) if token.branch is None and result.slot < 0 else ""


def _step(moment: Moment, token: Token, step: Step, result: Suspended, taken: str) -> Action:
    asked, slot = result.asked, result.slot
    given = step.input.evaluate({}) if step.input else None
    last = token.last
    is_redriven = token.node == asked.name or (last is not None and last.kind is Kind.REDRIVEN and not last.node)
    key = visit_key(moment.run, token if is_redriven else replace(token, keyed_by=""), key_slot(token, slot))
    attempt = token.attempt + 1 if slot >= 0 else 1
    return RunStep(asked.name, step, given, attempt, key, at_ms=moment.now_ms, taken=taken)


def _waiting(moment: Moment, token: Token, asked: Asked, turn: Turn) -> Record:
    parked = _parked(moment, token, asked)
    return record(moment, token, Kind.WAITING, asked.name, writes=turn.writes, parked=parked)


def _parked(moment: Moment, token: Token, asked: Asked) -> Parked:
    """A wait of a task lasts from when the task began it: so the function's own log tells its time limit."""
    is_first = token.last is None or token.last.kind is Kind.REDRIVEN
    if token.branch is not None and token.branch.join == TASKS and is_first:
        moment = replace(moment, now_ms=token.branch.started_ms)
    if asked.locks:
        return park_for_locks(asked.locks, moment.now_ms, of_function=True)
    if asked.call is not None:
        return replace(parking.park_for_children(moment, token, asked.call), of_function=True)
    if asked.wait is None:
        raise EngineFault(f"{asked} is no operation", code="broken_session")
    parked = parking.park(moment, token, asked.wait, asked.callbacks)
    return replace(parked, of_function=True, limit_arm=_limit_arm(asked.wait, parked))


def _limit_arm(wait: Wait, parked: Parked) -> int | None:
    """Returns which of several waits has the shortest time limit; None if a timer ends them, or nothing does."""
    if parked.until_ms is None or parked.timer_arm is not None:
        return None
    limits = [(one.timeout_ms, index) for index, one in enumerate(wait.arms) if one.timeout_ms is not None]
    return min(limits)[1] if limits else None


def _broken(token: Token) -> End:
    """Ends the run as planned, whatever the result of its clean-up: an error of that is carried beside it."""
    return End(Status.FAILED if token.cleaning is None else token.cleaning.status)


def _completed(moment: Moment, token: Token, turn: Turn, value: Json) -> Record:
    """Completes the run or the branch with what the function returns; fails the run if that violates its schema."""
    if token.branch is None and (failure := output_refused(moment.graph, value)) is not None:
        return _returned(moment, token, turn, error=failure, next=_failed(moment, token, failure))
    end = End(Status.COMPLETED, at_join=token.branch is not None)
    return _returned(moment, token, turn, output=value, next=end)


def _failed(moment: Moment, token: Token, failure: Failure) -> Next:
    """Fails the run with a wait's time-out if the function does not handle it."""
    status = Status.TIMED_OUT if is_timeout(failure.type) else Status.FAILED
    return ending(moment.graph, token, End(status), failure, failure.step)


def _returned(moment: Moment, token: Token, turn: Turn, **parts: Any) -> Record:
    return record(moment, token, Kind.RETURNED, moment.graph.start, writes=turn.writes, **parts)
