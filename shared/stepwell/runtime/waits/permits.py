"""Permits in the world: who is under way under a limit, and who waits, are the notes of one partition.

    NOTES#permits:<workflow>/<key>   NOTE#h00, NOTE#h01, …      who is under way, twenty runs in each
                                     NOTE#w<order>#<run>        a run that waits, in the order of its turn

    ask      a note has room ── nobody before me? my id goes in ── begin
                        └── no: my place is written ── read again ── still none: wait
    return   my id goes out, the first who waits goes in ── it is woken, and then its place is deleted

Whoever waits writes before it reads the holders again, and whoever returns reads those who wait after it has written:
one of them sees the other. A holder whose place is still there was granted its permit by somebody who may have died
before he woke it; whoever reads that, wakes it. A holder that has ended is taken out by whoever finds it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from stepwell.engine import permits
from stepwell.engine.actions import AskPermit, Pace, Share
from stepwell.engine.permits import Held, place_in_order, reserved
from stepwell.engine.records import ROOT
from stepwell.errors import ExpressionError, PortError
from stepwell.limits import CHECK_RUNS_MS, LOCK_TRIES, PENDING_SHOWN, PERMITS_TOGETHER
from stepwell.runtime.log.logbook import Logbook, Standing, run_info
from stepwell.runtime.log.messages import EndRun, to_json
from stepwell.runtime.ports import Header, Lane, Ports
from stepwell.runtime.starts.starting import Caller

LOOKED_AT = 10  # of those who wait, the first
_PART_OF_WAIT = 4  # the sweeper looks again when a wait has lasted a quarter longer
_SHARD, _WAITS, _DUE, _TURN = "h", "w", "due", "t#"


class Turn(StrEnum):
    """The answer to a run that is about to begin."""

    GRANTED = "granted"
    WAITS = "waits"
    LATER = "later"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer, and when to ask again, where that is known."""

    turn: Turn
    at_ms: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Board:
    """A limit as it was read: the holders by note, the notes' bodies, and the first of those who wait, by note."""

    holders: dict[str, tuple[str, ...]] = field(default_factory=dict)
    bodies: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, notes: dict[str, str]) -> Board:
        bodies = {name: body for name, body in notes.items() if name.startswith(_SHARD)}
        waiting = {name: name.partition("#")[2] for name in notes if name.startswith(_WAITS)}
        return cls({name: tuple(json.loads(body)) for name, body in bodies.items()}, bodies, waiting)

    @property
    def under_way(self) -> tuple[str, ...]:
        return tuple(run_id for name in sorted(self.holders) for run_id in self.holders[name])

    @property
    def left(self) -> dict[str, str]:
        """Who waits and has no permit."""
        under_way = set(self.under_way)
        return {name: run_id for name, run_id in self.waiting.items() if run_id not in under_way}

    def shard_of(self, run_id: str) -> str | None:
        return next((name for name, ids in self.holders.items() if run_id in ids), None)

    def room(self, share: Share) -> str | None:
        """The first note with room for another holder."""
        for name in shards_of(share):
            if len(self.holders.get(name, ())) < capacity_of(share, name):
                return name
        return None


