"""Settling: after a wait, runs a time-out's actions one by one, then applies the wait's end."""

from __future__ import annotations

from dataclasses import replace

from stepwell.definition.graph import Json, Node, Step
from stepwell.engine import results
from stepwell.engine.actions import Action, RunStep, Write
from stepwell.engine.attempts import run_step
from stepwell.engine.compensation import on_failure_of
from stepwell.engine.names import Moment
from stepwell.engine.records import Failure, Kind, Parked, Record, Resumption
from stepwell.engine.retry import Policy
from stepwell.engine.routing import Ended
from stepwell.engine.token import Token
from stepwell.engine.waits import outcome
from stepwell.engine.waits.kind import coming_of, kind_named
from stepwell.engine.writing import ended_node, node_named, record, waiting_record, with_writes
from stepwell.errors import EngineFault


def settle(moment: Moment, token: Token) -> Action:
    """Returns the next action after a wait: a time-out's actions one by one, then the wait's end."""
    resumption, parked, node = token.resumption, token.parked, node_named(moment.graph, token.node)
    if resumption is None or parked is None:
        raise EngineFault(f"{token.node} was resumed from no wait", code="broken_log")
    wait = None if parked.asked_by_step else node.wait
    failure = outcome.failure_of(parked, resumption, node.name, token.waited)
    timed = None if parked.asked_by_step else node.wait or node.call
    if resumption.kind == "timeout" and timed is not None:
        if token.acted < len(timed.timeout_actions):
            return _act(moment, replace(token, error=failure), node, timed.timeout_actions[token.acted])
        if timed.on_timeout == "retry" and token.waited < timed.max_retries:
            return Write(waiting_record(moment, token, None, token.waited + 1))
        if timed.on_timeout == "continue":
            return Write(ended_node(moment, token, Ended(node.name, 0), Kind.MOVED))
    if wait is not None:
        asked_for = wait.arms[resumption.arm] if wait.arms else wait
        failure = None if kind_named(asked_for.kind).forgives(asked_for, resumption) else failure
    if failure is not None:
        is_answered = node.step is not None and node.step.callback is not None
        timed_out = resumption.kind == "timeout" and not is_answered  # a step's time-out is a failure of it
        return Write(_after_failure(moment, token, node, failure, timed_out=timed_out))
    asked = parked.asked_by_step
    if asked is not None and asked.then == "again" and node.step is not None:
        joined = outcome.result_of(None, parked, resumption, token.received)
        return run_step(moment, token, node, node.step, resumed=joined or _waker(resumption))
    return Write(_after_wait(moment, token, node, resumption, parked))


def _act(moment: Moment, token: Token, node: Node, step: Step) -> Action:
    """Runs the next of a time-out's actions. If its input cannot be evaluated, it fails, and the next one follows."""
    action = run_step(moment, replace(token, keyed_by=""), node, step)  # a redriven wait has a time-out of its own
    if isinstance(action, Write):
        return Write(record(moment, token, Kind.ACTED, token.node, attempt=1, error=action.record.error))
    if not isinstance(action, RunStep):
        raise EngineFault("a time-out's action is a step or a record", code="broken_action")
    head, _, entered = action.key.rpartition(":")
    key = f"{head}:action.{token.waited}.{token.acted}:{entered}"  # each action of each time-out is a call of its own
    return replace(action, action=True, key=key)


def _waker(resumption: Resumption) -> Json:
    """Tells what ended a wait that brought nothing: the step that runs again must know that it has waited."""
    return {
        "kind": resumption.kind,
        "name": resumption.name,
        "payload": resumption.payload,
        "by": resumption.by or None,
    }


def _after_wait(moment: Moment, token: Token, node: Node, resumption: Resumption, parked: Parked) -> Record:
    """Returns the record of a completed wait: the node's result and its writes."""
    event = resumption.payload if coming_of(resumption).trigger == "event" else None
    if node.step is not None:
        result = outcome.result_of(None, parked, resumption, token.received)
        ended = Ended(node.name, token.attempt, result, on_failure=node.step.on_failure, event=event)
        brought = moment.turn.writes if moment.turn else results.of_pause(node.name, node.step, result)
        ended = with_writes(moment, token, ended, node.step.output, brought)
    elif node.call is not None:
        result, brought = results.of_children(node.call, node.name, resumption.payload)
        ended = Ended(node.name, token.attempt + 1, result, on_failure=node.call.on_failure)
        ended = with_writes(moment, token, ended, node.call.output, brought)
    elif node.wait is None:
        raise EngineFault(f"{node.name} is no wait", code="broken_log")
    elif parked.is_nap:
        ended = Ended(node.name, 0, token.result, stands=True)
        ended = with_writes(moment, token, ended, node.wait.output, {})
    else:
        result = outcome.result_of(node.wait, parked, resumption, token.received)
        set_by_wait = outcome.writes_of(node.name, parked, resumption, token.received, result)
        writes = results.of_wait(moment, token, node.wait, node.name, set_by_wait)
        ended = with_writes(moment, token, Ended(node.name, 0, result, event=event), node.wait.output, writes)
    return ended_node(moment, token, ended, Kind.MOVED)


def _after_failure(moment: Moment, token: Token, node: Node, failure: Failure, *, timed_out: bool) -> Record:
    """Returns the record of a time-out or rejection that the wait does not handle; the node's rules may."""
    call = node.call
    if call is not None:  # started anew, as other runs, where its policy says so
        attempt, policy = token.attempt + 1, Policy(call.retry, call.timeout_ms or 0, at_most_once=False)
        failure = replace(failure, attempts=attempt)
        ended = Ended(node.name, attempt, failure=failure, on_failure=call.on_failure, policy=policy)
    else:
        ended = Ended(node.name, 1, failure=failure, on_failure=on_failure_of(node))
    return ended_node(moment, token, replace(ended, timed_out=timed_out), Kind.MOVED)
