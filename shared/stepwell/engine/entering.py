"""Entering: where a visit begins, and the slot from which its idempotency key is made.

    graph      0 STEP a, GOTO b ── 1 WAITING for code ── 2 RESUMED ── 3 STEP b: it was entered in slot 1, by GOTO
    function   0 STEP a         ── 1 WAITING for code ── 2 RESUMED ── 3 STEP b: nothing routed the token to it

A function's operation begins in the slot of its first record. A worker may have died in its step before a wait for
code, under the key of the slot that the wait then took: so the operation keeps that key.
"""

from __future__ import annotations

from typing import Any

from stepwell.engine.copying import changed
from stepwell.engine.records import Goto, Kind, Record
from stepwell.engine.token import Token
from stepwell.engine.waits.aside import back, is_aside

NEW_VISIT: dict[str, Any] = {"attempt": 0, "parked": None, "resumption": None, "received": (), "received_slot": -1,
                             "waited": 0, "acted": 0, "fork": None, "keyed_by": "", "keyed_slot": -1}  # fmt: skip
_ENTERING = frozenset({Kind.BEGAN, Kind.STEP, Kind.MOVED, Kind.WAITING, Kind.RETURNED, Kind.REDRIVEN})
_BEFORE_FIRST = frozenset({Kind.STARTED, Kind.GATHERED, Kind.REDRIVEN})


def key_slot(token: Token, slot: int) -> int:
    """Returns the slot that keys a function's operation. `slot`: of its first record; -1: it has none yet."""
    kept = token.keyed_slot if slot >= 0 else slot_kept(token)
    return kept if kept >= 0 else slot if slot >= 0 else token.next_slot


def slot_kept(token: Token) -> int:
    """Returns the slot that keys the operation for whose code the token has waited; -1: it has not."""
    return token.aside.entered if token.aside is not None else -1


def without_aside(token: Token, record: Record) -> Token:
    """Returns a token that stepped aside to its earlier place, unless the record is about that wait."""
    if token.aside is None or record.kind in {Kind.RECEIVED, Kind.RESUMED} or is_aside(record):
        return token
    return changed(token if record.kind is Kind.ENDED else back(token), aside=None)


def entered_by(token: Token, record: Record, kept: int) -> Token:
    """Returns the token as it enters a node where nothing routed it: the first one, or a durable function's operation.

    `kept`: the slot that keys the operation; -1: that of this record.
    """
    if record.kind not in _ENTERING or not record.node:
        return token
    if record.parked is not None and is_aside(record) and (token.node or token.undoing is not None):
        return token  # the step that it waits to make is not its first
    if token.node == record.node and not _has_awaited(token):
        return token if kept < 0 or not _is_first(token) else _keyed(token, kept)
    visits = {**token.visits, record.node: token.visits.get(record.node, 0) + 1}
    entered = {**NEW_VISIT, "node": record.node, "entered_slot": record.slot if kept < 0 else kept, "visits": visits,
               "keyed_slot": kept}  # fmt: skip
    last = token.last
    if last is not None and last.kind is Kind.REDRIVEN and not last.node:  # it began the visit, wherever that leads
        entered |= {"entered_slot": token.entered_slot, "keyed_by": token.keyed_by}
    return changed(token, **entered)


def _keyed(token: Token, kept: int) -> Token:
    """The operation has its function's name, or was redriven; then it may keep the key of another run."""
    return changed(token, keyed_slot=kept, entered_slot=token.entered_slot if token.keyed_by else kept)


def _is_first(token: Token) -> bool:
    """Tells whether the next record of a function begins an operation."""
    last = token.last
    return last is not None and (isinstance(last.next, Goto) or last.kind in _BEFORE_FIRST)


def _has_awaited(token: Token) -> bool:
    """Tells whether this record ends an operation of a durable function."""
    if token.last is not None and token.last.kind is Kind.ENDED:
        return True
    return token.resumption is not None and token.parked is not None and token.parked.of_function
