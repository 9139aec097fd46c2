"""Writing: the records of a decision, with the node's writes into the scope and the token's next node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stepwell.definition.compiled import Expression
from stepwell.definition.graph import Graph, Json, Node
from stepwell.engine.actions import RunStep
from stepwell.engine.compensation import ending
from stepwell.engine.copying import changed
from stepwell.engine.durable.journal import PATCH
from stepwell.engine.durable.turns import Suspended
from stepwell.engine.limits.locks import is_before_first
from stepwell.engine.names import Moment, Names, node_of
from stepwell.engine.records import (
    CleanUp,
    End,
    Failure,
    Fork,
    Kind,
    Next,
    Pause,
    Record,
    RetryAt,
    RunInfo,
    Status,
    Tally,
)
from stepwell.engine.retry import used_before
from stepwell.engine.routing import Ended, Way, after_join, route, validation_failure, violations
from stepwell.engine.table import Phase
from stepwell.engine.token import Token
from stepwell.engine.waits import parking
from stepwell.engine.waits.aside import back
from stepwell.errors import EngineFault, ExpressionError
from stepwell.limits import CLOCKS_APART_MS


def ended_node(moment: Moment, token: Token, ended: Ended, kind: Kind, started_ms: int = 0) -> Record:
    way: Way = route(moment, token, ended)
    error = ended.failure
    is_done = ended.is_done and moment.graph.nodes[ended.node].compensate is not None  # which needs the result
    return record(
        moment,
        token,
        kind,
        ended.node,
        attempt=ended.attempt,
        started_ms=started_ms,
        output=None if ended.stands or (error is not None and not is_done) else ended.result,
        error=error,
        skipped=way.skipped,
        is_done=is_done,
        writes=_stored_writes(ended),
        rules=way.rules,
        next=_reported(moment, token, way, ended),
    )


def joined(moment: Moment, token: Token, fork: Fork, ended: Ended, tally: Tally) -> Record:
    """The branches have come together: into the join's node, or to the end where there is none; or its failure."""
    if ended.failure is None or fork.is_awaited:
        way = Way(after_join(moment, token, fork, ended))
    elif ended.node in moment.graph.nodes:
        way = route(moment, token, ended)
    else:
        way = Way(End(Status.TIMED_OUT if ended.timed_out else Status.FAILED))
    return record(
        moment,
        token,
        Kind.JOINED,
        ended.node,
        output=ended.result,
        error=ended.failure,
        writes=_stored_writes(ended),
        rules=way.rules,
        next=_reported(moment, token, way, ended),
        tally=tally,
    )


def _stored_writes(ended: Ended) -> Mapping[str, Json] | None:
    """Returns the writes that differ from the default, the result under the node's name, which is stored once."""
    written = ended.writes
    is_default = len(written) == 1 and ended.node in written and written[ended.node] is ended.result
    return None if is_default or ended.failure is not None else written


def _reported(moment: Moment, token: Token, way: Way, ended: Ended) -> Next:
    """Returns what follows, or the compensation before it. An end without an error has the node's, if that failed."""
    if not isinstance(way.next, End):
        return way.next
    error = way.next.error or ended.failure
    failed = error.step or ended.node if error else ended.node
    return ending(moment.graph, token, way.next, error, failed)


def shaped(moment: Moment, token: Token, ended: Ended) -> Ended:
    """What the node makes of what came; what cannot be made fails it."""
    node = moment.graph.nodes.get(ended.node)
    if node is None or node.shaping is None or ended.failure is not None:
        return ended
    try:
        result, beside = node.shaping.shape(Names(moment, token), ended.result)
    except ExpressionError as error:
        failure = validation_failure(error, moment.graph.seen_as(ended.node), ended.attempt)
        return replace(ended, failure=failure, is_done=True)
    return replace(ended, result=result, writes=beside, stands=ended.stands and not beside)


def passed(moment: Moment, token: Token, node: Node) -> Ended:
    """Returns the end of a node that does nothing itself: the last result stands, or it makes one of that, or fails."""
    ended = Ended(node.name, 0, token.result, stands=True)
    if node.failing is None:
        return ended if node.fan_in is not None else shaped(moment, token, ended)  # its join has made it already
    try:
        told = node.failing.evaluate(Names(moment, token))
    except ExpressionError as error:
        return replace(ended, failure=validation_failure(error, node.name, 1))
    return replace(ended, failure=Failure(told["error"], "step", told["cause"], step=node.name, attempts=1))


def with_writes(
    moment: Moment, token: Token, ended: Ended, output: Expression | None, default: Mapping[str, Json]
) -> Ended:
    """What the result writes into the scope; an output that cannot be mapped, or a state its schema refuses, fails."""
    ended = shaped(moment, token, ended)
    if ended.failure is not None:
        return ended
    try:
        writes = ended.writes or default if output is None else _mapped(moment, token, ended, output)
    except ExpressionError as error:
        return replace(ended, failure=validation_failure(error, ended.node, ended.attempt), is_done=True)
    schema = moment.graph.state_schema
    if schema is not None and (problems := schema.problems({**token.scope, **writes})):
        message = f"after {ended.node}, the state violates state_schema: {violations(problems)}"
        failure = Failure("state_schema", "validation", message, ended.node, ended.attempt)
        return replace(ended, failure=failure, is_done=True)
    return changed(ended, writes=writes)


