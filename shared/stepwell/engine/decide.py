"""Decide: a token's reaction to an input. Pure and total: every phase answers every input.

Two decisions from the same log at the same moment are equal.
"""

from __future__ import annotations

from collections.abc import Iterator

from stepwell.definition.authoring import StepDefaults
from stepwell.engine import gathering, receiving, run_inputs
from stepwell.engine.actions import Action, AskFunction, Drop, Look, Outcome, PickUp, Rest, RunStep, Write
from stepwell.engine.attempts import commit, lost_record, run_step
from stepwell.engine.compensation import undo_next
from stepwell.engine.copying import changed
from stepwell.engine.durable import operations
from stepwell.engine.forks.branches import fork_into
from stepwell.engine.forks.join import joined_record
from stepwell.engine.forks.needs import is_passed_over, may_begin
from stepwell.engine.holding import is_held
from stepwell.engine.inputs import (
    GatheringOver,
    Input,
    StartGathered,
    StepBegins,
    StepEnded,
    TimerFired,
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
from stepwell.engine.parts import is_complete
from stepwell.engine.pushing import is_stale
from stepwell.engine.receiving import Came
from stepwell.engine.records import (
    CleanUp,
    End,
    Failure,
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
from stepwell.engine.refusals import refusal
from stepwell.engine.retry import resolve_policy
from stepwell.engine.routing import validation_failure
from stepwell.engine.run_inputs import ForRun, overdue
from stepwell.engine.settle import settle
from stepwell.engine.starts import is_open
from stepwell.engine.table import Phase, Verdict, receive
from stepwell.engine.token import Branch, Token
from stepwell.engine.waits.aside import back
from stepwell.engine.waits.kind import coming_of, kind_named
from stepwell.engine.writing import began_record, ended_node, node_named, passed, record, waiting_record
from stepwell.errors import EngineFault, ExpressionError
from stepwell.limits import DELIVERIES


def decide(moment: Moment, token: Token, given: Input = Woken()) -> Action:  # noqa: B008  # frozen, without a slot
    """Returns the token's action for the input. Raises EngineFault for a log that this graph cannot have written."""
    verdict = receive(token.phase, given.message)
    if verdict is Verdict.REFUSE:
        return refusal(token, given)
    if verdict is Verdict.DROP:
        return receiving.too_late(token, given)
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
        case TimerFired():
            return _timer(moment, token, given)
        case _ if isinstance(given, ForRun):
            return run_inputs.answer(moment, token, given)
        case _:
            came = receiving.receive(moment, token, given)
            return _resumed(moment, token, came) if isinstance(came, Came) else came


# -- of a wait


def _timer(moment: Moment, token: Token, given: TimerFired) -> Action:
    """Writes down what is due: a time-out, a missing heartbeat or an escalation. A timer may fire early."""
    due = first_due(token)
    if due is None or not token.waiting_slot <= given.slot <= token.slot:
        return Drop()
    at_ms, resumption = due
    if moment.now_ms < at_ms:
        return Rest(at_ms)
    may_be_there = token.parked is not None and any(arm.topics for arm in token.parked.arms)
    if may_be_there and given.looked != token.slot and _completes(token, resumption):
        return Look()
    return _resumed(moment, token, Came(resumption))


def first_due(token: Token) -> tuple[int, Resumption] | None:
    """Returns what a wait's timer brings first, and when: the end of its time, or what a kind of its arms asks for."""
    return min(_dues(token), key=lambda due: due[0], default=None)


def _dues(token: Token) -> Iterator[tuple[int, Resumption]]:
    parked = token.parked
    if parked is None:
        return
    if parked.until_ms is not None:
        is_timer = parked.timer_arm is not None
        yield parked.until_ms, Resumption("timer" if is_timer else "timeout", _timed_arm(token, parked))
    for index, arm in enumerate(parked.arms):
        yield from kind_named(arm.kind).dues(parked, index, token.received)


def _timed_arm(token: Token, parked: Parked) -> int:
    """Returns the arm whose time is up at the wait's time limit: of an `all`, the first that has not ended."""
    if parked.limit_arm is not None and parked.is_all:
        return next((index for index in range(len(parked.arms)) if not is_complete(token, index)), 0)
    return parked.timer_arm or parked.limit_arm or 0


def due_ms(token: Token) -> int | None:
    """Returns when the wait's timer is due; None if nothing of it is due by time."""
    due = first_due(token)
    return None if due is None else due[0]


def timer_slot(token: Token, since_ms: int) -> int:
    """Returns the slot that names the timer of the part that was recorded at `since_ms`.

    A part that leaves the wait's time as it was names the wait's own timer, unless that time is up: the own timer may
    have written this part, and would take its own name for a message that came twice.
    """
    at_ms = due_ms(token)
    is_as_set = at_ms is not None and since_ms < at_ms == due_ms(changed(token, received=()))
    return token.waiting_slot if is_as_set else token.slot


def _resumed(moment: Moment, token: Token, came: Came) -> Write:
    """Returns the record of the end or of a part of the wait."""
    at_ms = max(moment.now_ms, came.since_ms, token.last_ms)
    kind = Kind.RESUMED if _completes(token, came.resumption) else Kind.RECEIVED
    written = Record(token.next_slot, kind, moment.by, at_ms, token.node, resumption=came.resumption)
    return Write(written, consumes=came.consumes)


def _completes(token: Token, resumption: Resumption) -> bool:
    """Tells whether this ends the wait; otherwise it is a part."""
    parked, coming = token.parked, coming_of(resumption)
    if parked is None or not coming.ends:
        return False
    if parked.of_tasks:
        return not token.has_open_tasks
    if not coming.is_part:
        return True
    arm, all_received = parked.arms[resumption.arm], (*token.received, resumption)
    if kind_named(arm.kind).is_refused(arm, resumption.arm, all_received):
        return True
    needed = range(len(parked.arms)) if parked.is_all else (resumption.arm,)
    return all(is_complete(token, index, all_received) for index in needed)


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
    if given.slot is None or isinstance(action, Rest) or (moment.run.gathers and is_open(moment.run, token)):
        return action
    if token.share is not None and shares.lacks(token) and not _ends(action):
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
    if token.end is not None:
        return Rest()
    if token.aside is not None and (refused_cost := spending.rejected(moment, token)) is not None:
        return Write(refused_cost)
    token = back(token) if token.aside is not None else token
    if token.undoing is not None:
        return Rest() if _is_waiting(token) else undo_next(moment, token)
    if (ended := overdue(moment, token)) is not None:
        return ended
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
        case Kind.WAITING | Kind.RECEIVED, _:
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
    if (branch := token.branch) is not None:
        if branch.needs and not may_begin(branch):
            return Rest()
        if branch.needs and is_passed_over(branch):
            return Write(record(moment, token, Kind.MOVED, branch.start, skipped=True, next=End(Status.COMPLETED)))
        if branch.start == branch.join and _leads_to_join(moment, branch):
            return Write(record(moment, token, Kind.MOVED, branch.fork, next=End(Status.COMPLETED, at_join=True)))
        return _enter(moment, token, branch.start)
    if moment.run.idle and token.last is None:
        return Rest()
    if is_open(moment.run, token):
        return gathering.next_action(moment, token)
    if moment.now_ms < moment.run.start_at_ms:
        return Rest(moment.run.start_at_ms)
    lock = wanted(moment.graph, token, "")
    return Write(lock_record(moment, token, "", lock)) if lock else _enter(moment, token, moment.graph.first.name)


def _leads_to_join(moment: Moment, branch: Branch) -> bool:
    """Tells whether a branch that begins where it ends has no node. A function's may begin and meet under one name."""
    return node_named(moment.graph, branch.start).durable is None


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
