"""Permits for tokens: for steps, in the lines and at the pace that `limits.yaml` says.

     take       WAITING is in the log ── in line ── a permit ── its turn ── RESUMED
     give back  the log has moved on ── out of the line ── whoever is first then is woken

A run that has given back its permit while it waited takes one again in the same way, in the line of its workflow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stepwell.definition.graph import Json, Limit
from stepwell.engine.actions import Pace, Share
from stepwell.engine.effect_kinds import GiveBackPermits, TakePermit
from stepwell.engine.inputs import PermitAnswered
from stepwell.engine.limits import permits, throttles
from stepwell.engine.limits.permits import order_of
from stepwell.engine.limits.shares import OWN, is_of_run
from stepwell.engine.records import Kind, Resumption
from stepwell.engine.token import Permit, Token
from stepwell.engine.waits.aside import is_for_limit
from stepwell.limits import CONCURRENCY, PENDING_SHOWN
from stepwell.runtime.log.alarms import Alarms
from stepwell.runtime.log.door import FoundInput
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.ports import Lane, Ports
from stepwell.runtime.waits.claimants import Claimants, claim_of, run_of
from stepwell.runtime.waits.kinship import Kinship
from stepwell.runtime.waits.lines import LOOKED_AT, Lines, Turn, place_of
from stepwell.runtime.waits.paces import Paces
from stepwell.values import dataclass

LATE_PERMITS = 10  # the newest permits of a token, checked on a redelivery


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a permit: a place among so many, a turn, or both."""

    share: Share | None
    pace: Pace | None


