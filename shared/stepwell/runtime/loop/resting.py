"""Resting: a worker that stops for a pause notes that its token rests, so that only the pause's end wakes it.

     worker    mark: rests ── header: paused? it rests ── else mark: goes on, unless it was woken: it goes on
     unpause   header: as before ── mark: rests? woken, and a wake ── else nothing: who is at a step goes on by itself

Each writes and then reads what the other writes, and the mark has one of two ends: so exactly one of them goes on, and
a step that runs through a pause is not begun a second time. A wake that is under way finds no pause when it arrives.
Who moves a token that rests pushes it on. A start pushes nothing, so a run that gathers starts does not rest: when it
is due it takes no more, and rests then.
"""

from __future__ import annotations

from dataclasses import replace

from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.advance import can_move
from stepwell.runtime.ports import Ports

_RESTS, _GOES_ON, _WOKEN = "rests", "goes on", "woken"


class Resting:
    """Notes in the marks of paused runs which tokens rest. Every call may be repeated."""

    def __init__(self, ports: Ports, logbook: Logbook) -> None:
        self._slots, self._logbook = ports.slots, logbook

    async def rests(self, at: Standing) -> Standing | None:
        """Has the token rest. Returns it if it is to go on: the pause is over, and nobody has woken it. Else None."""
        at = await self._logbook.leave(at, at_once=True)
        if not await self._tells(at, _RESTS):
            return None  # another actor has moved it, and pushes it on
        at = await self._logbook.refreshed(at)
        if at.run.is_paused or not await self._tells(at, _GOES_ON, _RESTS):
            return None
        return replace(at, turn=None, is_marked=True)

    async def is_woken(self, at: Standing, paused_ms: int) -> bool:
        """Tells whether the token rested in the pause of that time, which is over: its wake is to be sent."""
        return can_move(at.token) and await self._tells(at, f"{_WOKEN} {paused_ms}", _RESTS)

    async def _tells(self, at: Standing, state: str, before: str = "") -> bool:
        return await self._slots.rest(at.run_id, at.token.id, at.token.next_slot, state, before)
