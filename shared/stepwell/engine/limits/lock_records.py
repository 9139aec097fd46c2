"""Lock requests: the locks that a run or a node takes before it begins, and the record that requests them."""

from __future__ import annotations

from stepwell.definition.compiled import Expression
from stepwell.definition.graph import Graph, Json
from stepwell.engine.names import Moment, Names
from stepwell.engine.records import Failure, Kind, Record, Resumption, Status
from stepwell.engine.routing import Ended, validation_failure
from stepwell.engine.token import Token
from stepwell.engine.waits.lock import park_for_locks
from stepwell.engine.writing import ended_node, ended_record, record
from stepwell.errors import ExpressionError
from stepwell.limits import KEY_CHARACTERS, LOCK_QUEUE, LOCKS


def wanted(graph: Graph, token: Token, node: str) -> Expression | None:
    """Returns the locks to take before this node begins; `""` is the run itself."""
    if token.locks is not None:
        return None
    return graph.nodes[node].lock if node else graph.lock


def lock_record(moment: Moment, token: Token, node: str, lock: Expression) -> Record:
    """Returns the record that parks the token until it has its locks, or a failure for an invalid lock."""
    try:
        names = _names(lock, lock.evaluate(Names(moment, token)))
    except ExpressionError as error:
        return _failed(moment, token, node, validation_failure(error, node, 1))
    return record(moment, token, Kind.WAITING, node, parked=park_for_locks(names, moment.now_ms))


def refused_record(moment: Moment, token: Token, resumption: Resumption) -> Record:
    """Returns the record of a refused lock: its queue is full, or its owner waits for this run."""
    node = token.locks.node if token.locks else ""
    failure = Failure(
        "lock_queue_full", "transient", f"{LOCK_QUEUE} wait for the lock {resumption.name!r} already", node
    )
    if resumption.payload and (owner := resumption.payload.get("owner")):
        message = f"the lock {resumption.name!r} is held by {owner}, which waits for this run"
        failure = Failure("lock_held_by_parent", "validation", message, node)
    return _failed(moment, token, node, failure)


def _failed(moment: Moment, token: Token, node: str, failure: Failure) -> Record:
    if not node:
        return ended_record(moment, token, Status.FAILED, failure)
    return ended_node(moment, token, Ended(node, 1, failure=failure), Kind.MOVED)


def _names(lock: Expression, value: Json) -> tuple[str, ...]:
    """Sorts the names, so that no two runs can each hold the lock that the other waits for."""
    names = [_name(lock, one) for one in (value if isinstance(value, list) else [value])]
    if not 1 <= len(set(names)) <= LOCKS:
        raise ExpressionError(f"`{lock.text}` names {len(set(names))} locks", hint=f"name 1 to {LOCKS}")
    return tuple(sorted(set(names)))


def _name(lock: Expression, value: Json) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise ExpressionError(f"`{lock.text}` gave {value!r:.80}", hint="a lock's name is text or a whole number")
    if len(str(value)) > KEY_CHARACTERS:
        message = f"`{lock.text}` gave {len(str(value))} characters"
        raise ExpressionError(message, hint=f"a lock's name has at most {KEY_CHARACTERS}")
    return str(value)
