"""Parts of a wait: what has arrived, and which of its arms are complete. The log keeps each part.

WAITING ── RECEIVED (cv) ── RECEIVED (photo) ── RESUMED (id card) ──▶
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from stepwell.engine.records import Parked, Resumption
from stepwell.engine.token import Token
from stepwell.engine.waits.event import EVENT
from stepwell.engine.waits.kind import coming_of, kind_named
from stepwell.engine.waits.several import shown_as


def as_part(token: Token, resumption: Resumption) -> Resumption | None:
    """Returns the resumption with its part of the arm; None if the wait does not want it."""
    if token.parked is None or not coming_of(resumption).is_part:
        return resumption
    arm = token.parked.arms[resumption.arm]
    return kind_named(arm.kind).part(arm, resumption, token.received, complete=is_complete(token, resumption.arm))


def is_complete(token: Token, index: int, received: Iterable[Resumption] | None = None) -> bool:
    """Tells whether this arm is complete, with what has come of the wait, or with what `received` has."""
    if token.parked is None:
        return False
    arm = token.parked.arms[index]
    return kind_named(arm.kind).is_complete(arm, parts_of(index, token.received if received is None else received))


def open_arms(token: Token, kind: str) -> list[int]:
    """Returns the incomplete arms of this kind; empty if the token waits for none."""
    if token.ended or token.parked is None or token.resumption is not None:
        return []
    arms = enumerate(token.parked.arms)
    return [index for index, arm in arms if arm.kind == kind and not is_complete(token, index)]


def open_arm(token: Token, kind: str) -> int | None:
    """Returns the first incomplete arm of this kind; None if the token waits for none."""
    return next(iter(open_arms(token, kind)), None)


def open_kinds(token: Token) -> list[str]:
    """Returns the kinds of the arms that are not complete, each once; empty if the token waits for nothing."""
    if token.parked is None or token.resumption is not None:
        return []
    arms = enumerate(token.parked.arms)
    return list(dict.fromkeys(arm.kind for index, arm in arms if not is_complete(token, index)))


def left_of(token: Token, parked: Parked) -> Parked:
    """Returns the wait without what has come of it, for a reader of an `all`."""
    if parked is not token.parked or len(parked.arms) < 2 or token.resumption is not None:
        return parked
    arms = tuple(arm for index, arm in enumerate(parked.arms) if not is_complete(token, index))
    if not arms or len(arms) == len(parked.arms):
        return parked
    kinds = [arm.kind for arm in arms]
    kind = kinds[0] if len(kinds) == 1 else parked.kind if parked.kind in kinds else EVENT.name
    return replace(parked, arms=arms, kind=kind)


def shown_kind(token: Token, parked: Parked) -> str:
    """Returns the kind that a reader sees of a wait: of an `all`, one that is still to come."""
    return shown_as(left_of(token, parked))


def parts_of(index: int, resumptions: Iterable[Resumption]) -> list[Resumption]:
    """Returns the parts of one arm, in order of arrival."""
    return [one for one in resumptions if one.arm == index and coming_of(one).is_part]
