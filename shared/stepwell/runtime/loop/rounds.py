"""Where the sweeper is in its rounds: which runs it has not met yet. A note keeps the place for the next process.

A run is met once, some minutes after it was created; from then on the index of due runs says when to look at it.

    created   ──── left from a sweep without time ────┬──── met ────┬──── new ────┬── too young ──▶ now
              (a stretch: from its `since_ms` up to its cursor)     `until_ms`    still_ms ago
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

from stepwell.engine.formats import BROKEN
from stepwell.limits import HOUR_MS, MINUTE_MS
from stepwell.runtime.stores.answers import encode_cursor

NOTE = ("sweeper", "rounds")  # its kind and name
KEPT_STRETCHES = 20  # the oldest of more become one, parts of which are then looked at again


@dataclass(frozen=True, slots=True)
class Stretch:
    """Runs created from `since_ms` on and before the cursor. `all`: those that were met before, too."""

    since_ms: int
    cursor: str
    all: bool = False


@dataclass(frozen=True, slots=True)
class Rounds:
    """What is left to look at, the newest first: a stretch of old runs never keeps a new one waiting."""

    until_ms: int = 0  # runs created before have been met, or are in a stretch
    swept_ms: int = 0  # when the last sweep began
    again_ms: int = 0  # when all runs are to be looked at once more; 0: they have been
    stretches: tuple[Stretch, ...] = ()

    @classmethod
    def of(cls, note: str | None) -> Rounds:
        """The rounds that a note keeps. None, or the note of other rules: these rules have swept nothing yet."""
        if note is None:
            return cls()
        try:
            kept = json.loads(note)
            return cls(**{**kept, "stretches": tuple(Stretch(**one) for one in kept["stretches"])})
        except BROKEN:
            return cls()

    @property
    def met_ms(self) -> int:
        """Before this time, all live runs have been met."""
        return min([self.until_ms, *(one.since_ms for one in self.stretches)])

    def note(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    def begun(self, now_ms: int, still_ms: int) -> Rounds:
        """A sweep begins: runs that have become old enough are a stretch.

        After an hour without a sweep all live runs are one. An older release may have moved runs meanwhile that were
        met before, without saying when they are due; its last worker may still be at it, so an hour later all are
        looked at once more. A table that an older release has filled is met in the same way.
        """
        upto_ms = now_ms - max(still_ms, 0)
        until_ms = max(self.until_ms, min(upto_ms, now_ms - MINUTE_MS))  # a run may be listed late, a little
        if now_ms - self.swept_ms > HOUR_MS:
            return Rounds(until_ms, now_ms, now_ms + HOUR_MS, (Stretch(0, encode_cursor(upto_ms, ""), all=True),))
        new = (Stretch(self.until_ms, encode_cursor(upto_ms, "")),) if upto_ms > self.until_ms else ()
        if self.again_ms and now_ms >= self.again_ms:
            every = Stretch(0, encode_cursor(self.until_ms, ""), all=True)
            return Rounds(until_ms, now_ms, 0, (*new, every))
        return Rounds(until_ms, now_ms, self.again_ms, _few((*new, *self.stretches)))

    def after(self, next_cursor: str) -> Rounds:
        """A page of the first stretch has been looked at."""
        first, *others = self.stretches
        rest = [replace(first, cursor=next_cursor)] if next_cursor else []
        return replace(self, stretches=(*rest, *others))


def _few(stretches: tuple[Stretch, ...]) -> tuple[Stretch, ...]:
    kept, merged = stretches[: KEPT_STRETCHES - 1], stretches[KEPT_STRETCHES - 1 :]
    if len(merged) < 2:
        return stretches
    return (*kept, Stretch(merged[-1].since_ms, merged[0].cursor, any(one.all for one in merged)))
