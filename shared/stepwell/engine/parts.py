"""Waits for several things: documents, approvers, all of several events. What has come is kept, part by part.

WAITING ── RECEIVED (cv) ── RECEIVED (photo) ── RESUMED (id card) ──▶
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from stepwell.definition.graph import Json
from stepwell.engine.records import UPDATE, Arm, Parked, Resumption
from stepwell.engine.token import Token

ENDS_NOTHING = frozenset({"heartbeat", "escalated", "delegated", UPDATE})
_OF_AN_ARM = frozenset({"event", "approved", "rejected"})  # what else ends a wait, ends the whole of it
_DOCUMENT_KEYS = ("document", "name", "type")  # of an event: which document it brings


def as_part(token: Token, came: Resumption) -> Resumption | None:
    """What has come with the part that it is of its arm; None where it is nothing that the wait is for."""
    parked = token.parked
    if parked is None or came.kind not in _OF_AN_ARM:
        return came
    arm = parked.arms[came.arm]
    if arm.kind != "document" and is_complete(token, came.arm):
        return None  # it is left for others; a document that is sent again takes the place of the first
    if arm.kind == "document":
        part = _document_of(came.payload)
        return replace(came, part=part) if part and (not arm.parts or part in arm.parts) else None
    if arm.kind != "approval" or not (arm.parts or arm.need > 1):
        return came
    is_asked = not arm.parts or came.by in approvers(arm, token.received)
    return replace(came, part=came.by) if came.by and is_asked else None


def _document_of(payload: Json) -> str:
    found = payload if isinstance(payload, dict) else {}
    return next((found[key] for key in _DOCUMENT_KEYS if isinstance(found.get(key), str)), "")


def approvers(arm: Arm, received: Iterable[Resumption]) -> tuple[str, ...]:
    """Who may answer now, after what was delegated and escalated."""
    names = list(arm.parts)
    for one in received:
        if one.kind == "delegated":
            names = [one.payload["to"] if name == one.by else name for name in names]
        elif one.kind == "escalated":
            names += [name for name in one.payload["to"] if name not in names]
    return tuple(names)


def is_complete(token: Token, index: int) -> bool:
    """Whether all that this arm is for has come."""
    return token.parked is not None and _is_complete(token.parked.arms[index], index, token.received)


def has_answered(token: Token, by: str) -> bool:
    """Whether this approver's vote is there already."""
    return answer_of(token, by) is not None


def answer_of(token: Token, by: str) -> Resumption | None:
    """This approver's vote, where it is there already: a second one changes nothing."""
    votes = (one for one in token.received if one.part == by and one.kind in {"approved", "rejected"})
    return next(votes, None) if by else None


def completes(token: Token, came: Resumption) -> bool:
    """Whether this ends the wait; else it is a part of what the wait is for."""
    parked = token.parked
    if parked is None or came.kind in ENDS_NOTHING:
        return False
    if came.kind not in _OF_AN_ARM:
        return True
    all_came = (*token.received, came)
    if came.kind == "rejected":
        return _is_rejected(parked.arms[came.arm], came.arm, all_came)
    if not parked.is_all:
        return _is_complete(parked.arms[came.arm], came.arm, all_came)
    return all(_is_complete(arm, index, all_came) for index, arm in enumerate(parked.arms))


def _is_complete(arm: Arm, index: int, came: Iterable[Resumption]) -> bool:
    mine = [one for one in came if one.arm == index and one.kind in {"event", "approved"}]
    return len({one.part for one in mine}) >= arm.need if arm.parts or arm.need > 1 else bool(mine)


def _is_rejected(arm: Arm, index: int, came: Iterable[Resumption]) -> bool:
    """So many have said no that the others are not enough. Where nobody is named, one no ends it."""
    came = tuple(came)
    noes = {one.part for one in came if one.arm == index and one.kind == "rejected"}
    return not arm.parts or len(approvers(arm, came)) - len(noes) < arm.need


def due_ms(token: Token) -> int | None:
    """When something happens to a wait by itself: its time is up, a heartbeat is missing, others are to be asked."""
    parked = token.parked
    if parked is None:
        return None
    times = [parked.until_ms, _heartbeat_due_ms(parked, token.received)]
    if not any(one.kind == "escalated" for one in token.received):
        times.append(parked.escalate_ms)
    return min((at_ms for at_ms in times if at_ms is not None), default=None)


def _heartbeat_due_ms(parked: Parked, received: Iterable[Resumption]) -> int | None:
    if parked.heartbeat_ms is None:
        return None
    beats: list[int] = [one.payload["at_ms"] for one in received if one.kind == "heartbeat"]
    return max([parked.since_ms, *beats]) + parked.heartbeat_ms


def at_due(token: Token, now_ms: int) -> Resumption | None:
    """What the timer makes of the wait now; None while nothing is due."""
    parked, due = token.parked, due_ms(token)
    if parked is None or due is None or now_ms < due:
        return None
    if due == parked.until_ms:
        return Resumption("timeout" if parked.timer_arm is None else "timer", parked.timer_arm or 0)
    if due == parked.escalate_ms:
        arm = next(index for index, one in enumerate(parked.arms) if one.kind == "approval")
        return Resumption("escalated", arm, payload={"to": list(parked.escalate_to)})
    return Resumption("timeout", name="heartbeat")


# -- what the node makes of it


def value_of(arm: Arm, came: Iterable[Resumption]) -> Json:
    """An arm's result, of all that came for it."""
    found = list(came)
    last = found[-1] if found else None
    if arm.kind == "document":
        return {one.part: _url_of(one.payload) for one in found}
    if last is None:
        return None
    if last.kind in {"approved", "rejected"}:
        value = {"decision": last.kind, "by": last.by or None, **(last.payload or {})}
        votes = [{"decision": one.kind, "by": one.by, **(one.payload or {})} for one in found]
        return {**value, "votes": votes} if arm.need > 1 else value
    return last.payload["body"] if arm.kind == "callback" else last.payload


def _url_of(payload: Mapping[str, Json]) -> Json:
    return payload.get("url", payload)


def votes_and_parts(received: Iterable[Resumption], came: Resumption, arm: int) -> list[Resumption]:
    """What came for one arm, in order."""
    return [one for one in (*received, came) if one.arm == arm and one.kind in _OF_AN_ARM]
