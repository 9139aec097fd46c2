"""Turns under a rate limit: when each may go on. A claimant keeps its turn until it ends, and takes no other."""

from __future__ import annotations

import json

from stepwell.engine.actions import Pace
from stepwell.engine.permits import is_spent, reserved
from stepwell.errors import PortError
from stepwell.limits import LOCK_TRIES
from stepwell.runtime.ports import Notes

_DUE, _TURN = "due", "t#"


class Paces:
    """The turns of all rate limits. Every operation may be repeated."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    async def turn(self, pace: Pace, who: str, now_ms: int) -> int:
        """Returns when the claimant may go on, in ms. Stores a turn that is later than now."""
        kept = await self.kept(pace, who)
        if kept is not None:
            return kept
        for _ in range(LOCK_TRIES):
            body = await self._notes.get_note(_kind(pace), _DUE)
            turn = reserved(pace, body, who, now_ms)
            if await self._notes.put_note(_kind(pace), _DUE, turn.body, body):
                break
        else:
            raise PortError(f"the limit of {pace.name!r} was changed by others {LOCK_TRIES} times")
        if turn.at_ms > now_ms:
            await self._notes.put_note(_kind(pace), _TURN + who, str(turn.at_ms), None)
        return turn.at_ms

    async def kept(self, pace: Pace, who: str) -> int | None:
        kept = await self._notes.get_note(_kind(pace), _TURN + who)
        return None if kept is None else int(kept)

    async def drop(self, pace: Pace, who: str) -> None:
        """Forgets the claimant's turn, if one is stored."""
        if await self.kept(pace, who) is not None:
            await self._notes.drop_note(_kind(pace), _TURN + who)

    async def forget(self, pace: Pace, now_ms: int) -> None:
        """Deletes the state of the limit, once it delays nobody any more."""
        body = await self._notes.get_note(_kind(pace), _DUE)
        if body is not None and is_spent(body, now_ms):
            await self._notes.drop_note(_kind(pace), _DUE, body)


async def due_ms(notes: Notes, name: str) -> int:
    """Returns when the next turn is due; 0 if none was taken."""
    body = await notes.get_note(f"pace:{name}", _DUE)
    return 0 if body is None else int(json.loads(body)["due_ms"])


def _kind(pace: Pace) -> str:
    return f"pace:{pace.name}"
