"""Child runs: which ones a node starts, when their parent can continue, and the result it gets from them.

    parent   ── WAITING(children) ───────────────────────── RESUMED ──▶
    child          └─ a run of its own ── ended: told to the parent ┘

A child's id is computed from the wait's place in its parent's log, so starting it twice starts it once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from stepwell.definition.graph import Call, Graph, Json
from stepwell.engine import results
from stepwell.engine.copying import changed
from stepwell.engine.names import Moment, Names, default_input
from stepwell.engine.records import Called, Failure, Parked, Resumption, Status
from stepwell.engine.stored.codec import told_failure
from stepwell.engine.token import Token

DETACHED = "workflow:"  # a step whose `run` begins so starts a run that nobody waits for
_FAILED = "!"
_ASKED_BY_STEP = Call(())  # what is true of children that a step's directive asked for


def child_id(run_id: str, token: str, slot: int, index: int) -> str:
    """Returns the id of the child run that the wait in this slot starts."""
    place = json.dumps([run_id, token, slot, index])
    return "run_" + hashlib.sha256(place.encode()).hexdigest()[:26]


def id_of(one: Called, run_id: str, token: str, slot: int, index: int) -> str:
    """Returns the id of a child run of this run, or of the run whose records it keeps."""
    return one.run_id or child_id(run_id, token, slot, index)


def known_children(parked: Parked, run_id: str, token: str, slot: int) -> Parked:
    """Returns the wait with the ids of its child runs, which stay theirs when another run keeps the record."""
    named = (replace(one, run_id=id_of(one, run_id, token, slot, index)) for index, one in enumerate(parked.children))
    return changed(parked, children=tuple(named))


def call_of(graph: Graph, token: Token) -> Call:
    """Returns the call of the children that this token waits for."""
    node = graph.nodes.get(token.node)  # none: a durable function's operation
    return (node.call if node else None) or _ASKED_BY_STEP


def called(moment: Moment, token: Token, call: Call) -> tuple[Called, ...]:
    """Returns the children with their inputs evaluated. Raises ExpressionError."""
    names = Names(moment, token)
    return tuple(
        Called(one.name, one.workflow, one.input.evaluate(names) if one.input else default_input(moment.run, token))
        for one in call.children
    )


# -- their ends


def member_of(index: int, status: Status) -> str:
    """Returns an ended child as a member of the set of ended children."""
    return f"{index}" if status is Status.COMPLETED else f"{index}{_FAILED}"


def is_decided(call: Call, width: int, members: Iterable[str]) -> bool:
    """Tells whether the parent can continue: all children have ended, or one failure decides."""
    found = list(members)
    return len(found) >= width or (_fails_early(call) and failed_of(found) is not None)


def failed_of(members: Iterable[str]) -> int | None:
    """Returns the first failed child, in the order of the definition."""
    return min((int(one.rstrip(_FAILED)) for one in members if one.endswith(_FAILED)), default=None)


def is_failure(call: Call, members: Iterable[str]) -> bool:
    """Tells whether a failed child fails the node."""
    return call.failed_child == "propagate" and failed_of(members) is not None


def failure_of(one: Called, run_id: str, child: Token) -> Resumption:
    """Turns a child's failure into the end of the wait."""
    end = child.end
    data = {
        "name": one.name,
        "workflow": one.workflow,
        "run_id": run_id,
        "status": end.status.value if end else None,
        "error": told_failure(end.error if end else None),
    }
    return Resumption("child_failed", name=one.name, payload=data)


def results_of(call: Call, children: Sequence[tuple[Called, str, Token]]) -> Resumption:
    """Turns the results of ended children, each (child, run id, root token), into the end of the wait."""
    values = {one.name: _value(call, run_id, child) for one, run_id, child in children}
    payload: Json = next(iter(values.values()), None) if call.single else values
    return Resumption("children", payload=payload)


def refusal_of(one: Called, code: str, message: str) -> Resumption:
    """Turns a child that could not be started into the end of the wait."""
    return Resumption("child_refused", name=one.name, payload={"type": code, "message": message})


def startable(children: tuple[Called, ...], resumption: Resumption | None) -> tuple[Called, ...]:
    """Returns the children to start: all, or those before the first that could not be started."""
    if resumption is None or resumption.kind != "child_refused":
        return children
    names = [one.name for one in children]
    return children[: names.index(resumption.name)]


def failure_from(resumption: Resumption, node: str) -> Failure | None:
    """Returns the end of the wait as the node's error; None if the children succeeded."""
    payload: Mapping[str, Json] = resumption.payload if isinstance(resumption.payload, dict) else {}
    match resumption.kind:
        case "child_refused":
            message = f"child run {resumption.name} could not be started: {payload['message']}"
            return Failure(payload["type"], "validation", message, node)
        case "child_failed":
            error = payload.get("error") or {}
            why = f": {error['type']}: {error['message']}" if error else ""
            message = f"child run {resumption.name} ended {payload['status']}{why}"
            return Failure("child_failed", "step", message, node, data=dict(payload))
    return None


def is_over(call: Call, resumption: Resumption) -> bool:
    """Tells whether no child can still run. Otherwise those that run must end, because no run waits for them."""
    return resumption.kind == "children" or (resumption.kind == "child_failed" and call.siblings == "finish")


def _fails_early(call: Call) -> bool:
    return call.failed_child == "propagate" and call.siblings == "cancel"


def _value(call: Call, run_id: str, child: Token) -> Json:
    done = child.has_completed
    result = child.result if done else None
    if call.failed_child != "return" and not call.brings_variables:
        return result
    variables = {"variables": results.brought(child)} if call.brings_variables and done else {}
    return {
        **variables,
        "childExecutionSuccess": done,
        "childExecutionStatus": child.end.status.value if child.end else None,
        "triggeredExecutionId": run_id,
        "result": result,
        "error": told_failure(child.end.error if child.end else None),
    }
