"""Compensation: when a failed run is undone, which steps are undone, and in which order.

The logs tell what to undo: each record that committed a step with a compensation. The last is undone
first. A record is never older than its causes. If two records have the same time, the order in which their logs
are read decides: a fork's branches are read between its own slot and the next, each after those it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from stepwell.definition.graph import Graph, Json, Node
from stepwell.engine.actions import Action, Outcome, Rest, RunStep, Write
from stepwell.engine.fold import apply
from stepwell.engine.names import Moment, Names, Undo, default_input, step_input
from stepwell.engine.records import Compensate, End, Failure, Kind, Next, Pause, Record, RetryAt, Status
from stepwell.engine.retry import Policy, retry_delay_ms
from stepwell.engine.stored.formats import check_evaluator
from stepwell.engine.token import Token
from stepwell.errors import EngineFault, ExpressionError

# -- when


def ending(graph: Graph, token: Token, end: End, error: Failure | None, failed: str) -> Next:
    """Returns the end, or the compensation that precedes it. `error` is its cause, `failed` the node that failed."""
    if token.branch is not None or end.status is Status.COMPLETED or token.undoing is not None:
        return end
    return Compensate(end.status, end.error) if _is_undone(graph, end.status, error, failed) else end


def _is_undone(graph: Graph, status: Status, error: Failure | None, failed: str) -> bool:
    if status is Status.CANCELLED:
        return "cancel" in graph.compensate_on
    if error is not None and error.type == "workflow_timeout" and "timeout" in graph.compensate_on:
        return True
    return on_failure_of(graph.nodes.get(failed)) == "compensate" or graph.failure_policy == "compensate"


def on_failure_of(node: Node | None) -> str:
    """What the definition says of a failure of this node."""
    act = node and (node.step or node.call or node.wait)
    return act.on_failure if act else "abort"


# -- what


def committed(moment: Moment, begun: Token, records: Iterable[Record]) -> Iterator[tuple[Token, Undo | None]]:
    """Yields the token after each record of its log, with what that record committed if it can be undone."""
    token, given = begun, None
    for record in records:
        before, token = token, apply(token, record)
        node = moment.graph.nodes.get(record.node)
        if node is None or node.compensate is None:
            yield token, None
            continue
        if record.kind is Kind.STEP and (record.error is None or record.is_done):
            check_evaluator(record.evaluator)
            given = _input_of(replace(moment, now_ms=record.started_ms), before, node)
        if not _is_commit(record, before):
            yield token, None
            continue
        known = _input_of_call(before) if before.parked and before.parked.children and node.call else given
        yield token, Undo(token.id, record.slot, record.node, record.at_ms, known, record.output, token)


def _is_commit(record: Record, before: Token) -> bool:
    """Tells whether a record holds a step's result, or the end of the wait that the step was or asked for.

    A step whose result could not be written has had its effect.
    """
    has_failed = (record.error is not None or record.skipped) and not record.is_done
    if has_failed or isinstance(record.next, RetryAt | Pause):
        return False
    return record.kind is Kind.STEP or (record.kind is Kind.MOVED and before.parked is not None)


def _input_of(moment: Moment, token: Token, node: Node) -> Json:
    """What the step was called with: evaluated again, from the state as it was."""
    default = default_input(moment.run, token)
    if node.step is None:
        return default
    try:
        return step_input(node.step, Names(moment, token), default)
    except ExpressionError as error:
        raise EngineFault(f"{node.name} ran with an input that cannot be evaluated again: {error}",
                          code="broken_log") from error  # fmt: skip


def _input_of_call(before: Token) -> Json:
    children = before.parked.children if before.parked else ()
    return children[0].input if len(children) == 1 else {one.name: one.input for one in children}


def newest_first(found: Iterable[Undo]) -> tuple[Undo, ...]:
    """Sorts into the reverse order of commit. `found` holds causes before their consequences."""
    return tuple(sorted(found, key=lambda one: one.at_ms))[::-1]


# -- how


def undo_next(moment: Moment, token: Token) -> Action:
    """Returns the next compensation, or the run's end after the last."""
    undoing, last = token.undoing, token.last
    if undoing is None or last is None or moment.rollback is None:
        raise EngineFault(f"{token.id} is not being undone", code="broken_log")
    if isinstance(last.next, RetryAt) and moment.now_ms < last.next.at_ms:
        return Rest(last.next.at_ms)
    left = moment.rollback[len(undoing.undone) :]
    if not left:
        return Write(_record(moment, token, next=End(Status.COMPENSATED, undoing.error)))
    one = left[0]
    step = moment.graph.nodes[one.node].compensate
    if step is None:
        raise EngineFault(f"{one.node} has no compensation", code="broken_log")
    attempt = token.attempt + 1
    key = f"{moment.run.run_id}:{one.token}:{one.slot}:undo"  # the same in every try
    action = RunStep(one.node, step, None, attempt, key, undo=one, at_ms=moment.now_ms)
    try:
        names = _names(moment, one)
        given = step_input(step, names, _given(one))
        request = step.http.evaluate(names) if step.http else None
    except ExpressionError as error:
        failure = Failure(error.code, "validation", str(error), one.node, attempt)
        return Write(undone(moment, token, action, Outcome(failure=failure, started_ms=moment.now_ms), None))
    return replace(action, input=given, request=request)


def _given(one: Undo) -> dict[str, Json]:
    """Returns the arguments of a compensation: the step's input by name, and `input` and `output` as a whole."""
    named = one.input if isinstance(one.input, dict) else {}
    return {**named, "input": one.input, "output": one.output}


def _names(moment: Moment, one: Undo) -> Names:
    return Names(moment, replace(one.seen, result=one.output))


def undone(moment: Moment, token: Token, action: RunStep, outcome: Outcome, policy: Policy | None) -> Record:
    """Returns the record of an attempt to undo. After its last failure nothing further is undone."""
    undoing, one, failure = token.undoing, action.undo, outcome.failure
    if undoing is None or one is None or moment.rollback is None:
        raise EngineFault(f"{token.id} is not being undone", code="broken_log")
    following: Next | None = None
    if outcome.pause is not None:
        message = f"the compensation of {action.node} asked to wait for {outcome.pause.kind}; a compensation cannot"
        failure = Failure("misplaced_directive", "step", message, action.node, action.attempt)
    if failure is not None:
        delay_ms = retry_delay_ms(policy.retry, failure, action.attempt, moment.jitter) if policy else None
        over = End(Status.FAILED, undoing.error or failure)  # of a run that was cancelled, this is the first error
        following = over if delay_ms is None else RetryAt(moment.now_ms + delay_ms)
    elif len(undoing.undone) + 1 == len(moment.rollback):
        following = End(Status.COMPENSATED, undoing.error)
    return _record(moment, token, node=one.node, attempt=action.attempt, started_ms=outcome.started_ms,
                   output=outcome.value, error=failure, next=following, undid=one.place)  # fmt: skip


def _record(moment: Moment, token: Token, *, node: str = "", **parts: object) -> Record:
    at_ms = moment.ms_after(token)
    return Record(token.next_slot, Kind.UNDONE, moment.by, at_ms, node, **parts)  # type: ignore[arg-type]  # by name
