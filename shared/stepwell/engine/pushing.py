"""Pushing: which message goes on with a token. Whoever asks that, asks here.

    wrote the last record, in this or an earlier delivery ───────────── goes on
    a wake: the token stands at the record that it was sent for ─────── goes on
    a wake: since then only parts or starts came, which push nothing ── goes on
    it pushes the end of a branch, whose writer was to do this ──────── goes on in that one's place
    another wrote the last record ───────────────────────────────────── drops: that one comes again until it is done

So one message pushes a token, whichever worker dies. Two deliveries of it may both run a step; the slot has one winner.
"""

from __future__ import annotations

from collections.abc import Collection

from stepwell.engine.records import CALLERS, Kind
from stepwell.engine.table import PARKED
from stepwell.engine.token import Token


def is_for(by: str, slot: int, names: Collection[str], sent_for: int | None = None) -> bool:
    """Tells whether a record is for the message of these names: it wrote it, or was sent for its slot."""
    return by in names or slot == sent_for


def pushes(token: Token, *names: str, sent_for: int | None = None) -> bool:
    """Tells whether the token's last record is for the message of these names."""
    if token.last is None:
        return token.slot == sent_for
    return is_for(token.last.by, token.slot, names, sent_for)


def is_stale(token: Token, slot: int, *names: str) -> bool:
    """Tells whether a wake is stale: neither at the slot it was sent for, nor at a record that it caused.

    The starts that a run gathers make no wake stale: the one with which it begins, when it is due, may find another
    start in the slot where it was to write. Nor do the parts of a wait.
    """
    if token.last is None:
        return token.slot != slot
    return token.last.kind is not Kind.GATHERED and not is_left_to(token, *names, sent_for=slot)


def is_left_to(token: Token, *names: str, sent_for: int | None = None) -> bool:
    """Tells whether a message of these names goes on with the token, or may have left its wait unregistered.

    Whoever began a wait may have died before it registered that, and whoever writes a part of the wait does not.
    """
    last = token.last
    has_part = last is not None and last.kind is Kind.RECEIVED and token.phase in PARKED
    return has_part or pushes(token, *names, sent_for=sent_for)


def in_place_of(ended: Token, by: str) -> tuple[str, ...]:
    """Returns the names of who pushes a branch's end: its own, and the writer's, who may have died of that."""
    return (by,) if ended.last is None else (by, ended.last.by)


def pushes_end(token: Token, by: str) -> bool:
    """Tells whether this actor ended the token, maybe before a crash. A caller who repeats a call has another name."""
    if token.last is None:
        return False
    return pushes(token, by) or (token.last.by.startswith(CALLERS) and by.startswith(CALLERS))
