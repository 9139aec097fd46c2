"""The sweeper's rounds: which runs it has not met yet. A note keeps the place for the next process.

A run is met once, some minutes after it was created; from then on the index of due runs says when to look at it.

     created   ──── left from a sweep without time ────┬──── met ────┬──── new ────┬── too young ──▶ now
       (a stretch: from its `since_ms` up to its cursor)     `until_ms`    still_ms ago
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from stepwell.engine.stored.formats import BROKEN
from stepwell.limits import HOUR_MS, MINUTE_MS
from stepwell.runtime.stores.answers import encode_cursor
from stepwell.values import dataclass

NOTE = ("sweeper", "rounds")  # its kind and name
KEPT_STRETCHES = 20  # if there are more, the oldest are merged, and parts of them looked at again


@dataclass(frozen=True, slots=True)
class Stretch:
    """Runs created from `since_ms` on and before the cursor. `all`: also those that were met before."""

    since_ms: int
    cursor: str
    all: bool = False


@dataclass(frozen=True, slots=True)
class Rounds:
    """The stretches left to look at, newest first: a stretch of old runs never delays a new one."""

    until_ms: int = 0  # runs created before it have been met, or are in a stretch
    swept_ms: int = 0  # when the last sweep began
    again_ms: int = 0  # when to look at all runs once more; 0: not needed
    stretches: tuple[Stretch, ...] = ()

    @classmethod
    def of(cls, note: str | None) -> Rounds:
        """Returns the rounds that a note keeps; empty ones for None, or for a note in another format."""
        if note is None:
            return cls()
        try:
            kept = json.loads(note)
            return cls(**{**kept, "stretches": tuple(Stretch(**one) for one in kept["stretches"])})
        except BROKEN:
            return cls()

    @property
    def met_ms(self) -> int:
        """Returns the time before which all live runs have been met."""
        return min([self.until_ms, *(one.since_ms for one in self.stretches)])

    def note(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    def begun(self, now_ms: int, still_ms: int) -> Rounds:
        """Returns the rounds of a sweep that begins: runs that have become old enough are a new stretch.

        After an hour without a sweep all live runs are one stretch. An older release may have moved runs meanwhile that
        were met before, without noting when they are due; its last worker may still be at it, so an hour later all runs
        are looked at once more. A table that an older release has filled is met in the same way.
        """
        upto_ms = now_ms - max(still_ms, 0)
        until_ms = max(self.until_ms, min(upto_ms, now_ms - MINUTE_MS))  # a run may be listed a little late
        if now_ms - self.swept_ms > HOUR_MS:
            return Rounds(until_ms, now_ms, now_ms + HOUR_MS, (Stretch(0, encode_cursor(upto_ms, ""), all=True),))
        new = (Stretch(self.until_ms, encode_cursor(upto_ms, "")),) if upto_ms > self.until_ms else ()
        if self.again_ms and now_ms >= self.again_ms:
            every = Stretch(0, encode_cursor(self.until_ms, ""), all=True)
            return Rounds(until_ms, now_ms, 0, (*new, every))
        return Rounds(until_ms, now_ms, self.again_ms, _few((*new, *self.stretches)))

    def after(self, next_cursor: str) -> Rounds:
        """Returns the rounds after a page of the first stretch."""
        first, *others = self.stretches
        rest = [replace(first, cursor=next_cursor)] if next_cursor else []
        return replace(self, stretches=(*rest, *others))


def _few(stretches: tuple[Stretch, ...]) -> tuple[Stretch, ...]:
    kept, merged = stretches[: KEPT_STRETCHES - 1], stretches[KEPT_STRETCHES - 1 :]
    if len(merged) < 2:
        return stretches
    return (*kept, Stretch(merged[-1].since_ms, merged[0].cursor, any(one.all for one in merged)))
