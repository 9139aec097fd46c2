"""Attempts: the action that runs a step, and the record of its outcome."""

from __future__ import annotations

from dataclasses import replace

from stepwell.definition.authoring import StepDefaults
from stepwell.definition.graph import Graph, Json, Node, Step, Throws
from stepwell.engine import results
from stepwell.engine.actions import Action, Outcome, RunStep, Write
from stepwell.engine.answered import limited, pause_for
from stepwell.engine.compensation import ending, undone
from stepwell.engine.copying import changed
from stepwell.engine.names import Moment, Names, default_input, step_input, visit_key
from stepwell.engine.records import Failure, Kind, Record, RetryAt, Status
from stepwell.engine.retry import Policy, resolve_policy, retry_delay_ms, with_bases
from stepwell.engine.routing import Ended, step_limit, validation_failure
from stepwell.engine.token import Token
from stepwell.engine.waits.aside import back
from stepwell.engine.waits.code import wait_for_code
from stepwell.engine.writing import (
    deadline_ms,
    ended_node,
    ended_record,
    node_named,
    record,
    timeout_failure,
    with_writes,
)
from stepwell.errors import EngineFault, ExpressionError


def run_step(moment: Moment, token: Token, node: Node, step: Step, resumed: Json = None) -> Action:
    # the first record of the first node is not written yet: this visit begins in its slot
    entered = token.entered_slot if token.node else token.slot + 1
    attempt = token.attempt + 1
    names = Names(moment, token)
    try:
        step = limited(step, names) if step.limits is not None else step
        given = step_input(step, names, None if step.input else default_input(moment.run, token))
        request = step.http.evaluate(names) if step.http else None
    except ExpressionError as error:
        outcome = Outcome(failure=validation_failure(error, node.name, attempt), started_ms=moment.now_ms)
        return Write(commit(moment, token, RunStep(node.name, step, None, attempt, ""), outcome, None))
    key = visit_key(moment.run, token, entered)
    return RunStep(node.name, step, given, attempt, key, resumed, request=request, at_ms=moment.now_ms)


def commit(moment: Moment, token: Token, action: RunStep, outcome: Outcome, policy: Policy | None) -> Record:
    """Returns the record of an attempt: its output, the rules taken and the token's next node, in one."""
    token = back(token) if token.aside is not None else token
    if (failure := outcome.failure) is not None:
        policy = None if policy is None else with_bases(policy, outcome)
        failure = failure if action.step.throws is None else _asked(failure, action.step.throws)
        if outcome.is_stuck:
            node = moment.graph.start if moment.turn else action.node
            is_unbegun = token.last is not None and token.last.kind is Kind.BEGAN
            return wait_for_code(moment, token, failure, node, is_unbegun=is_unbegun)
        failure = _renamed(moment.graph, action, failure) if action.step.fails_as and action.key else failure
        outcome = replace(outcome, failure=failure)
    if action.undo is not None:
        return undone(moment, token, action, outcome, policy)
    if action.action:
        return _acted(moment, token, action, outcome, policy)
    if failure is not None and failure.category == "timeout":
        limit_ms = deadline_ms(moment.graph, moment.run, token)
        if limit_ms is not None and moment.now_ms >= limit_ms:
            return ended_record(moment, token, Status.TIMED_OUT, timeout_failure(moment.graph))
    pause = outcome.pause
    if pause is None and action.step.callback is not None:
        pause = pause_for(moment, token, action, outcome, policy)
    if pause is not None:
        limit = step_limit(moment, token, action.node) if pause.then == "again" else None
        error = limit.error if limit is not None else None
        following = pause if limit is None else ending(moment.graph, token, limit, error, action.node)
        return record(moment, token, Kind.STEP, action.node, attempt=action.attempt, started_ms=outcome.started_ms,
                      error=error, next=following)  # fmt: skip
    ended = Ended(
        action.node,
        action.attempt,
        outcome.value,
        outcome.failure,
        on_failure=action.step.on_failure,
        policy=policy,
    )
    writes = moment.turn.writes if moment.turn else results.of_step(moment, token, action, outcome.value)
    ended = with_writes(moment, token, ended, action.step.output, writes)
    made = ended_node(moment, token, ended, Kind.STEP, outcome.started_ms)
    return changed(made, taken=action.taken) if outcome.is_taken else made


def _asked(failure: Failure, throws: Throws) -> Failure:
    return replace(failure, is_thrown=throws(failure.type, failure.category, failure.data))


def _renamed(graph: Graph, action: RunStep, failure: Failure) -> Failure:
    """Returns the failure of an attempt whose failures are all of one type. Its message has the type that it had."""
    message = f"{failure.type}: {failure.message}"
    return replace(failure, type=action.step.fails_as, message=message, step=graph.seen_as(action.node))


def _acted(moment: Moment, token: Token, action: RunStep, outcome: Outcome, policy: Policy | None) -> Record:
    """Records the end of a time-out's action. A failure is kept for people; the last action decides the outcome."""
    failure, following = outcome.failure, None
    if outcome.pause is not None:
        message = f"an action of {action.node} asked to wait for {outcome.pause.kind}; a time-out's actions cannot"
        failure = Failure("misplaced_directive", "step", message, action.node, action.attempt)
    if failure is not None and policy is not None:
        delay_ms = retry_delay_ms(policy.retry, failure, action.attempt, moment.jitter)
        following = None if delay_ms is None else RetryAt(moment.now_ms + delay_ms)
    return record(moment, token, Kind.ACTED, action.node, attempt=action.attempt, started_ms=outcome.started_ms,
                   output=outcome.value, error=failure, next=following,
                   writes=None if failure else results.of_timeout_action(moment, token, action))  # fmt: skip


def lost_record(moment: Moment, token: Token) -> Record:
    """Returns the record of an at_most_once step whose worker died: its outcome is unknown."""
    last, step = token.last, node_named(moment.graph, token.node).step
    if last is None:
        raise EngineFault("a step began without a record", code="broken_log")
    message = f"{token.node} began, and its worker did not come back; at_most_once: it is not run again"
    failure = Failure("outcome_unknown", "worker_lost", message, token.node, last.attempt)
    if step is None:  # one of a time-out's actions: the next one follows
        return record(moment, token, Kind.ACTED, token.node, attempt=last.attempt, error=failure)
    policy = resolve_policy(step, StepDefaults())  # tried again only where the definition names worker_lost
    key = visit_key(moment.run, token, token.entered_slot)
    return commit(moment, token, RunStep(token.node, step, None, last.attempt, key), Outcome(failure=failure), policy)
