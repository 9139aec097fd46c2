"""Turns under a rate limit: when each may go on. A claimant keeps its turn until it ends.

One that comes late has missed its turn, and takes another: else all whose turns came while no worker ran would go on
together.

    turns   1 2 3 4 5 6 7 8                     1 and 2 went on
    workers 1 2 ✗ ✗ ✗ ✗ ✗ ✗ ✗ ✗ ✗ ✗ 3 4 5 6     3 and later ones take turns from now on

With each turn that it misses it may be later, so that it goes on where all messages are late.

A turn that is not needed is given back at most once: its note is deleted first, and only who has deleted it gives the
turn to others. If that worker dies in between, one turn passes unused. In the other order, two claimants could have it.

Copies of a message that ask at once take a turn each: every write of the limit's note has a mark of its own. The copy
that comes second to the claimant's note gives its turn back.
"""

from __future__ import annotations

from secrets import token_hex

from stepwell.engine.actions import Pace
from stepwell.engine.limits.pacing import given_back, is_spent, next_ms, reserved
from stepwell.errors import PortError
from stepwell.limits import LOCK_TRIES, TURN_GRACE_MS
from stepwell.runtime.ports import Notes

_DUE, _TURN = "due", "t#"
_MISSED = "0"  # a turn's note begins with one for each that was missed before: earlier versions read the same number
_GRACE_GROWS = 4  # times, with each


class Paces:
    """The turns of all rate limits. Every operation may be repeated."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    async def turn(self, pace: Pace, who: str, now_ms: int, *, may_miss: bool = True) -> int:
        """Returns when the claimant may go on, in ms. Stores a turn that is later than now, or that follows another.

        `may_miss`: whether one that comes late takes another turn.
        """
        kept = await self._note(pace, who)
        if kept is not None and not (may_miss and _is_missed(kept, now_ms)):
            return int(kept)
        at_ms = await self._reserve(pace, now_ms)
        if kept is None and at_ms <= now_ms:
            return at_ms
        missed = "" if kept is None else _MISSED * (_misses(kept) + 1)
        if await self._notes.put_note(_kind(pace), _TURN + who, f"{missed}{at_ms}", kept):
            return at_ms
        await self._free(pace, at_ms, now_ms)  # only the turn that a copy of the message has stored counts
        first_ms = await self.kept(pace, who)
        return at_ms if first_ms is None else first_ms

    async def _reserve(self, pace: Pace, now_ms: int) -> int:
        for _ in range(LOCK_TRIES):
            body = await self._notes.get_note(_kind(pace), _DUE)
            turn = reserved(pace, body, self._mark(), now_ms)
            if await self._notes.put_note(_kind(pace), _DUE, turn.body, body):
                return turn.at_ms
        raise PortError(f"the limit of {pace.name!r} was changed by others {LOCK_TRIES} times")

    @staticmethod
    def _mark() -> str:
        return token_hex(8)

    async def kept(self, pace: Pace, who: str) -> int | None:
        kept = await self._note(pace, who)
        return None if kept is None else int(kept)

    async def _note(self, pace: Pace, who: str) -> str | None:
        return await self._notes.get_note(_kind(pace), _TURN + who)

    async def give_back(self, pace: Pace, who: str, now_ms: int, *, is_used: bool) -> None:
        """Forgets the claimant's turn, if one is stored. Another gets it if it was not used and has not come."""
        at_ms = await self._forgotten(pace, who)
        if at_ms is None:
            return
        if at_ms > now_ms + (TURN_GRACE_MS if is_used else 0):  # a much later one is that of a copy of the message
            await self._free(pace, at_ms, now_ms)

    async def _forgotten(self, pace: Pace, who: str) -> int | None:
        """Deletes the claimant's turn, and returns it. None: there is none, or somebody else has deleted it.

        A worker of the claimant may take a later turn meanwhile: then it is that which nobody needs any more.
        """
        for _ in range(LOCK_TRIES):
            kept = await self._note(pace, who)
            if kept is None:
                return None
            if await self._notes.drop_note(_kind(pace), _TURN + who, kept, once=True):
                return int(kept)
        raise PortError(f"the turn of {who} was changed by others {LOCK_TRIES} times")

    async def _free(self, pace: Pace, at_ms: int, now_ms: int) -> None:
        """Leaves a turn that has not come to whoever asks next."""
        for _ in range(LOCK_TRIES):
            before = await self._notes.get_note(_kind(pace), _DUE)
            body = given_back(pace, before, at_ms, self._mark(), now_ms)
            if body is None or await self._notes.put_note(_kind(pace), _DUE, body, before):
                return

    async def drop(self, name: str, who: str) -> None:
        """Forgets the turn of a claimant, or under a limit, that is no more."""
        await self._notes.drop_note(f"pace:{name}", _TURN + who)

    async def forget(self, pace: Pace, now_ms: int) -> None:
        """Deletes the state of the limit, once it delays nobody any more."""
        body = await self._notes.get_note(_kind(pace), _DUE)
        if body is not None and is_spent(body, now_ms):
            await self._notes.drop_note(_kind(pace), _DUE, body)


async def due_ms(notes: Notes, name: str) -> int:
    """Returns when the next turn is due; 0 if none was taken."""
    body = await notes.get_note(f"pace:{name}", _DUE)
    return 0 if body is None else int(next_ms(body))


def _is_missed(kept: str, now_ms: int) -> bool:
    """Tells whether a claimant comes too late for its turn."""
    grace_ms: int = TURN_GRACE_MS * _GRACE_GROWS ** _misses(kept)
    return now_ms - int(kept) > grace_ms


def _misses(kept: str) -> int:
    return len(kept) - len(kept.lstrip(_MISSED))


def _kind(pace: Pace) -> str:
    return f"pace:{pace.name}"
