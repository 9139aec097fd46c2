"""Decide and commit: what a token does next, and the record of what came of it.

Pure: deciding twice, from the same log at the same moment, decides the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from stepwell.definition.authoring import StepDefaults
from stepwell.definition.graph import Expression, Graph, Json, Node, Step
from stepwell.engine import waits
from stepwell.engine.names import Moment, Names, default_input
from stepwell.engine.records import End, Failure, Goto, Kind, Pause, Record, RetryAt, RunInfo, Status
from stepwell.engine.retry import Policy, resolve_policy, retry_delay_ms
from stepwell.engine.routing import Ended, Way, route, validation_failure, violations
from stepwell.engine.token import Token
from stepwell.errors import EngineFault, ExpressionError
from stepwell.limits import CLOCKS_APART_MS


@dataclass(frozen=True, slots=True)
class RunStep:
    """Run this step, then `commit` what came of it."""

    node: str
    step: Step
    input: Json
    attempt: int
    key: str  # the idempotency key: the same in every try of the same visit
    resumed: Json = None  # what ended the wait that the step asked for
    action: bool = False  # one of a timeout's actions, not the node's own step


@dataclass(frozen=True, slots=True)
class Write:
    """Append this record: no user code is needed to know it."""

    record: Record


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing to do now; `until_ms` is when to look again, None where a wait's own timer or a caller does that."""

    until_ms: int | None = None


Action: TypeAlias = RunStep | Write | Rest


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an attempt: a value, a directive, or a failure."""

    value: Json = None
    pause: Pause | None = None
    failure: Failure | None = None
    started_ms: int = 0


def deadline_ms(graph: Graph, run: RunInfo, token: Token) -> int | None:
    """When the run's own time is up; None when it has no limit, or has not been started yet."""
    if graph.timeout_ms is None or (run.idle and not token.started_ms):
        return None
    return max(token.started_ms or run.created_ms, run.start_at_ms) + graph.timeout_ms


def decide(moment: Moment, token: Token) -> Action:
    """The next thing to do for a token. Raises EngineFault for a log that this graph cannot have written."""
    if token.ended:
        return Rest()
    limit_ms = deadline_ms(moment.graph, moment.run, token)
    if limit_ms is not None and moment.now_ms >= limit_ms:
        return Write(ended_record(moment, token, Status.TIMED_OUT, timeout_failure(moment.graph)))
    if token.last is None or token.last.kind is Kind.STARTED:
        return _first(moment, token)
    return _go_on(moment, token, token.last)


def _go_on(moment: Moment, token: Token, last: Record) -> Action:
    """What follows from where the last record left the token."""
    match last.kind, last.next:
        case Kind.WAITING, _:
            return Rest()
        case Kind.RESUMED, _:
            return _settle(moment, token)
        case _, RetryAt(at_ms) if moment.now_ms < at_ms:
            return Rest(at_ms)
        case Kind.BEGAN, _:
            return Write(_lost(moment, token))
        case Kind.ACTED, _:
            return _settle(moment, token)
        case _, Pause() as pause:
            return Write(_waiting(moment, token, pause))
        case _, Goto() | RetryAt():
            return _enter(moment, token, token.node)
    raise EngineFault(f"a log cannot stand at {last.kind} with next {last.next}", code="broken_log")


def _first(moment: Moment, token: Token) -> Action:
    if moment.run.idle and token.last is None:
        return Rest()
    if moment.now_ms < moment.run.start_at_ms:
        return Rest(moment.run.start_at_ms)
    return _enter(moment, token, moment.graph.start)


def _enter(moment: Moment, token: Token, name: str) -> Action:
    node = _node(moment.graph, name)
    if node.wait is not None:
        return Write(_waiting(moment, token, None))
    if node.step is not None:
        return _run(moment, token, node, node.step)
    return Write(_ended_node(moment, token, Ended(name, 0, token.result, stands=True), Kind.MOVED))


