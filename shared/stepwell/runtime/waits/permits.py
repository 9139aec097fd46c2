"""Permits of runs: what a run needs before it begins if its workflow has limits. `lines` has their holders."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from stepwell.engine.actions import AskPermit, Pace, Share
from stepwell.engine.copying import changed
from stepwell.engine.limits import permits, shares, throttles
from stepwell.engine.limits.permits import Held, place_in_order
from stepwell.engine.records import ROOT
from stepwell.errors import ExpressionError
from stepwell.limits import CHECK_RUNS_MS, PENDING_SHOWN
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.messages import EndRun, to_json
from stepwell.runtime.log.standing import Standing, run_info
from stepwell.runtime.ports import Lane, Ports
from stepwell.runtime.ports.headers import Header
from stepwell.runtime.waits.claimants import Claimants, claim_of, run_of
from stepwell.runtime.waits.kinship import Kinship
from stepwell.runtime.waits.lines import LOOKED_AT, Lines, Turn, place_of
from stepwell.runtime.waits.paces import Paces
from stepwell.values import dataclass

_PART_OF_WAIT = 4  # the sweeper looks again when a wait has lasted a quarter longer


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer, and when to ask again, if that is known."""

    turn: Turn
    at_ms: int | None = None
    reason: str = ""


class Permits:
    """Grants and returns permits, and takes turns. Every operation may be repeated."""

    def __init__(self, ports: Ports, logbook: Logbook) -> None:
        self._ports, self._logbook = ports, logbook
        self._lines, self._paces = Lines(ports.notes, Claimants(ports, logbook)), Paces(ports.notes)
        self._kinship = Kinship(ports, logbook)

    async def ask(self, at: Standing, asked: AskPermit) -> Reply:
        """Returns whether the run may begin: now, at a later time, not yet, or never."""
        if asked.pace is not None:
            at_ms = await self._turn(at, asked.pace, may_miss=asked.share is None)
            if at_ms > self._ports.clock.now_ms():
                return Reply(Turn.LATER, at_ms)
        if asked.share is None or await self._kinship.is_under_holder(at.header, asked.share):
            return Reply(Turn.GRANTED)
        return await self._share(at, asked.share, may_refuse=asked.may_refuse)

    async def _turn(self, at: Standing, pace: Pace, *, may_miss: bool) -> int:
        """Returns when the run may begin. Forgets the turn if the run gave its permit back meanwhile.

        A run that waits for others as well comes late because of them, so it cannot miss its turn.
        """
        now_ms = self._ports.clock.now_ms()
        at_ms = await self._paces.turn(pace, at.run_id, now_ms, may_miss=may_miss)
        if at_ms > now_ms and await self._has_ended(at):
            await self._paces.give_back(pace, at.run_id, now_ms, is_used=False)
        return at_ms

    async def _share(self, at: Standing, share: Share, *, may_refuse: bool) -> Reply:
        own = _place_of(at.header)
        turn = await self._lines.enter(
            share,
            at.run_id,
            own,
            may_wait=share.on_limit != "cancel_newest" or not may_refuse,
            looks_at_all=share.on_limit != "queue",
            then=partial(self._cancel_oldest, at.header, share, may_refuse)
            if share.on_limit == "cancel_oldest"
            else None,
        )
        if turn is Turn.REFUSED:
            under_way = "run is" if share.most == 1 else "runs are"
            return Reply(turn, reason=f"{share.most} {under_way} under way under the limit of {share.name}")
        if await self._has_ended(at):
            if turn is Turn.WAITS:
                await self._lines.drop_place(share, own)
            else:
                await self._lines.leave(share, at.run_id)
        return Reply(turn)

    async def _has_ended(self, at: Standing) -> bool:
        """Tells whether the run gave its permit back while a late worker took one: it has ended, or waits."""
        if not await self._ports.log.read_log(at.run_id, ROOT, at.token.slot, 1):
            return False
        now = await self._logbook.load(at.run_id)
        return now is None or not shares.holds_first(now.token)

    async def _cancel_oldest(self, own: Header, share: Share, may_refuse: bool) -> None:
        """Cancels as many of the oldest runs, under way or waiting, as are over the limit.

        That may be the run itself, since messages come in any order; but not if it may no longer be refused.
        """
        board = await self._lines.read(share)
        others = [one for one in (*board.under_way, *board.left.values()) if one != own.run_id]
        ages = [(await self._since_ms(one), run_of(one)) for one in others]
        by_age = sorted([*ages, (_since_ms(own), own.run_id)]) if may_refuse else [*sorted(ages), (0, own.run_id)]
        for _, oldest in by_age[: -share.most]:
            await self._ports.queue.send(Lane.RESUME, to_json(EndRun(oldest, by_age[-1][1], ROOT, -1)))

    async def _since_ms(self, who: str) -> int:
        header = await self._ports.runs.get_run(run_of(who))
        return _since_ms(header) if header is not None else 0

    async def give_back(self, at: Standing) -> None:
        """Returns an ended run's permit, so that the next one begins, and its turn under a rate limit is another's."""
        try:
            share, pace = permits.share_of(at.graph, at.run), permits.pace_of(at.graph, at.run)
        except ExpressionError:
            return  # it never had a permit: its key failed
        if pace is not None:
            now_ms, is_used = self._ports.clock.now_ms(), at.run.started_ms > 0
            await self._paces.give_back(pace, at.run_id, now_ms, is_used=is_used)
        held = at.token.share
        if share is None or (held is not None and held.state == throttles.FREED):  # its last record gave it back
            return
        who = at.run_id if held is None else claim_of(at.run_id, at.token.id, held)
        await self._lines.leave(share, who, "" if at.run.started_ms else _place_of(at.header))

    async def step_back(self, at: Standing) -> Standing:
        """Gives back what a run has of its workflow's limits if it is paused before it has begun, so that others begin.

        It asks anew when it goes on. The header is read again, since another worker may have begun the run meanwhile.
        """
        if not permits.steps_back(at.graph, at.run, at.token):
            return at
        at = changed(await self._logbook.refreshed(at), permitted=False)
        if at.run.is_paused and permits.steps_back(at.graph, at.run, at.token) and await self._is_there(at):
            await self.give_back(at)
        return at

    async def stands_in_line(self, at: Standing) -> bool:
        """Tells whether a redriven run waits for its permit, so that nobody is at its first step."""
        share = self._share_of_redriven(at)
        if share is None or (await self._lines.read(share)).shard_of(at.run_id) is not None:
            return False
        return await self._lines.waits_at(share, _place_of(at.header))

    async def leave_line(self, at: Standing) -> None:
        """Drops a redriven run's place in line. It asks anew when it goes on."""
        share = self._share_of_redriven(at)
        if share is not None:
            await self._lines.drop_place(share, _place_of(at.header))

    def _share_of_redriven(self, at: Standing) -> Share | None:
        if not permits.may_stand_in_line(at.graph, at.token):
            return None
        try:
            return permits.share_of(at.graph, at.run)
        except ExpressionError:
            return None  # it is about to fail for its key

    async def _is_there(self, at: Standing) -> bool:
        """Tells whether the run has a permit or a place in line, or may have a turn."""
        try:
            share = permits.share_of(at.graph, at.run)
        except ExpressionError:
            return False
        if share is None or (await self._lines.read(share)).shard_of(at.run_id) is not None:
            return True
        return await self._lines.waits_at(share, _place_of(at.header))

    async def rate_of(self, header: Header) -> str:
        """Returns the name of the rate limit under which the run takes its turn; "" if there is none."""
        if (await self._logbook.graph_of(header)).rate_limit is None:
            return ""
        at = await self._logbook.load(header.run_id)
        try:
            pace = None if at is None else permits.pace_of(at.graph, at.run)
        except ExpressionError:
            return ""  # it never had a turn: its key failed
        return "" if pace is None else pace.name

    async def drop_turn(self, rate: str, run_id: str) -> None:
        """Forgets a turn that a late worker took for a run that is deleted."""
        await self._paces.drop(rate, run_id)

    async def forget(self, at: Standing) -> None:
        """Deletes the note of the rate limit for the run's key, once it delays nobody any more."""
        limit = at.graph.rate_limit
        if limit is None or limit.key is None:
            return
        try:
            pace = permits.pace_of(at.graph, at.run)
        except ExpressionError:
            return
        if pace is not None:
            await self._paces.forget(pace, self._ports.clock.now_ms())

    # -- for observers

    async def due_ms(self, at: Standing) -> int | None:
        """Returns when to look again at a run that waits as it should; None if it could begin, or nobody wakes it."""
        now_ms = self._ports.clock.now_ms()
        share, pace = permits.share_of(at.graph, at.run), permits.pace_of(at.graph, at.run)
        if pace is not None:
            kept_ms = await self._paces.kept(pace, at.run_id)
            if kept_ms is not None and kept_ms > now_ms:
                return kept_ms
        if share is None or not await self._lines.waits_at(share, _place_of(at.header)):
            return None
        board = await self._lines.read(share)
        is_full = board.shard_of(at.run_id) is None and board.room(share) is None
        if not is_full or await self._lines.ended(board.under_way):
            return None  # the run removes ended holders: a sweep changes nothing
        return now_ms + max((now_ms - at.header.created_ms) // _PART_OF_WAIT, CHECK_RUNS_MS)

    async def with_reason(self, at: Standing) -> Standing:
        """Returns the run with what it waits for before it begins."""
        if not permits.is_limited(at.graph) or not permits.begins(at.run, at.token):
            return at
        try:
            share, pace = permits.share_of(at.graph, at.run), permits.pace_of(at.graph, at.run)
        except ExpressionError:
            return at  # it is about to fail for its key
        if pace is not None:
            kept_ms = await self._paces.kept(pace, at.run_id)
            if kept_ms is not None and kept_ms > self._ports.clock.now_ms():
                return replace(at, held=Held(pace.name, at_ms=kept_ms))
        if share is None:
            return at
        board, own = await self._lines.read(share, PENDING_SHOWN), _place_of(at.header)
        if own not in board.left:
            return at
        before = sorted(board.left).index(own)
        return replace(at, held=Held(share.name, share.most, before, board.under_way[:LOOKED_AT]))


def _since_ms(header: Header) -> int:
    """Returns the time since when the run may begin."""
    return max(header.created_ms, header.start_at_ms)


def _place_of(header: Header) -> str:
    return place_of(place_in_order(run_info(header), header.priority))
