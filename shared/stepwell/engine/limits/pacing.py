"""The note of a rate limit: when its next turn is due, and turns that were given back before they came.

    turns   1 2 3 4 5 6          6 is the next that is due
    free      2 3                their runs were cancelled: whoever asks gets 2, then 3, then 6

The note also has the interval. Once a deploy changes it, the next turn is due after as many new intervals as there were
turns to come: else a rate that was too low would hold up everybody for as long as it was in force.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from stepwell.engine.actions import Pace
from stepwell.values import dataclass

FREE_RANGES = 20  # of turns that follow each other: the note stays within one write unit
_ADJACENT_MS = 1.5  # a turn is a whole number, up to a millisecond later than the rate says


@dataclass(frozen=True, slots=True)
class Reserved:
    """A turn under a rate limit, and the note that says so."""

    at_ms: int
    body: str


@dataclass(frozen=True, slots=True)
class Free:
    """Turns that follow each other and are nobody's."""

    at_ms: float
    count: int


@dataclass(frozen=True, slots=True)
class _Note:
    due_ms: float
    interval_ms: float
    free: tuple[Free, ...] = ()


def reserved(pace: Pace, body: str | None, by: str, now_ms: int) -> Reserved:
    """Takes the next free time of a rate limit. The note holds when the one after it is due, were all evenly spread.

    `burst` runs may be ahead of that time. `by`: unique, so that no other worker writes the same and has the same turn.
    """
    note = _read(pace, body, now_ms)
    at_ms = max(now_ms, _up(note.due_ms - (pace.burst - 1) * pace.interval_ms))
    if note.free and _up(note.free[0].at_ms) <= at_ms:
        first, *others = note.free
        rest = (Free(first.at_ms + pace.interval_ms, first.count - 1),) if first.count > 1 else ()
        return Reserved(_up(first.at_ms), _body(replace(note, free=(*rest, *others)), by))
    return Reserved(at_ms, _body(replace(note, due_ms=note.due_ms + pace.interval_ms), by))


def given_back(pace: Pace, body: str | None, at_ms: int, by: str, now_ms: int) -> str | None:
    """Returns the note with a turn that its run does not need. None if it has come, or is no use to others."""
    if body is None or at_ms <= now_ms:
        return None
    note = _read(pace, body, now_ms)
    even_ms = note.due_ms - round((note.due_ms - at_ms) / pace.interval_ms) * pace.interval_ms
    if even_ms >= note.due_ms or abs(even_ms - at_ms) > _ADJACENT_MS:  # it was taken at another rate
        return None
    joined: list[Free] = []
    for one in sorted((*note.free, Free(even_ms, 1)), key=lambda one: one.at_ms):
        last = joined[-1] if joined else None
        if last is not None and abs(last.at_ms + last.count * pace.interval_ms - one.at_ms) < _ADJACENT_MS:
            joined[-1] = Free(last.at_ms, last.count + one.count)
        else:
            joined.append(one)
    return _body(replace(note, free=tuple(joined[:FREE_RANGES])), by)


def next_ms(body: str) -> float:
    """Returns when the next turn is that somebody may get."""
    found = json.loads(body)
    return float(min([found["due_ms"], *(at_ms for at_ms, _ in found.get("free", ()))]))


def is_spent(body: str, now_ms: int) -> bool:
    """Tells whether a rate limit's note says nothing any more: without it, the next run begins at once as well."""
    return bool(json.loads(body)["due_ms"] <= now_ms)


def _read(pace: Pace, body: str | None, now_ms: int) -> _Note:
    """Returns the note without turns that have passed, at today's rate."""
    found: dict[str, Any] = json.loads(body) if body else {"due_ms": 0.0}
    due_ms = max(found["due_ms"], float(now_ms))
    interval_ms = found.get("interval_ms", pace.interval_ms)  # an earlier version's note has none
    free = tuple(_to_come(Free(at_ms, count), interval_ms, now_ms) for at_ms, count in found.get("free", ()))
    left = tuple(one for one in free if one.count > 0)
    if interval_ms == pace.interval_ms or interval_ms <= 0:
        return _Note(due_ms, pace.interval_ms, left)
    taken = max(0.0, (due_ms - now_ms) / interval_ms - sum(one.count for one in left))
    return _Note(now_ms + taken * pace.interval_ms, pace.interval_ms)


def _to_come(free: Free, interval_ms: float, now_ms: int) -> Free:
    passed = max(0, _up((now_ms - free.at_ms) / interval_ms)) if interval_ms > 0 else 0
    return Free(free.at_ms + passed * interval_ms, free.count - passed)


def _body(note: _Note, by: str) -> str:
    free = {"free": [[round(one.at_ms, 3), one.count] for one in note.free]} if note.free else {}
    return json.dumps({"due_ms": round(note.due_ms, 3), "interval_ms": note.interval_ms, **free, "by": by})


def _up(number: float) -> int:
    return -int(-number // 1)
