"""Decide: a token's reaction to an input. Pure and total: every phase answers every input.

Two decisions from the same log at the same moment are equal.
"""

from __future__ import annotations

from typing import TypeAlias

from stepwell.definition.authoring import StepDefaults
from stepwell.engine import gathering, receiving
from stepwell.engine.actions import Action, AskFunction, Drop, Hold, Outcome, PickUp, Refuse, Rest, RunStep, Write
from stepwell.engine.attempts import commit, lost_record, run_step
from stepwell.engine.compensation import undo_next
from stepwell.engine.copying import changed
from stepwell.engine.durable import operations
from stepwell.engine.durable.redriven import is_amid_tasks
from stepwell.engine.forks.branches import fork_into
from stepwell.engine.forks.join import joined_record
from stepwell.engine.forks.needs import is_passed_over, may_begin
from stepwell.engine.inputs import (
    Cancelled,
    Closed,
    DeadlinePassed,
    GatheringOver,
    Input,
    LocksAnswered,
    OverLimit,
    Paused,
    PermitAnswered,
    Redriven,
    Started,
    StartGathered,
    StepBegins,
    StepEnded,
    Terminated,
    Unpaused,
    Woken,
    WorkerLost,
    WritesRefused,
)
from stepwell.engine.limits import permits, shares, spending
from stepwell.engine.limits.lock_records import lock_record, refused_record, wanted
from stepwell.engine.limits.locks import REFUSED
from stepwell.engine.limits.share_records import asking_record, freeing
from stepwell.engine.limits.throttle_records import needed, permit_record, refused
from stepwell.engine.names import Moment
from stepwell.engine.pushing import is_stale
from stepwell.engine.records import CleanUp, End, Failure, Fork, Goto, Kind, Pause, Record, RetryAt, RunInfo, Status
from stepwell.engine.refusals import refusal
from stepwell.engine.retry import resolve_policy
from stepwell.engine.routing import validation_failure
from stepwell.engine.settle import settle
from stepwell.engine.starts import is_open
from stepwell.engine.table import Phase, Verdict, receive
from stepwell.engine.token import Branch, Token
from stepwell.engine.waits.aside import back
from stepwell.engine.writing import (
    began_record,
    deadline_ms,
    ended_node,
    ended_record,
    node_named,
    passed,
    record,
    timeout_failure,
    waiting_record,
)
from stepwell.errors import EngineFault, ExpressionError
from stepwell.limits import DELIVERIES


def decide(moment: Moment, token: Token, given: Input = Woken()) -> Action:  # noqa: B008  # frozen, without a slot
    """Returns the token's action for the input. Raises EngineFault for a log that this graph cannot have written."""
    verdict = receive(token.phase, given.message)
    if verdict is Verdict.REFUSE:
        return refusal(token, given)
    if verdict is Verdict.DROP:
        return _too_late(token, given)
    match given:
        case Woken():
            return _woken(moment, token, given)
        case StepBegins() | StepEnded() | WritesRefused():
            return _of_step(moment, token, given) if token.slot == given.slot else Drop()
        case WorkerLost():
            return _lost(moment, token, given)
        case StartGathered(starts_with):
            return gathering.taken(moment, token, starts_with)
        case GatheringOver(slot):
            return gathering.over(moment, token) if token.slot == slot else Drop()
        case Paused() | Unpaused():
            return _held(moment, token, given)
        case Started() | Redriven() | Cancelled() | OverLimit() | Terminated() | DeadlinePassed() | Closed():
            return _of_run(moment, token, given)
        case _:
            return receiving.receive(moment, token, given)


def _too_late(token: Token, given: Input) -> Drop:
    """Drops an input that is late, or a duplicate; what it grants is given back."""
    match given:
        case LocksAnswered():
            return receiving.no_locks(token, given)
        case PermitAnswered():
            return receiving.no_permit(token, given)
        case _:
            return Drop(is_over=True)


def is_held(run: RunInfo, token: Token) -> bool:
    """Tells whether the token's worker is to rest, because the run is paused."""
    return run.is_paused and may_rest(run, token)


def may_rest(run: RunInfo, token: Token) -> bool:
    """Tells whether a pause stops the token's worker. A run that gathers starts is closed first, once it is due.

    Its starts move the token and wake nobody, so a worker that rested there would be forgotten.
    """
    return can_be_held(token) and not is_open(run, token)


def can_be_held(token: Token) -> bool:
    """Tells whether a pause holds the token. What ends is not held."""
    return token.end is None and token.undoing is None and token.cleaning is None


def _held(moment: Moment, token: Token, given: Paused | Unpaused) -> Action:
    """A pause that was asked for before is dropped; its end, if there is none, is refused."""
    if token.cleaning is not None:
        return refusal(token, given)
    if isinstance(given, Paused) and moment.run.idle and token.last is None:
        return Refuse("the run has not been started", "not_begun", "it does nothing before that")
    if isinstance(given, Paused):
        return Drop() if moment.run.is_paused else Hold()
    return Hold() if moment.run.is_paused else Refuse("the run is not paused", "not_paused")


