"""Waits beside the work: a token steps aside, and then goes on from the record where it stood.

    GOTO ── WAITING for code ── RESUMED ── WAITING for a limit ── RESUMED ── STEP
      └──────────────── the step follows this record, as if there had been no wait ───┘

Nothing has failed and no attempt is counted: the token retries the same attempt of the same visit.
"""

from __future__ import annotations

from dataclasses import replace

from stepwell.engine.records import Kind, Parked, Record, RetryAt
from stepwell.engine.retry import used_before
from stepwell.engine.token import Aside, Token

CODE = "code"  # the kind of a wait until code can be loaded
LIMIT = "limit"  # the kind of a wait for a permit of a named limit
UNBEGUN = "unbegun"  # among its record's rules: the step was recorded as begun, and its code could not be loaded
KEYED = "keyed"  # among its record's rules: what a function goes on with is keyed by the slot of this record
SHIFTS = "shifts"  # among its record's rules: later visits are keyed as if the wait took no slots
COST = "cost"  # among the rules of the record of an approval that the run asks for, for what it costs
_ASIDE = frozenset({CODE, LIMIT})


def is_aside(record: Record) -> bool:
    """Tells whether the record parks its token beside its work."""
    return record.parked is not None and (record.parked.kind in _ASIDE or COST in record.rules)


def is_for_limit(parked: Parked) -> bool:
    """Tells whether the wait is for a permit, of a step or of the run itself."""
    return is_limit(parked.kind)


def is_limit(kind: str) -> bool:
    """Tells whether this kind of wait is the one for a permit."""
    return kind == LIMIT


def step_aside(token: Token, record: Record) -> Aside:
    """Returns what the token stood at, which is kept until it goes on."""
    return token.aside or Aside(_stood_at(token, record), token.parked, token.resumption, token.received,
                                token.received_slot)  # fmt: skip


def _stood_at(token: Token, record: Record) -> Record:
    """Returns the record to continue from; a step that did not begin counts as not recorded."""
    if token.last is None:
        return Record(-1, Kind.STARTED, "", 0)
    if UNBEGUN not in record.rules:
        return token.last
    if token.resumption is not None:
        return replace(token.last, kind=Kind.RESUMED, next=None)
    return replace(token.last, kind=Kind.STEP, next=RetryAt(0, used_before(token)))


def back(token: Token) -> Token:
    """Returns the token to its place before the wait, once that wait is over."""
    aside, last = token.aside, token.last
    if aside is None or last is None or token.resumption is None:
        return token
    stood_at = replace(aside.last, slot=last.slot, at_ms=last.at_ms)
    return replace(token, last=stood_at, parked=aside.parked, resumption=aside.resumption, received=aside.received,
                   received_slot=aside.received_slot)  # fmt: skip