def shards_of(share: Share) -> list[str]:
    return [f"{_SHARD}{number:02d}" for number in range(-(-share.most // PERMITS_TOGETHER))]


def capacity_of(share: Share, shard: str) -> int:
    """How many of the permits are in this note; none where the limit was lowered below it."""
    return max(0, min(PERMITS_TOGETHER, share.most - PERMITS_TOGETHER * int(shard.removeprefix(_SHARD))))


class Permits:
    """Grants, returns and turns. Everything here may be done twice."""

    def __init__(self, ports: Ports, logbook: Logbook) -> None:
        self._ports, self._logbook = ports, logbook

    async def ask(self, at: Standing, asked: AskPermit) -> Reply:
        """Whether the run may begin now, later, or not yet."""
        if asked.pace is not None:
            at_ms = await self._turn(at, asked.pace)
            if at_ms > self._ports.clock.now_ms():
                return Reply(Turn.LATER, at_ms)
        if asked.share is None or await self._is_under_holder(at.header, asked.share):
            return Reply(Turn.GRANTED)
        return await self._share(at, asked.share, may_refuse=asked.may_refuse)

    # -- how fast runs begin

    async def _turn(self, at: Standing, pace: Pace) -> int:
        """When the run may begin: it keeps its turn until it ends, so that it takes no other."""
        notes, kind, now_ms = self._ports.notes, _pace_kind(pace.name), self._ports.clock.now_ms()
        kept = await notes.get_note(kind, _TURN + at.run_id)
        if kept is not None:
            return int(kept)
        for _ in range(LOCK_TRIES):
            body = await notes.get_note(kind, _DUE)
            turn = reserved(pace, body, at.run_id, now_ms)
            if await notes.put_note(kind, _DUE, turn.body, body):
                break
        else:
            raise _busy(pace.name)
        if turn.at_ms > now_ms:
            await notes.put_note(kind, _TURN + at.run_id, str(turn.at_ms), None)
            if await self._has_ended(at):
                await notes.drop_note(kind, _TURN + at.run_id)
        return turn.at_ms

    # -- how many are under way

    async def _share(self, at: Standing, share: Share, *, may_refuse: bool) -> Reply:
        own, is_written = _place_of(at.header), False
        for _ in range(LOCK_TRIES):
            board = await self._seen_to(share, but=at.run_id)
            if board.shard_of(at.run_id) is not None:
                return await self._granted(at, share, board, own)
            room, first = board.room(share), min(board.left, default=own)
            if room is not None and first < own:
                await self._grant(share, room, board, board.left[first])
            elif room is not None:
                if await self._grant(share, room, board, at.run_id):
                    return await self._granted(at, share, board, own)
            elif is_written:
                return await self._waits(at, share, own)
            elif not await self._take_out_ended(share, board, of_all=share.on_limit != "queue" or own in board.waiting):
                if share.on_limit == "cancel_newest" and may_refuse:
                    return Reply(Turn.REFUSED, reason=_over(share))
                await self._ports.notes.put_note(_kind(share.name), own, "", None)
                is_written = True
                if share.on_limit == "cancel_oldest":
                    await self._cancel_oldest(at.run_id, share)
        raise _busy(share.name)

    async def _granted(self, at: Standing, share: Share, board: Board, own: str) -> Reply:
        if own in board.waiting:
            await self._ports.notes.drop_note(_kind(share.name), own)
        if await self._has_ended(at):
            await self._leave(share, at.run_id)
        return Reply(Turn.GRANTED)

    async def _waits(self, at: Standing, share: Share, own: str) -> Reply:
        if await self._has_ended(at):
            await self._ports.notes.drop_note(_kind(share.name), own)
        return Reply(Turn.WAITS)

    async def _has_ended(self, at: Standing) -> bool:
        """Whether the run ended while a late worker took something for it, which its end cannot have returned."""
        if not await self._ports.log.read_log(at.run_id, ROOT, at.token.slot, 1):
            return False
        now = await self._logbook.load(at.run_id)
        return now is None or now.token.ended

    async def _cancel_oldest(self, run_id: str, share: Share) -> None:
        """Of those under way and those that wait, as many are cancelled as are over the limit."""
        board = await self._read(share)
        others = [one for one in (*board.under_way, *board.left.values()) if one != run_id]
        for oldest in others[: max(len(others) + 1 - share.most, 0)]:
            await self._ports.queue.send(Lane.RESUME, to_json(EndRun(oldest, run_id, ROOT, -1)))

    async def give_back(self, at: Standing) -> None:
        """The run has ended: the next one begins. What it had of a rate limit is deleted."""
        try:
            share, pace = permits.share_of(at.graph, at.run), permits.pace_of(at.graph, at.run)
        except ExpressionError:
            return  # it never had a permit: it failed for its key
        notes = self._ports.notes
        if pace is not None and await notes.get_note(_pace_kind(pace.name), _TURN + at.run_id) is not None:
            await notes.drop_note(_pace_kind(pace.name), _TURN + at.run_id)
        if share is None:
            return
        if not at.run.started_ms:
            await notes.drop_note(_kind(share.name), _place_of(at.header))
        await self._leave(share, at.run_id)

    async def forget(self, at: Standing) -> None:
        """Deletes the note of a rate limit that is the run's by its key, once it bounds nobody any more."""
        limit = at.graph.rate_limit
        if limit is None or limit.key is None:
            return
        try:
            pace = permits.pace_of(at.graph, at.run)
        except ExpressionError:
            return
        body = None if pace is None else await self._ports.notes.get_note(_pace_kind(pace.name), _DUE)
        if pace is not None and body is not None and permits.is_spent(body, self._ports.clock.now_ms()):
            await self._ports.notes.drop_note(_pace_kind(pace.name), _DUE, body)

    async def _leave(self, share: Share, run_id: str) -> None:
        """Takes the run out, and lets begin who waits as far as there is room."""
        for _ in range(LOCK_TRIES):
            board = await self._seen_to(share, but=run_id)
            left, shard = [one for one in board.left.values() if one != run_id], board.shard_of(run_id)
            if shard is not None:
                await self._replace(share, board, shard, run_id, left)
            elif left and (room := board.room(share)) is not None:
                await self._grant(share, room, board, left[0])
            else:
                return
        raise _busy(share.name)

    async def _grant(self, share: Share, shard: str, board: Board, run_id: str) -> bool:
        return await self._write(share.name, shard, board, (*board.holders.get(shard, ()), run_id))

    async def _replace(self, share: Share, board: Board, shard: str, run_id: str, left: Sequence[str]) -> None:
        """Takes the run out, and the first who waits in where the note has room."""
        kept = tuple(one for one in board.holders[shard] if one != run_id)
        first = left[:1] if len(kept) < capacity_of(share, shard) else ()
        await self._write(share.name, shard, board, (*kept, *first))

    async def _take_out_ended(self, share: Share, board: Board, *, of_all: bool) -> bool:
        """Whether a holder had ended, and is taken out: of all of them, or the oldest."""
        ended = await self._ended(board.under_way if of_all else board.under_way[:1])
        for shard, ids in board.holders.items():
            if ended & set(ids):
                await self._write(share.name, shard, board, [one for one in ids if one not in ended])
        return bool(ended)

    async def _ended(self, runs: Sequence[str]) -> set[str]:
        return {run_id for run_id in runs if not await self._lives(run_id)}

    async def _lives(self, run_id: str) -> bool:
        header = await self._ports.runs.get_run(run_id)
        return header is not None and not header.status.terminal

    async def _seen_to(self, share: Share, but: str) -> Board:
        """The limit as it is, once those are woken that have got a permit and may not know."""
        board = await self._read(share)
        told = [(name, run_id) for name, run_id in board.waiting.items() if run_id != but and board.shard_of(run_id)]
        for name, run_id in told:
            granted = await self._logbook.load(run_id)
            if granted is None or granted.token.ended:  # it ended before it was granted, so it returns nothing
                await self._replace(share, board, str(board.shard_of(run_id)), run_id, ())
            else:
                await self._ports.queue.send(Lane.WORK, to_json(granted.wake()))
            await self._ports.notes.drop_note(_kind(share.name), name)
        return await self._read(share) if told else board

    async def _read(self, share: Share, waiting: int = LOOKED_AT) -> Board:
        most = len(shards_of(share)) + waiting
        return Board.of(dict(await self._ports.notes.notes(_kind(share.name), most)))

    async def _write(self, name: str, shard: str, board: Board, ids: Sequence[str]) -> bool:
        """False where another changed the note meanwhile. A note without holders is deleted."""
        notes, before = self._ports.notes, board.bodies.get(shard)
        if not ids:
            return before is None or await notes.drop_note(_kind(name), shard, before)
        body = json.dumps(list(ids), separators=(",", ":"))
        return await notes.put_note(_kind(name), shard, body, before, replaces=before is not None)

    async def _is_under_holder(self, header: Header, share: Share) -> bool:
        """Whether a run above this one is under the same limit: it waits for this run, so it would wait for ever."""
        caller = Caller.of(header)
        while caller is not None and caller.index >= 0:
            above = await self._ports.runs.get_run(caller.run_id)
            if above is None:
                return False
            if above.workflow == header.workflow:
                graph = await self._logbook.graph_of(above)
                other = permits.share_of(graph, run_info(above))
                if other is not None and other.name == share.name:
                    return True
            caller = Caller.of(above)
        return False

    # -- for those who look

    async def due_ms(self, at: Standing) -> int | None:
        """When to look again at a run that waits as it should; None where it could begin, or nobody would wake it."""
        now_ms = self._ports.clock.now_ms()
        share, pace = permits.share_of(at.graph, at.run), permits.pace_of(at.graph, at.run)
        if pace is not None:
            kept = await self._ports.notes.get_note(_pace_kind(pace.name), _TURN + at.run_id)
            if kept is not None and int(kept) > now_ms:
                return int(kept)
        if share is None or await self._ports.notes.get_note(_kind(share.name), _place_of(at.header)) is None:
            return None
        board = await self._read(share)
        is_full = board.shard_of(at.run_id) is None and board.room(share) is None
        if not is_full or await self._ended(board.under_way):
            return None  # it takes out who has ended: a sweep changes nothing
        return now_ms + max((now_ms - at.header.created_ms) // _PART_OF_WAIT, CHECK_RUNS_MS)

    async def with_reason(self, at: Standing) -> Standing:
        """The run, with what it waits for before it begins."""
        if not permits.is_limited(at.graph) or not permits.begins(at.run, at.token):
            return at
        try:
            share, pace = permits.share_of(at.graph, at.run), permits.pace_of(at.graph, at.run)
        except ExpressionError:
            return at  # it is about to fail for it
        if pace is not None:
            kept = await self._ports.notes.get_note(_pace_kind(pace.name), _TURN + at.run_id)
            if kept is not None and int(kept) > self._ports.clock.now_ms():
                return replace(at, held=Held(pace.name, at_ms=int(kept)))
        if share is None:
            return at
        board, own = await self._read(share, PENDING_SHOWN), _place_of(at.header)
        if own not in board.left:
            return at
        before = sorted(board.left).index(own)
        return replace(at, held=Held(share.name, share.most, before, board.under_way[:LOOKED_AT]))


def _over(share: Share) -> str:
    return f"{share.most} runs are under way under the limit of {share.name}"


def _place_of(header: Header) -> str:
    return _WAITS + place_in_order(run_info(header), header.priority)


def _kind(name: str) -> str:
    return f"permits:{name}"


def _pace_kind(name: str) -> str:
    return f"pace:{name}"


def _busy(name: str) -> PortError:
    return PortError(f"the limit of {name!r} was changed by others {LOCK_TRIES} times")
