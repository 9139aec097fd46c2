"""Permits that tokens wait for: of steps, in the lines and at the pace that `limits.yaml` says.

    take       WAITING is in the log ── in line ── a permit ── its turn ── RESUMED
    give back  the log has moved on ── out of the line ── whoever is first then is woken

A run that has given back its permit while it waited takes one again in the same way, in the line of its workflow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from stepwell.definition.graph import Json, Limit
from stepwell.engine import permits, throttles
from stepwell.engine.actions import Pace, Share
from stepwell.engine.effect_kinds import GiveBackPermits, TakePermit
from stepwell.engine.inputs import PermitAnswered
from stepwell.engine.permits import order_of
from stepwell.engine.records import Kind, Resumption
from stepwell.engine.shares import OWN, is_of_run
from stepwell.engine.token import Permit, Token
from stepwell.engine.waits.aside import LIMIT
from stepwell.limits import PENDING_SHOWN
from stepwell.runtime.log.alarms import Alarms
from stepwell.runtime.log.door import Found
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.ports import Lane, Ports
from stepwell.runtime.waits.claimants import Claimants, claim_of, run_of
from stepwell.runtime.waits.kinship import Kinship
from stepwell.runtime.waits.lines import LOOKED_AT, Lines, Turn, place_of
from stepwell.runtime.waits.paces import Paces

LATE_PERMITS = 10  # of a token, the newest: looked at when a message comes again


@dataclass(frozen=True, slots=True)
class Terms:
    """What a permit needs: a place among so many, a turn, or both."""

    share: Share | None
    pace: Pace | None


class Throttling:
    """Permits of named limits, and those that runs take again. Everything here may be done twice."""

    def __init__(self, ports: Ports, logbook: Logbook) -> None:
        self._ports, self._logbook, self._alarms = ports, logbook, Alarms(ports)
        self._claims, self._kinship = Claimants(ports, logbook), Kinship(ports, logbook)
        self._lines, self._paces = Lines(ports.notes, self._claims), Paces(ports.notes)

    # -- the effects

    async def take(self, at: Standing, effect: TakePermit) -> list[Found]:
        """What ends the wait, where the permit is the token's, or there is no such limit."""
        permit = effect.permit
        terms = self._terms(at, permit)
        if terms is None:
            return [Found(at, PermitAnswered(permit, Resumption(throttles.REFUSED)))]
        may_go = await self._may_go(at, permit, terms)
        if await self._is_late(at, permit):  # who gave it back may have looked before we asked for it again
            await self.give_back(at, permit)
            return []
        brought = throttles.TURN if terms.share is None else None
        return [Found(at, PermitAnswered(permit, Resumption(throttles.PERMITTED, payload=brought)))] if may_go else []

    def _terms(self, at: Standing, permit: Permit) -> Terms | None:
        """The limit of the permit; None where there is none of this name any more."""
        if permit.limit == OWN:
            return Terms(permits.share_of(at.graph, at.run), None)
        limit = self._logbook.limits.get(permit.limit)
        return None if limit is None else Terms(share_of(permit.name, limit), pace_of(permit.name, limit))

    async def _is_late(self, at: Standing, permit: Permit) -> bool:
        """Whether the token has moved on since, and no longer wants the permit."""
        if not await self._ports.log.read_log(at.run_id, at.token.id, at.token.slot, 1):
            return False
        return not await self._claims.lives(_claim(at, permit))

    async def _may_go(self, at: Standing, permit: Permit, terms: Terms) -> bool:
        """Whether it has its place among the holders, and its turn has come. For its turn it is woken."""
        claim, share, pace = _claim(at, permit), terms.share, terms.pace
        if share is not None and permit.limit == OWN and await self._kinship.is_under_holder(at.header, share):
            return True
        if share is not None and await self._lines.enter(share, claim, _place(at, permit)) is not Turn.GRANTED:
            return False
        now_ms = self._ports.clock.now_ms()
        at_ms = now_ms if pace is None else await self._paces.turn(pace, claim, now_ms)
        if at_ms > now_ms:
            await self._alarms.arm(Lane.WORK, at.wake(), at_ms, at.run_id)
        return at_ms <= now_ms

    async def give_back_all(self, at: Standing, effect: GiveBackPermits) -> None:
        for permit in effect.permits:
            await self.give_back(at, permit)

    async def give_back(self, at: Standing, permit: Permit) -> None:
        """The step's attempt has ended, or its token, or the run waits: the next one goes on."""
        terms = self._terms(at, permit)
        if terms is None or permit.state == throttles.REFUSED:
            return
        claim = _claim(at, permit)
        if terms.pace is not None:
            await self._paces.drop(terms.pace, claim)
        if terms.share is not None:
            await self._lines.leave(terms.share, claim, "" if permit.state else _place(at, permit))

    async def give_back_late(self, at: Standing, slot: int) -> None:
        """For a message that comes again, which was sent for that slot: its worker may have died late.

        worker   asks for a permit ──────────────────────────────────────────────── has it ── dies
        another                     has it ── the step's record ── gives it back ── the next step's record
        """
        if not self._logbook.limits:
            return
        records = await self._logbook.lanes.token(at.run_id, at.token.id, max(slot - 1, -1), None)
        asked = [
            throttles.asked(record, record.parked)
            for record in records
            if record.kind is Kind.WAITING and record.parked is not None and record.parked.kind == LIMIT
            if not is_of_run(record.parked)  # which is given back with every record until the run asks again
        ]
        for permit in asked[-LATE_PERMITS:]:
            if permit.slot <= at.token.slot and not throttles.wants(at.token, permit.slot):
                await self.give_back(at, permit)

    # -- for those who look

    async def is_stuck(self, at: Standing) -> bool:
        """Whether a token that waits for a permit could go on, or is in no line, and nobody has told it."""
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
        """Its tokens that wait for a permit, with who has them: for who shows them. Of many, the first few."""
        left = [most]

        async def told(token: Token) -> Token:
            permit = throttles.awaited(token)
            if permit is None or token.parked is None or left[0] < 1:
                return token
            left[0] -= 1
            data = {**token.parked.data, **await self._seen(at, token, permit)}
            return replace(token, parked=replace(token.parked, data=data))

        return replace(at, token=await told(at.token), branches=tuple([await told(one) for one in at.branches]))

    async def _seen(self, at: Standing, token: Token, permit: Permit) -> Mapping[str, Json]:
        """Who has the permits, and how many come before; or when its turn comes."""
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
    """What a step needs of a limit's permits. No workflow's own limit has such a name."""
    return None if limit.concurrency is None else Share(f"@{name}", limit.concurrency, "queue")


def pace_of(name: str, limit: Limit) -> Pace | None:
    """What a step needs of a limit's rate."""
    rate = limit.rate
    return None if rate is None else Pace(f"@{name}", rate.per_ms / rate.limit, rate.burst)


def _claim(at: Standing, permit: Permit) -> str:
    return claim_of(at.run_id, at.token.id, permit)


def _place(at: Standing, permit: Permit) -> str:
    """Its place in line: by the time when it asked, an hour earlier for each priority of its run.

    A run's own is by the run's age, so that it comes before those that have not begun.
    """
    since_ms = max(at.header.created_ms, at.header.start_at_ms) if permit.limit == OWN else permit.since_ms
    return place_of(order_of(since_ms, at.header.priority, _claim(at, permit)))