def _node(graph: Graph, name: str) -> Node:
    node = graph.nodes.get(name)
    if node is None:
        raise EngineFault(f"the log stands at {name}, which version {graph.version} does not have", code="broken_log")
    return node


def _run(moment: Moment, token: Token, node: Node, step: Step, resumed: Json = None) -> Action:
    # the first record of the first node has not been written: this visit begins in its slot
    entered = token.entered_slot if token.node else token.next_slot
    attempt = token.attempt + 1
    try:
        given = step.input.evaluate(Names(moment, token)) if step.input else default_input(moment.run, token)
    except ExpressionError as error:
        outcome = Outcome(failure=validation_failure(error, node.name, attempt), started_ms=moment.now_ms)
        return Write(commit(moment, token, RunStep(node.name, step, None, attempt, ""), outcome, None))
    key = f"{moment.run.run_id}:{token.id}:{entered}"
    return RunStep(node.name, step, given, attempt, key, resumed)


def commit(moment: Moment, token: Token, action: RunStep, outcome: Outcome, policy: Policy | None) -> Record:
    """The record of an attempt: its output, the rules taken and where the token goes, in one."""
    if action.action:
        return _acted(moment, token, action, outcome, policy)
    limit_ms = deadline_ms(moment.graph, moment.run, token)
    if outcome.failure and outcome.failure.category == "timeout" and limit_ms is not None and moment.now_ms >= limit_ms:
        return ended_record(moment, token, Status.TIMED_OUT, timeout_failure(moment.graph))
    if outcome.pause is not None:
        return _record(moment, token, Kind.STEP, action.node, attempt=action.attempt, started_ms=outcome.started_ms,
                       next=outcome.pause)  # fmt: skip
    ended = Ended(
        action.node,
        action.attempt,
        outcome.value,
        outcome.failure,
        on_failure=action.step.on_failure,
        policy=policy,
    )
    ended = _with_writes(moment, token, ended, action.step.output, {action.node: outcome.value})
    return _ended_node(moment, token, ended, Kind.STEP, outcome.started_ms)


def _with_writes(
    moment: Moment, token: Token, ended: Ended, output: Expression | None, default: Mapping[str, Json]
) -> Ended:
    """What the result writes into the scope; an output that cannot be mapped, or a state its schema refuses, fails."""
    if ended.failure is not None:
        return ended
    try:
        writes = default if output is None else _mapped(moment, token, ended, output)
    except ExpressionError as error:
        return replace(ended, failure=validation_failure(error, ended.node, ended.attempt))
    schema = moment.graph.state_schema
    if schema is not None and (problems := schema.problems({**token.scope, **writes})):
        message = f"after {ended.node}, the state violates state_schema: {violations(problems)}"
        return replace(ended, failure=Failure("state_schema", "validation", message, ended.node, ended.attempt))
    return replace(ended, writes=writes)


def _mapped(moment: Moment, token: Token, ended: Ended, output: Expression) -> Mapping[str, Json]:
    made = output.evaluate(Names(moment, replace(token, result=ended.result)))
    if not isinstance(made, dict):
        raise ExpressionError(f"the output of {ended.node} is not an object of names and values")
    return made


def _ended_node(moment: Moment, token: Token, ended: Ended, kind: Kind, started_ms: int = 0) -> Record:
    way: Way = route(moment, token, ended)
    error = ended.failure
    return _record(
        moment,
        token,
        kind,
        ended.node,
        attempt=ended.attempt,
        started_ms=started_ms,
        output=None if ended.stands or error is not None else ended.result,
        error=error,
        skipped=way.skipped,
        writes=_stored_writes(ended),
        rules=way.rules,
        next=_reported(way, error),
    )


def _stored_writes(ended: Ended) -> Mapping[str, Json] | None:
    """What differs from the default, which is the result under the node's own name: it is not stored twice."""
    written = ended.writes
    is_default = len(written) == 1 and ended.node in written and written[ended.node] is ended.result
    return None if is_default or ended.failure is not None else written


