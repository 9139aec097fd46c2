"""Advance: puts inputs from outside to a token, and pushes on whatever moved.

perform the effects of the last record ── what they find is put, as inputs ── the token moved? a worker is woken
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stepwell.engine.actions import Drop, Look
from stepwell.engine.inputs import EventOffered, Input, LocksAnswered, TimerFired
from stepwell.engine.records import Kind
from stepwell.engine.table import ENDED, PARKED, Phase
from stepwell.engine.token import Token
from stepwell.limits import ATTEMPT_MAX_MS
from stepwell.runtime.log.door import UNLIMITED, Answer, Budget, Door, FoundInput
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.messages import to_json
from stepwell.runtime.log.standing import Forks, Standing
from stepwell.runtime.loop.perform import Performer
from stepwell.runtime.ports import Lane, Ports

_STANDS = ENDED | PARKED | {Phase.WAITING_TO_COMPENSATE}


class Advance:
    """Moves tokens on behalf of everybody but their own workers."""

    def __init__(self, ports: Ports, logbook: Logbook, door: Door, performer: Performer) -> None:
        self._ports, self._logbook, self._door, self._performer = ports, logbook, door, performer

    async def take(self, at: Standing, given: Input, by: str, budget: Budget = UNLIMITED) -> Answer:
        """Puts an input, unless an earlier delivery did, and pushes on what moved."""
        answer = await self._door.put_once(at, given, by, budget)
        if answer.is_mine:
            await self.push(answer.at, by, budget, again=not answer.is_new)
        return answer

    async def look(self, at: Standing, given: TimerFired, by: str, budget: Budget) -> Answer:
        """Puts what the mailbox has for a wait whose time is up, as an event's message may be lost, then the timer.

        Another record that comes first may be of an event that another part of the wait takes, too: it looks again.
        """
        while True:
            moved = await self._put_found(at, await self._performer.mailbox.pending(at), by, budget)
            if moved is not None and can_move(moved.token):
                return Answer(moved, Drop(), is_mine=True, is_new=True)
            at = moved or at
            answer = await self._door.put(at, replace(given, looked=at.token.slot), by, budget)
            if not isinstance(answer.action, Look):
                return answer
            at = answer.at

    async def push(self, at: Standing, by: str, budget: Budget = UNLIMITED, *, again: bool = False) -> None:
        """Wakes a worker if one is next; it performs the last record's effects. Otherwise they are performed here.

        `again`: the record was there before, so whoever wrote it has woken a worker, or died.
        """
        last, moved = at.token.last, at
        if not can_move(at.token) or (last is not None and last.kind is Kind.ENDED):
            moved = await self.settle(at, by, budget=budget) or at
        if can_move(moved.token):
            await self.wake_once(moved, budget, again=again and moved is at)

    async def wake(self, at: Standing, hops: int = 0, *, yields: bool = False) -> None:
        """Has a worker push on the token."""
        wake = at.wake(hops)
        await self._ports.queue.send(Lane.WORK, to_json(replace(wake, yields=True) if yields else wake))

    async def wake_once(self, at: Standing, budget: Budget, *, again: bool) -> None:
        """Has a worker push on the token: late where one may have been woken. That of a redelivery has died."""
        await (self.wake_late(at) if again and budget.is_first() else self.wake(at))

    async def wake_late(self, at: Standing) -> None:
        """Has a worker push on the token, should it still stand there once a worker that was woken must be done.

        copy of a call ── finds the record ── wakes late ──────────────────────── stands there still: goes on
        worker            woken by the first ── its step, of 15 minutes at most ── has moved on: drops
        """
        at_ms = self._ports.clock.now_ms() + ATTEMPT_MAX_MS
        await self._ports.queue.send(Lane.WORK, to_json(replace(at.wake(), late=True)), at_ms)

    async def settle(
        self, at: Standing, by: str, known: Forks | None = None, budget: Budget = UNLIMITED
    ) -> Standing | None:
        """Performs the last record's effects and puts what they find. Returns the token to go on with, if one moved."""
        found = await self._performer.perform(at, by, known)
        return await self._put_found(at, found, by, budget) if found else None

    async def _put_found(self, at: Standing, founds: Sequence[FoundInput], by: str, budget: Budget) -> Standing | None:
        moved: Standing | None = None
        for found in founds:
            here = at if _is_same(at, found.at) else found.at
            answer = Answer(here, Drop(), is_mine=True, is_new=True)
            if found.given is not None:
                answer = await self._whole(here, found.given, found.by or by, budget)
            if isinstance(answer.action, Drop) and answer.action.lets_go is not None:
                await self._performer.let_go(answer.at, answer.action.lets_go)
            if isinstance(found.given, LocksAnswered) and not answer.is_new:
                await self._performer.locks.drop_late(answer.at, found.given)
            if _is_same(at, answer.at):
                at = answer.at
            if answer.is_mine and answer.at.run_id != at.run_id:
                await self.wake_once(answer.at, budget, again=not answer.is_new)
            elif answer.is_mine and not answer.is_new and budget.is_first() and can_move(answer.at.token):
                await self.wake_late(answer.at)  # another wrote that in the same name, and goes on, or has died
            elif answer.is_mine:
                moved = answer.at
        return moved

    async def _whole(self, at: Standing, given: Input, by: str, budget: Budget) -> Answer:
        """Puts an input. An event is put again if a copy of this message has put another one in its slot."""
        answer = await self._door.put(at, given, by, budget)
        while isinstance(given, EventOffered) and answer.is_mine and not _has(answer.at.token, given):
            again = await self._door.put(answer.at, given, by, budget)
            if not again.is_mine:
                return replace(answer, at=again.at)
            answer = again
        return answer


def _has(token: Token, given: EventOffered) -> bool:
    """Tells whether the token's last record has taken this event."""
    last = token.last
    resumption = last.resumption if last is not None else None
    return resumption is not None and (resumption.event_id, resumption.arm) == (given.event_id, given.arm)


def _is_same(one: Standing, other: Standing) -> bool:
    return (one.run_id, one.token.id) == (other.run_id, other.token.id)


def can_move(token: Token) -> bool:
    """Tells whether a worker is next: the token has not ended, and does not wait."""
    return token.phase not in _STANDS
