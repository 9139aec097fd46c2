"""Throttles: the permit of a named limit that a step needs, as its token's log tells it. The store has the line.

    STEP is next ── WAITING for the limit ── room? ── RESUMED, `permitted` ── the attempt's record ── given back

A permit is held for one attempt: a retry's delay holds none, and a step that asks for a wait gives it back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stepwell.engine.records import Kind, Parked, Record, Resumption
from stepwell.engine.token import Permit, Token

PERMITTED, REFUSED = "permitted", "limit_refused"  # what ends the wait: a permit, or there is no such limit
TURN = {"for": "turn"}  # what the end of a wait for a rate alone brings
_KEEPS = frozenset({Kind.RESUMED, Kind.RECEIVED, Kind.BEGAN})  # records under which a permit stays


def wants(token: Token, slot: int) -> bool:
    """Tells whether the token holds, or waits for, the permit of this slot. Once False, it stays False."""
    return not token.ended and token.permit is not None and token.permit.slot == slot


def waits(token: Token) -> bool:
    """Tells whether the token waits for a permit."""
    return not token.ended and token.permit is not None and token.permit.state == ""


def asked(record: Record, parked: Parked) -> Permit:
    """Returns the permit that a token asks for with this record."""
    return Permit(parked.data["limit"], parked.data.get("key", ""), record.slot, parked.since_ms)


def answered(token: Token, came: Resumption | None) -> Permit | None:
    """Returns the permit that was granted or refused."""
    if token.permit is None or came is None:
        return None
    return replace(token.permit, state=came.kind, is_shared=came.payload != TURN)


def after(token: Token, record: Record) -> dict[str, Any]:
    """Returns the permits that the record gives back. An end from outside also gives back that of the record before,

    because its writer may have died before it gave it back.
    """
    before = token.returned if record.kind is Kind.ENDED else ()
    if token.permit is None or record.kind in _KEEPS:
        return {"returned": before}
    return {"returned": (*before, token.permit), "permit": None}