def _reported(way: Way, error: Failure | None) -> Goto | RetryAt | Pause | End:
    """An end for want of a rule ends with the node's own error, which the record holds already."""
    if isinstance(way.next, End) and way.next.error is None and error is not None:
        return End(way.next.status)
    return way.next


def _acted(moment: Moment, token: Token, action: RunStep, outcome: Outcome, policy: Policy | None) -> Record:
    """A timeout's action ended. Its failure is kept for people; what the time-out does is decided after the last."""
    failure, following = outcome.failure, None
    if outcome.pause is not None:
        message = f"an action of {action.node} asked to wait for {outcome.pause.kind}; a time-out's actions cannot"
        failure = Failure("misplaced_directive", "step", message, action.node, action.attempt)
    if failure is not None and policy is not None:
        delay_ms = retry_delay_ms(policy.retry, failure, action.attempt, moment.jitter)
        following = None if delay_ms is None else RetryAt(moment.now_ms + delay_ms)
    return _record(moment, token, Kind.ACTED, action.node, attempt=action.attempt, started_ms=outcome.started_ms,
                   output=outcome.value, error=failure, next=following)  # fmt: skip


def _lost(moment: Moment, token: Token) -> Record:
    """An at_most_once step began and its worker did not live to tell: nobody knows whether it was done."""
    last, step = token.last, _node(moment.graph, token.node).step
    if last is None:
        raise EngineFault("a step began without a record", code="broken_log")
    message = f"{token.node} began, and its worker did not come back; at_most_once: it is not run again"
    failure = Failure("outcome_unknown", "worker_lost", message, token.node, last.attempt)
    if step is None:  # one of a time-out's actions: the next one follows
        return _record(moment, token, Kind.ACTED, token.node, attempt=last.attempt, error=failure)
    policy = resolve_policy(step, StepDefaults())  # tried again only where the definition names worker_lost
    ended = Ended(token.node, last.attempt, failure=failure, on_failure=step.on_failure, policy=policy)
    return _ended_node(moment, token, ended, Kind.STEP)


def began_record(moment: Moment, token: Token, action: RunStep, timeout_ms: int) -> Record:
    """Written before an at_most_once step runs. Until its time is up its worker may be alive, and nobody else acts."""
    lost_ms = moment.now_ms + timeout_ms + CLOCKS_APART_MS
    return _record(moment, token, Kind.BEGAN, action.node, attempt=action.attempt, next=RetryAt(lost_ms))


def _waiting(moment: Moment, token: Token, pause: Pause | None, again: int = 0) -> Record:
    """The token parks at its node's wait, or on what its step asked for."""
    name = token.node or moment.graph.start
    try:
        wait = _node(moment.graph, name).wait
        if pause is not None:
            parked = waits.park_for_step(moment, pause)
        elif wait is not None:
            parked = waits.park(moment, token, wait)
        else:
            raise EngineFault(f"{name} has nothing to wait for", code="broken_log")
    except ExpressionError as error:
        failure = validation_failure(error, name, 1)
        return _ended_node(moment, token, Ended(name, 1, failure=failure), Kind.MOVED)
    return _record(moment, token, Kind.WAITING, name, attempt=again, parked=parked)


