"""Throttles: the permit of a named limit that a step needs, as its token's log tells it. The store has the line.

    STEP is next ── WAITING for the limit ── room? ── RESUMED, `permitted` ── the attempt's record ── given back
       ^                                        └── the run is paused ── RESUMED, `line_left` ── given back ──┐
       └────────────────────────────── it goes on, and asks anew ──────────────────────────────────────────────┘

A permit is held for one attempt: a retry's delay holds none, and a step that asks for a wait gives it back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stepwell.engine.records import Kind, Parked, Record, Resumption
from stepwell.engine.token import Permit, Token

PERMITTED, REFUSED = "permitted", "limit_refused"  # what ends the wait: a permit, or there is no such limit
LEFT = "line_left"  # or a pause: who has a permit while the run is paused leaves it to others, and asks anew
FREES, ASKS = "frees_permit", "asks_permit"  # among the rules of records with which a run gives back its own, and asks
OF_SHARES = frozenset({FREES, ASKS})
FREED = "freed"  # the state of a run's own share while the run waits for something else
TURN = {"for": "turn"}  # what the end of a wait for a rate alone brings
_KEEPS = frozenset({Kind.RESUMED, Kind.RECEIVED, Kind.BEGAN})  # records under which a permit stays


def wants(token: Token, slot: int) -> bool:
    """Tells whether the token holds, or waits for, the permit of this slot. Once False, it stays False."""
    share = token.share is not None and token.share.slot == slot and token.share.state != FREED
    return not token.ended and (share or (token.permit is not None and token.permit.slot == slot))


def waits(token: Token) -> bool:
    """Tells whether the token waits for a permit."""
    return awaited(token) is not None


def awaited(token: Token) -> Permit | None:
    """Returns the permit that the token waits for: of its step, or the run's own."""
    if token.ended:
        return None
    return next((one for one in (token.permit, token.share) if one is not None and one.state == ""), None)


def leaves_line(record: Record) -> bool:
    """Tells whether the token leaves the line with this record, because of a pause."""
    return record.resumption is not None and record.resumption.kind == LEFT


def asked(record: Record, parked: Parked) -> Permit:
    """Returns the permit that a token asks for with this record."""
    return Permit(parked.data["limit"], parked.data.get("key", ""), record.slot, parked.since_ms)


def answered(permit: Permit | None, resumption: Resumption | None) -> Permit | None:
    """Returns the permit that was granted or refused."""
    if permit is None or resumption is None:
        return None
    return replace(permit, state=resumption.kind, is_shared=resumption.payload != TURN)


def after(token: Token, record: Record) -> dict[str, Any]:
    """Returns the permits that the record gives back. An end from outside also gives back that of the record before,

    because its writer may have died before it gave it back.
    """
    before = token.returned if record.kind is Kind.ENDED else ()
    if token.permit is None or (record.kind in _KEEPS and not leaves_line(record)):
        return {"returned": before}
    return {"returned": (*before, token.permit), "permit": None}
