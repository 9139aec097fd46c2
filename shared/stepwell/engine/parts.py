"""Parts of a wait: what has arrived, what is due by time, and when the wait is complete. The log keeps each part.

WAITING ── RECEIVED (cv) ── RECEIVED (photo) ── RESUMED (id card) ──▶
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from stepwell.engine.copying import changed
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


def is_complete(token: Token, index: int) -> bool:
    """Tells whether this arm is complete."""
    return _is_complete(token, index, token.received)


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


def completes(token: Token, resumption: Resumption) -> bool:
    """Tells whether this ends the wait; otherwise it is a part."""
    parked, coming = token.parked, coming_of(resumption)
    if parked is None or not coming.ends:
        return False
    if parked.of_tasks:
        return not token.has_open_tasks
    if not coming.is_part:
        return True
    arm, all_received = parked.arms[resumption.arm], (*token.received, resumption)
    if kind_named(arm.kind).is_refused(arm, resumption.arm, all_received):
        return True
    needed = range(len(parked.arms)) if parked.is_all else (resumption.arm,)
    return all(_is_complete(token, index, all_received) for index in needed)


def _is_complete(token: Token, index: int, resumptions: Iterable[Resumption]) -> bool:
    if token.parked is None:
        return False
    arm = token.parked.arms[index]
    return kind_named(arm.kind).is_complete(arm, parts_of(index, resumptions))


def parts_of(index: int, resumptions: Iterable[Resumption]) -> list[Resumption]:
    """Returns the parts of one arm, in order of arrival."""
    return [one for one in resumptions if one.arm == index and coming_of(one).is_part]


def due_ms(token: Token) -> int | None:
    """Returns when the wait's timer is due: a time-out, a missing heartbeat, or an escalation."""
    return min((at_ms for at_ms, _ in _dues(token)), default=None)


def timer_slot(token: Token, since_ms: int) -> int:
    """Returns the slot that names the timer of the part that was recorded at `since_ms`.

    A part that leaves the wait's time as it was names the wait's own timer, unless that time is up: the own timer may
    have written this part, and would take its own name for a message that came twice.
    """
    at_ms = due_ms(token)
    is_as_set = at_ms is not None and since_ms < at_ms == due_ms(changed(token, received=()))
    return token.waiting_slot if is_as_set else token.slot


def _timed_arm(token: Token, parked: Parked) -> int:
    """Returns the arm whose time is up at the wait's time limit: of an `all`, the first that has not ended."""
    if parked.limit_arm is not None and parked.is_all:
        return next((index for index in range(len(parked.arms)) if not is_complete(token, index)), 0)
    return parked.timer_arm or parked.limit_arm or 0


def at_due(token: Token, now_ms: int) -> Resumption | None:
    """Returns the resumption that is due now; None if nothing is due."""
    first = min(_dues(token), key=lambda due: due[0], default=None)
    return first[1] if first is not None and first[0] <= now_ms else None


def _dues(token: Token) -> Iterator[tuple[int, Resumption]]:
    parked = token.parked
    if parked is None:
        return
    if parked.until_ms is not None:
        is_timer = parked.timer_arm is not None
        yield parked.until_ms, Resumption("timer" if is_timer else "timeout", _timed_arm(token, parked))
    for index, arm in enumerate(parked.arms):
        yield from kind_named(arm.kind).dues(parked, index, token.received)