def _settle(moment: Moment, token: Token) -> Action:
    """After a wait: a time-out's actions one by one, then what the wait's end means."""
    came, parked, node = token.resumption, token.parked, _node(moment.graph, token.node)
    if came is None or parked is None:
        raise EngineFault(f"{token.node} was resumed from no wait", code="broken_log")
    wait = None if parked.asked_by_step else node.wait
    failure = waits.failure_of(parked, came, node.name, token.waited)
    if came.kind == "timeout" and wait is not None:
        if token.acted < len(wait.timeout_actions):
            return _act(moment, replace(token, error=failure), node, wait.timeout_actions[token.acted])
        if wait.on_timeout == "retry" and token.waited < wait.max_retries:
            return Write(_waiting(moment, token, None, token.waited + 1))
        if wait.on_timeout == "continue":
            return Write(_ended_node(moment, token, Ended(node.name, 0), Kind.MOVED))
    if came.kind == "rejected" and wait is not None:
        asked_for = wait.arms[came.arm] if wait.arms else wait
        failure = None if asked_for.on_reject == "route" else failure
    asked = parked.asked_by_step
    if asked is not None and asked.then == "again" and failure is None and node.step is not None:
        return _run(moment, token, node, node.step, resumed=_resumed_value(token))
    return Write(_after_wait(moment, token, node, failure))


def _act(moment: Moment, token: Token, node: Node, step: Step) -> Action:
    """The next of a time-out's actions. One whose input cannot be evaluated has failed, and the next one follows."""
    action = _run(moment, token, node, step)
    if isinstance(action, Write):
        return Write(_record(moment, token, Kind.ACTED, token.node, attempt=1, error=action.record.error))
    if not isinstance(action, RunStep):
        raise EngineFault("a time-out's action is a step or a record", code="broken_action")
    head, _, entered = action.key.rpartition(":")
    key = f"{head}:action.{token.waited}.{token.acted}:{entered}"  # each action of each time-out is a call of its own
    return replace(action, action=True, key=key)


def _resumed_value(token: Token) -> Json:
    came = token.resumption
    if came is None:
        return None
    return {"kind": came.kind, "name": came.name, "payload": came.payload, "by": came.by or None}


def _after_wait(moment: Moment, token: Token, node: Node, failure: Failure | None) -> Record:
    came, parked = token.resumption, token.parked
    if came is None or parked is None:
        raise EngineFault(f"{token.node} was resumed from no wait", code="broken_log")
    on_failure = node.step.on_failure if node.step else "abort"
    if failure is not None:
        timed_out = came.kind == "timeout"
        ended = Ended(node.name, 1, failure=failure, on_failure=on_failure, timed_out=timed_out)
        return _ended_node(moment, token, ended, Kind.MOVED)
    if parked.is_nap:
        return _ended_node(moment, token, Ended(node.name, 0, token.result, stands=True), Kind.MOVED)
    result = waits.result_of(node.wait, parked, came)
    if parked.asked_by_step is not None and node.step is not None:
        ended = Ended(node.name, token.attempt, result, on_failure=on_failure)
        ended = _with_writes(moment, token, ended, node.step.output, {node.name: result})
        return _ended_node(moment, token, ended, Kind.MOVED)
    if node.wait is None:
        raise EngineFault(f"{node.name} is no wait", code="broken_log")
    writes = waits.writes_of(node.name, node.wait, came, result)
    ended = _with_writes(moment, token, Ended(node.name, 0, result), node.wait.output, writes)
    return _ended_node(moment, token, ended, Kind.MOVED)


def timeout_failure(graph: Graph) -> Failure:
    """The error of a run whose own time is up."""
    seconds = (graph.timeout_ms or 0) / 1000
    return Failure("workflow_timeout", "timeout", f"the run did not end within its timeout of {seconds:g} s")


def ended_record(
    moment: Moment, token: Token, status: Status, error: Failure | None, *, reason: str = "", who: str = ""
) -> Record:
    """A record that ends the token from outside: cancel, terminate, deadline."""
    return _record(moment, token, Kind.ENDED, token.node, next=End(status, error), reason=reason, who=who)


def _record(moment: Moment, token: Token, kind: Kind, node: str, **parts: object) -> Record:
    """Causal time: never behind the record it follows, nor the run's own start."""
    at_ms = max(moment.now_ms, moment.run.created_ms, token.last.at_ms if token.last else 0)
    return Record(token.next_slot, kind, moment.by, at_ms, node, **parts)  # type: ignore[arg-type]  # by field name