class Throttling:
    """Permits of named limits, and those that runs take again. Every operation may be repeated."""

    def __init__(self, ports: Ports, logbook: Logbook) -> None:
        self._ports, self._logbook, self._alarms = ports, logbook, Alarms(ports)
        self._claims, self._kinship = Claimants(ports, logbook), Kinship(ports, logbook)
        self._lines, self._paces = Lines(ports.notes, self._claims), Paces(ports.notes)

    # -- the effects

    async def take(self, at: Standing, effect: TakePermit) -> list[FoundInput]:
        """Takes a permit. Returns the end of the wait if the token has it, or if there is no such limit."""
        permit = effect.permit
        terms = self._terms(at, permit)
        if terms is None:
            return [FoundInput(at, PermitAnswered(permit, Resumption(throttles.REFUSED)))]
        may_go = await self._may_go(at, permit, terms)
        if await self._is_late(at, permit):  # it may have been given back before this worker asked again
            await self.give_back(at, permit)
            return []
        brought = throttles.TURN if terms.share is None else None
        return (
            [FoundInput(at, PermitAnswered(permit, Resumption(throttles.PERMITTED, payload=brought)))] if may_go else []
        )

    def _terms(self, at: Standing, permit: Permit) -> Terms | None:
        """Returns the terms of the permit; None if there is no limit of this name any more."""
        if permit.limit == OWN:
            return Terms(permits.share_of(at.graph, at.run), None)
        limit = self._logbook.limits.get(permit.limit)
        return None if limit is None else Terms(share_of(permit.name, limit), pace_of(permit.name, limit))

    async def _is_late(self, at: Standing, permit: Permit) -> bool:
        """Tells whether the token has moved on, or its run was deleted, and it no longer wants the permit."""
        saved = await self._ports.log.read_log(at.run_id, at.token.id, at.token.slot - 1, 2)
        slots = {one.slot for one in saved}
        is_there = at.token.slot in slots or at.lane is not None  # a branch's wait may be in its lane
        if is_there and max(slots, default=-1) <= at.token.slot:
            return False
        return not await self._claims.lives(_claim(at, permit))

    async def _may_go(self, at: Standing, permit: Permit, terms: Terms) -> bool:
        """Tells whether the token has a permit and its turn has come. If only the turn is missing, sets a wake."""
        claim, share, pace = _claim(at, permit), terms.share, terms.pace
        if share is not None and permit.limit == OWN and await self._kinship.is_under_holder(at.header, share):
            return True
        if share is not None and await self._lines.enter(share, claim, _place(at, permit)) is not Turn.GRANTED:
            return False
        now_ms = self._ports.clock.now_ms()
        at_ms = now_ms if pace is None else await self._paces.turn(pace, claim, now_ms)
        if at_ms > now_ms:
            await self._alarms.arm(Lane.WORK, at.wake(), at_ms, at.header.created_ms)
        return at_ms <= now_ms

    async def give_back_all(self, at: Standing, effect: GiveBackPermits) -> None:
        for permit in effect.permits:
            await self.give_back(at, permit)

    async def give_back(self, at: Standing, permit: Permit) -> None:
        """Returns a permit, as the step's attempt or its token ended, or the run waits: the next one goes on."""
        claim, terms = _claim(at, permit), self._terms(at, permit)
        place = _place(at, permit) if permit.state in ("", throttles.REFUSED) else ""
        if terms is None:
            await self._paces.drop(f"@{permit.name}", claim)
        elif terms.pace is not None:
            is_used = permit.state == throttles.PERMITTED
            await self._paces.give_back(terms.pace, claim, self._ports.clock.now_ms(), is_used=is_used)
        if terms is not None and terms.share is not None:
            await self._lines.leave(terms.share, claim, place)
        elif permit.is_shared:  # its limit was removed since, or has a rate alone
            await self._lines.disband(Share(f"@{permit.name}", CONCURRENCY, "queue"), claim, place)

    async def give_back_late(self, at: Standing, slot: int) -> None:
        """Returns permits that an earlier delivery of this message may have taken late, before its worker died.

            worker   asks for a permit ──────────────────────────────────────────────── has it ── dies
            another                     has it ── the step's record ── gives it back ── the next step's record

        `slot`: for which the message was sent.
        """
        if not self._logbook.limits:
            return
        records = await self._logbook.lanes.token(at.run_id, at.token.id, max(slot - 1, -1), None)
        asked = [
            throttles.asked(record, record.parked)
            for record in records
            if record.kind is Kind.WAITING and record.parked is not None and is_for_limit(record.parked)
            if not is_of_run(record.parked)  # a run's permit is given back with every record until the run asks again
        ]
        for permit in asked[-LATE_PERMITS:]:
            if permit.slot <= at.token.slot and not throttles.wants(at.token, permit.slot):
                await self.give_back(at, permit)

    # -- for observers

    async def is_stuck(self, at: Standing) -> bool:
        """Tells whether a token that waits for a permit could go on, or is in no line, and was not told."""
        permit = throttles.awaited(at.token)
        terms = None if permit is None else self._terms(at, permit)
        if permit is None or terms is None:
            return permit is not None
        claim, share, pace = _claim(at, permit), terms.share, terms.pace
        kept_ms = None if pace is None else await self._paces.kept(pace, claim)
        if kept_ms is not None:
            return kept_ms <= self._ports.clock.now_ms()
        if share is None:
            return True
        board = await self._lines.read(share)
        if board.shard_of(claim) is not None or board.room(share) is not None:
            return True
        is_in_line = await self._lines.waits_at(share, _place(at, permit))
        return not is_in_line or bool(await self._lines.ended(board.under_way))

    async def with_holders(self, at: Standing, most: int) -> Standing:
        """Returns the run with the holders of permits that its tokens wait for: of at most `most` tokens."""
        left = [most]

        async def shown(token: Token) -> Token:
            permit = throttles.awaited(token)
            if permit is None or token.parked is None or left[0] < 1:
                return token
            left[0] -= 1
            data = {**token.parked.data, **await self._seen(at, token, permit)}
            return replace(token, parked=replace(token.parked, data=data))

        return replace(at, token=await shown(at.token), branches=tuple([await shown(one) for one in at.branches]))

    async def _seen(self, at: Standing, token: Token, permit: Permit) -> Mapping[str, Json]:
        """Returns the holders of the permits, and how many come before; or when the turn comes."""
        terms = self._terms(at, permit)
        if terms is None:
            return {}
        claim, share, pace = claim_of(at.run_id, token.id, permit), terms.share, terms.pace
        kept_ms = None if pace is None else await self._paces.kept(pace, claim)
        if kept_ms is not None:
            return {"turn_ms": kept_ms}
        board = None if share is None else await self._lines.read(share, PENDING_SHOWN)
        if board is None or share is None or claim in board.under_way or claim not in board.left.values():
            return {}
        runs = dict.fromkeys(run_of(one) for one in board.under_way)
        before = list(board.left.values()).index(claim)
        return {"most": share.most, "before": before, "under_way": list(runs)[:LOOKED_AT]}


def share_of(name: str, limit: Limit) -> Share | None:
    """Returns a step's share of a limit; None without one. No workflow's own limit can have such a name."""
    return None if limit.concurrency is None else Share(f"@{name}", limit.concurrency, "queue")


def pace_of(name: str, limit: Limit) -> Pace | None:
    """Returns a step's pace under a limit; None if it has no rate."""
    rate = limit.rate
    return None if rate is None else Pace(f"@{name}", rate.per_ms / rate.limit, rate.burst)


def _claim(at: Standing, permit: Permit) -> str:
    return claim_of(at.run_id, at.token.id, permit)


def _place(at: Standing, permit: Permit) -> str:
    """Returns the place in line: by the time of the request, an hour earlier for each priority of the run.

    A run's own permit is by the run's age, so that it comes before runs that have not begun.
    """
    since_ms = max(at.header.created_ms, at.header.start_at_ms) if permit.limit == OWN else permit.since_ms
    return place_of(order_of(since_ms, at.header.priority, _claim(at, permit)))