def _mapped(moment: Moment, token: Token, ended: Ended, output: Expression) -> Mapping[str, Json]:
    made = output.evaluate(Names(moment, replace(token, result=ended.result), event=ended.event))
    if not isinstance(made, dict):
        raise ExpressionError(f"the output of {ended.node} is not an object of names and values")
    return made


def waiting_record(moment: Moment, token: Token, pause: Pause | None, again: int = 0) -> Record:
    """Returns the record that parks the token at its node's wait, or on its step's directive."""
    name = node_of(moment.graph, token)
    try:
        node = node_named(moment.graph, name)
        if pause is not None:
            parked = parking.park_for_step(moment, token, pause)
        elif node.wait is not None:
            parked = parking.park(moment, token, node.wait)
        elif node.call is not None:
            parked = parking.park_for_children(moment, token, node.call)
        else:
            raise EngineFault(f"{name} has nothing to wait for", code="broken_log")
    except ExpressionError as error:
        failure = validation_failure(error, name, 1)
        return ended_node(moment, token, Ended(name, 1, failure=failure), Kind.MOVED)
    return record(moment, token, Kind.WAITING, name, attempt=again, parked=parked)


def began_record(moment: Moment, token: Token, action: RunStep, timeout_ms: int) -> Record:
    """Returns the record before an at_most_once step runs. No other worker acts until the step's time limit."""
    lost_ms = moment.now_ms + timeout_ms + CLOCKS_APART_MS
    following = RetryAt(lost_ms, used_before(back(token)))
    return record(moment, token, Kind.BEGAN, action.node, attempt=action.attempt, next=following)


def ended_record(
    moment: Moment, token: Token, status: Status, error: Failure | None, *, reason: str = "", who: str = ""
) -> Record:
    """Returns a record that ends the token from outside: cancel, terminate, deadline."""
    end = End(status, error)  # a run that has not begun has nothing to undo, and one that is terminated ends now
    has_begun = token.phase is not Phase.INITIALIZING and not is_before_first(token)
    is_over = not has_begun or (error is not None and error.type == TERMINATED)
    if token.cleaning is not None and not is_over:  # its time to clean up is over
        end, reason, who = End(token.cleaning.status), token.cleaning.reason, token.cleaning.who
    elif status is Status.CANCELLED and token.branch is None and not is_over and (ms := moment.graph.cleanup_ms):
        clean_up = CleanUp(status, moment.now_ms + ms)
        return record(moment, token, Kind.ENDED, token.node, next=clean_up, reason=reason, who=who)
    following = end if is_over else ending(moment.graph, token, end, error, "")
    return record(moment, token, Kind.ENDED, token.node, next=following, reason=reason, who=who)


_OF_STEP = frozenset({Kind.STEP, Kind.BEGAN})
_OF_OPERATION = frozenset({Kind.STEP, Kind.BEGAN, Kind.WAITING})
TERMINATED = "terminated"  # the type of the error of a run that a person ended at once


def timeout_failure(graph: Graph) -> Failure:
    """Returns the error of a run whose own time-out has passed."""
    seconds = (graph.timeout_ms or 0) / 1000
    return Failure("workflow_timeout", "timeout", f"the run did not end within its timeout of {seconds:g} s")


def deadline_ms(graph: Graph, run: RunInfo, token: Token) -> int | None:
    """Returns the run's deadline; None if it has no limit, has not started yet, or is compensating."""
    if token.cleaning is not None:
        return token.cleaning.until_ms
    if graph.timeout_ms is None or token.undoing is not None or ((run.idle or run.gathers) and not token.started_ms):
        return None
    return max(token.started_ms or run.created_ms, run.start_at_ms) + graph.timeout_ms


def node_named(graph: Graph, name: str) -> Node:
    """Returns the node at which a log stands. Raises EngineFault if there is none."""
    node = graph.place(name)
    if node is None:
        raise EngineFault(f"the log stands at {name}, which version {graph.version} does not have", code="broken_log")
    return node


def record(
    moment: Moment, token: Token, kind: Kind, node: str, *, rules: tuple[str, ...] = (), **parts: object
) -> Record:
    """Returns the token's next record."""
    if moment.turn is not None:  # a replay is to find the patches in the record that begins the operation
        rules = (*(PATCH + name for name in moment.turn.patches), *rules)
        if moment.turn.answers:
            parts["answers"] = moment.turn.answers
        if kind in _OF_OPERATION and isinstance(moment.turn.result, Suspended):
            parts["task"] = moment.turn.result.by
        if kind in _OF_STEP and isinstance(moment.turn.result, Suspended):
            parts["arguments"] = moment.turn.result.asked.arguments
    at_ms = moment.ms_after(token)
    return changed(_BLANK, slot=token.slot + 1, kind=kind, by=moment.by, at_ms=at_ms, node=node, rules=rules, **parts)


_BLANK = Record(0, Kind.MOVED, "", 0)