# -- from outside


_OfRun: TypeAlias = Started | Redriven | Cancelled | OverLimit | Terminated | DeadlinePassed | Closed


def _of_run(moment: Moment, token: Token, given: _OfRun) -> Action:
    """Starts the run, or ends it or one of its branches at the next free slot."""
    match given:
        case Started(who):
            if not moment.run.idle or token.last is not None:
                return Refuse("the run is not idle", "not_idle")
            at_ms = max(moment.now_ms, moment.run.created_ms)
            return Write(Record(token.next_slot, Kind.STARTED, moment.by, at_ms, who=who))
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
            return Drop() if limit_ms is None else _overdue(moment, token) or Rest(limit_ms)


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


def _overdue(moment: Moment, token: Token) -> Write | None:
    """Ends a run whose own time-out has passed."""
    limit_ms = deadline_ms(moment.graph, moment.run, token)
    if limit_ms is None or moment.now_ms < limit_ms:
        return None
    return Write(ended_record(moment, token, Status.TIMED_OUT, timeout_failure(moment.graph)))


# -- of a step


def _of_step(moment: Moment, token: Token, given: StepBegins | StepEnded | WritesRefused) -> Action:
    match given:
        case StepBegins() if is_held(moment.run, token):
            return Rest()
        case StepBegins(action, timeout_ms):
            return Write(operations.of_operation(moment, began_record(moment, token, action, timeout_ms)))
        case StepEnded(action, outcome, policy):
            return Write(operations.of_operation(moment, commit(moment, token, action, outcome, policy)))
        case WritesRefused(writes, refusal):
            return Write(operations.refused(moment, token, writes, refusal))


def _lost(moment: Moment, token: Token, given: WorkerLost) -> Action:
    """Fails a step that killed its worker too often. Rests if no step was next, or the run had not begun."""
    is_next = token.slot == given.slot and permits.ask(moment, token) is None and not shares.lacks(token)
    action = _next(moment, token) if is_next else Rest()
    message = f"the worker died with this step {DELIVERIES} times"
    if isinstance(action, AskFunction):
        return Write(operations.lost(moment, token, Failure("worker_lost", "worker_lost", message)))
    if not isinstance(action, RunStep):
        return Rest()
    failure = Failure("worker_lost", "worker_lost", message, action.node, action.attempt)
    policy = resolve_policy(action.step, StepDefaults())
    return Write(commit(moment, token, action, Outcome(failure=failure, started_ms=moment.now_ms), policy))


# -- of the worker


def _woken(moment: Moment, token: Token, given: Woken) -> Action:
    """Returns the next action. A run has its permit, and is shown as picked up, before its first record."""
    if given.slot is not None and is_stale(token, given.slot, moment.by):
        return Drop()
    if given.slot is not None and is_held(moment.run, token):
        return Rest()
    action = _next(moment, token)
    if given.slot is None or isinstance(action, Rest):
        return action
    if is_open(moment.run, token):
        return action
    if shares.lacks(token) and not _ends(action):
        return Write(asking_record(moment, token))
    if isinstance(action, RunStep):
        action = _before_step(moment, token, action)
    if token.branch is not None:
        return action
    if isinstance(action, Write):
        made = freeing(moment, token, action.record)
        action = action if made is action.record else changed(action, record=made)
    if (asked := permits.ask(moment, token)) is not None:
        return asked
    return PickUp() if token.phase is Phase.INITIALIZING and not moment.run.started_ms else action


def _ends(action: Action) -> bool:
    """Tells whether the run's time is up, for which it needs no permit."""
    return isinstance(action, Write) and action.record.kind is Kind.ENDED


def _before_step(moment: Moment, token: Token, action: RunStep) -> Action:
    """Asks what the run has cost, which may pause it, and then for the step's permit."""
    asked = spending.ask(moment, token, action)
    if asked is None:
        return _throttled(moment, token, action)
    return Write(asked) if isinstance(asked, Record) else asked


def _throttled(moment: Moment, token: Token, action: RunStep) -> Action:
    """Parks the token until its step has its permit; fails the step that never gets one."""
    throttle = needed(moment, token, action)
    if throttle is None:
        return action
    failure = refused(token, action.node)
    try:
        if failure is None:
            return Write(permit_record(moment, token, action, throttle))
    except ExpressionError as error:
        failure = validation_failure(error, action.node, action.attempt)
    failed = commit(moment, token, action, Outcome(failure=failure, started_ms=moment.now_ms), None)
    return Write(operations.of_operation(moment, failed))


