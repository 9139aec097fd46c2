"""Locks in a token's log: requested, held, released. The store has the order of a lock's queue.

asked for ── WAITING ── first in each queue? ── RESUMED, `locked` ── the node is left, or the run ends ── let go
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stepwell.engine.records import Compensate, End, Fork, Goto, Kind, Parked, Record
from stepwell.engine.token import Locks, StepView, Token
from stepwell.values import dataclass

LOCK = "lock"  # the kind of its wait
UNLOCK = "unlock"  # an operation of a durable function, and the rule that its record names
LOCKED, REFUSED = "locked", "lock_refused"  # what ends that wait: they are all there, or one of them never will be


@dataclass(frozen=True, slots=True)
class Claim:
    """A place in a lock's queue: the slot of this token's log whose wait requested it."""

    run_id: str
    token: str
    slot: int


def asks(token: Token, slot: int) -> bool:
    """Tells whether the token still holds, or waits for, the locks of this slot. Once False, it stays False."""
    return not token.ended and token.locks is not None and token.locks.slot == slot


def waits(token: Token) -> bool:
    """Tells whether the token waits in a queue."""
    return not token.ended and token.parked is not None and bool(token.parked.locks) and token.resumption is None


def is_before_first(token: Token) -> bool:
    """Whether the run itself asks for its locks, or has just got them: nothing of it has begun."""
    return token.locks is not None and not token.locks.node and token.slot <= token.locks.slot + 1


def asked(token: Token, record: Record, parked: Parked) -> dict[str, Any]:
    """Returns the changed fields of a token that requests locks."""
    locks = Locks(parked.locks, record.slot, record.node, of_function=parked.of_function)
    changes: dict[str, Any] = {"parked": parked, "resumption": None, "received": (), "received_slot": -1, "fork": None}
    if record.node:
        changes["steps"] = {**token.steps, record.node: StepView("waiting", started_ms=record.at_ms)}
    return {**changes, "locks": locks}


def answered(token: Token, record: Record) -> dict[str, Any]:
    """Returns the changed fields of a token that got its locks: it is where it was before."""
    if token.locks is None or record.resumption is None or record.resumption.kind != LOCKED:
        return {"resumption": record.resumption}
    changes: dict[str, Any] = {"parked": None, "resumption": None, "locks": replace(token.locks, held=True)}
    view = token.steps.get(token.locks.node)
    if view is not None:
        changes["steps"] = {**token.steps, token.locks.node: replace(view, status="running")}
    return changes


def after(token: Token, record: Record) -> dict[str, Any]:
    """Returns the locks that the record releases. An end from outside also releases those of the record before it,

    because its writer may have died before it released them.
    """
    let_go = token.released if record.kind is Kind.ENDED else ()
    if token.locks is None or not _lets_go(token.locks, record):
        return {"released": let_go}
    return {"released": (*let_go, token.locks), "locks": None}


def _lets_go(locks: Locks, record: Record) -> bool:
    """A step's locks are released when its node ends, a function's on request, the run's own at its end."""
    if locks.of_function:
        return isinstance(record.next, End) or UNLOCK in record.rules
    return isinstance(record.next, End) or (bool(locks.node) and isinstance(record.next, Goto | Fork | Compensate))