def _next(moment: Moment, token: Token) -> Action:
    action = _coming(moment, token)
    instead = token.last.instead if token.last is not None else None
    if instead is None or not isinstance(action, RunStep):
        return action
    outcome = Outcome(value=instead["output"], started_ms=moment.now_ms)  # the caller's, not the step's own
    return Write(operations.of_operation(moment, commit(moment, token, action, outcome, None)))


def _coming(moment: Moment, token: Token) -> Action:
    if token.ended:
        return Rest()
    if (refused_cost := spending.rejected(moment, token)) is not None:
        return Write(refused_cost)
    token = back(token)
    if token.undoing is not None:
        return Rest() if _is_waiting(token) else undo_next(moment, token)
    if (overdue := _overdue(moment, token)) is not None:
        return overdue
    if token.last is not None and token.last.reopens is not None:
        last = token.last
        return Write(record(moment, token, Kind.REOPENED, token.node, next=last.reopens, evaluator=last.evaluator))
    if token.last is None or token.last.kind in _BEFORE_FIRST or (token.last.kind is Kind.REDRIVEN and not token.node):
        return _first(moment, token)
    return _go_on(moment, token, token.last)


_BEFORE_FIRST = frozenset({Kind.STARTED, Kind.GATHERED})


def _is_waiting(token: Token) -> bool:
    return token.last is not None and token.last.kind in {Kind.WAITING, Kind.RECEIVED}


def _go_on(moment: Moment, token: Token, last: Record) -> Action:
    """Returns the action that follows the last record."""
    match last.kind, last.next:
        case _ if _is_waiting(token):
            # without a wait, it is a function whose code died before its tasks waited again
            is_asked = token.parked is None or token.parked.of_tasks
            return _enter(moment, token, token.node) if is_asked else Rest()
        case Kind.RESUMED, _:
            return _settle(moment, token)
        case _, RetryAt(at_ms) if moment.now_ms < at_ms:
            return Rest(at_ms)
        case Kind.BEGAN, _:
            return operations.amid(moment, token) or Write(lost_record(moment, token))
        case Kind.ACTED, _:
            return settle(moment, token)
        case _, Fork(width=0):
            return Write(joined_record(moment, token, ()))
        case _, Fork():
            return Rest()
        case _, Pause() as pause:
            return operations.amid(moment, token) or Write(waiting_record(moment, token, pause))
        case (Kind.REDRIVEN, _) | (_, Goto() | RetryAt() | CleanUp()):
            return _enter(moment, token, token.node)
    raise EngineFault(f"a log cannot stand at {last.kind} with next {last.next}", code="broken_log")


def _settle(moment: Moment, token: Token) -> Action:
    """Continues after a wait. A token that got its locks, or new code, is where it was before.

    A durable function takes the results of its own waits; its steps take those of theirs.
    """
    parked, resumption = token.parked, token.resumption
    if resumption is None or (parked is not None and parked.of_function):
        return _enter(moment, token, token.node or moment.graph.first.name)
    if resumption.kind == REFUSED:
        return Write(refused_record(moment, token, resumption))
    return operations.amid(moment, token) or settle(moment, token)


def _first(moment: Moment, token: Token) -> Action:
    if token.branch is not None and not may_begin(token.branch):
        return Rest()
    if token.branch is not None and is_passed_over(token.branch):
        return Write(record(moment, token, Kind.MOVED, token.branch.start, skipped=True, next=End(Status.COMPLETED)))
    if token.branch is not None and _leads_to_join(moment, token.branch):
        return Write(record(moment, token, Kind.MOVED, token.branch.fork, next=End(Status.COMPLETED, at_join=True)))
    if token.branch is not None:
        return _enter(moment, token, token.branch.start)
    if moment.run.idle and token.last is None:
        return Rest()
    if is_open(moment.run, token):
        return gathering.next_action(moment, token)
    if moment.now_ms < moment.run.start_at_ms:
        return Rest(moment.run.start_at_ms)
    lock = wanted(moment.graph, token, "")
    return Write(lock_record(moment, token, "", lock)) if lock else _enter(moment, token, moment.graph.first.name)


def _leads_to_join(moment: Moment, branch: Branch) -> bool:
    """Tells whether a branch has no node. A function's may begin and meet under one name."""
    return branch.start == branch.join and node_named(moment.graph, branch.start).durable is None


def _enter(moment: Moment, token: Token, name: str) -> Action:
    node = node_named(moment.graph, name)
    if node.durable is not None:
        return operations.asked(moment) or operations.enter(moment, token)
    if node.members:
        return Write(record(moment, token, Kind.MOVED, name, next=fork_into(node)))
    if (lock := wanted(moment.graph, token, name)) is not None:
        return Write(lock_record(moment, token, name, lock))
    if node.wait is not None or node.call is not None:
        return Write(waiting_record(moment, token, None))
    if node.step is not None:
        return run_step(moment, token, node, node.step)
    return Write(ended_node(moment, token, passed(moment, token, node), Kind.MOVED))
