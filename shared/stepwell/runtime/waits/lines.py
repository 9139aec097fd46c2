"""Lines: who holds the permits of a limit, and who waits for one, are the notes of one partition.

    NOTES#permits:<limit>   NOTE#h00, NOTE#h01, …      who holds a permit, twenty in each
                            NOTE#w<order>#<who>        who waits, in the order of their turns

    enter    a note has room ── nobody before me? my id goes in ── granted
                        └── no: my place is written ── read again ── still none: wait
    leave    my id goes out, the first who waits goes in ── it is told, and then its place is deleted

Whoever waits writes before it reads the holders again, and whoever leaves reads those who wait after it has written:
one of them sees the other. A holder whose place is still there was granted its permit by somebody who may have died
before he told it; whoever reads that, tells it. Whoever lets another in reads again: where its place is gone, it has
begun, or had left the line before. A holder that has ended is taken out by whoever finds it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from stepwell.engine.actions import Share
from stepwell.errors import PortError
from stepwell.limits import LOCK_TRIES, PERMITS_TOGETHER
from stepwell.runtime.ports import Notes

LOOKED_AT = 10  # of those who wait, the first
_SHARD, _WAITS = "h", "w"


class Turn(StrEnum):
    """The answer to one who asks for a permit."""

    GRANTED = "granted"
    WAITS = "waits"
    LATER = "later"
    REFUSED = "refused"


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
        return tuple(one for name in sorted(self.holders) for one in self.holders[name])

    @property
    def left(self) -> dict[str, str]:
        """Who waits and has no permit."""
        under_way = set(self.under_way)
        return {name: one for name, one in self.waiting.items() if one not in under_way}

    def shard_of(self, who: str) -> str | None:
        return next((name for name, ids in self.holders.items() if who in ids), None)

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


def place_of(order: str) -> str:
    """The note of one who waits; `order` is text that sorts, `#`, and who it is."""
    return _WAITS + order


class Members(Protocol):
    """Those who stand in lines: whether they still want a permit, and how they are told."""

    async def lives(self, who: str) -> bool:
        """Whether it may still hold a permit. An end may be told a little late."""

    async def has_ended(self, who: str) -> bool:
        """Whether it holds none any more, by its log, which tells that at once."""

    async def tell(self, who: str) -> bool:
        """Wakes one that has got its permit. False where it has ended, and gives nothing back."""


class Lines:
    """The lines of all limits. Everything here may be done twice."""

    def __init__(self, notes: Notes, members: Members) -> None:
        self._notes, self._members = notes, members

    async def enter(
        self,
        share: Share,
        who: str,
        own: str,
        *,
        may_wait: bool = True,
        looks_at_all: bool = False,
        then: Callable[[], Awaitable[None]] | None = None,
    ) -> Turn:
        """Grants a permit, or has `who` wait at the place `own`. It is told when it is its turn.

        `may_wait`: else it is refused. `looks_at_all`: whether all holders are looked at, not the oldest alone.
        `then`: called once it waits.
        """
        is_written, granted = False, ""
        for _ in range(LOCK_TRIES):
            board = await self.seen_to(share, but=who, granted=granted)
            if board.shard_of(who) is not None:
                return await self._granted(share, board, own)
            room, first = board.room(share), min(board.left, default=own)
            if room is not None and first < own:
                granted = board.left[first]
                await self._grant(share, room, board, granted)
            elif room is not None:
                if await self._grant(share, room, board, who):
                    return await self._granted(share, board, own)
            elif is_written:
                return Turn.WAITS
            elif not await self._take_out_ended(share, board, of_all=looks_at_all or own in board.waiting):
                if not may_wait:
                    return Turn.REFUSED
                await self._notes.put_note(_kind(share.name), own, "", None)
                is_written = True
                if then is not None:
                    await then()
        raise _busy(share.name)

    async def _granted(self, share: Share, board: Board, own: str) -> Turn:
        if own in board.waiting:
            await self._notes.drop_note(_kind(share.name), own)
        return Turn.GRANTED

    async def leave(self, share: Share, who: str, own: str = "") -> None:
        """Takes it out, its place `own` too, and lets those go on who wait as far as there is room.

        Where it is out already, it may come again, having died as it let one in that has left the line since.
        """
        if own:
            await self._notes.drop_note(_kind(share.name), own)
        granted, comes_again = "", not own
        for _ in range(LOCK_TRIES):
            board = await self.seen_to(share, but=who, granted=granted)
            left, shard = [one for one in board.left.values() if one != who], board.shard_of(who)
            granted = left[0] if left else ""
            if shard is not None:
                comes_again = False
                await self._replace(share, board, shard, who, left)
            elif left and (room := board.room(share)) is not None:
                await self._grant(share, room, board, granted)
            elif left and comes_again and (gone := await self._newest_ended(board)):
                await self._without(share, board, gone)
            else:
                return
        raise _busy(share.name)

    async def _newest_ended(self, board: Board) -> str:
        """One that was let in last of all in its note, and has ended."""
        for ids in board.holders.values():
            if ids and await self._members.has_ended(ids[-1]):
                return ids[-1]
        return ""

    async def _grant(self, share: Share, shard: str, board: Board, who: str) -> bool:
        return await self._write(share.name, shard, board, (*board.holders.get(shard, ()), who))

    async def _replace(self, share: Share, board: Board, shard: str, who: str, left: Sequence[str]) -> None:
        """Takes it out, and the first who waits in where the note has room."""
        kept = tuple(one for one in board.holders[shard] if one != who)
        first = left[:1] if len(kept) < capacity_of(share, shard) else ()
        await self._write(share.name, shard, board, (*kept, *first))

    async def _take_out_ended(self, share: Share, board: Board, *, of_all: bool) -> bool:
        """Whether a holder had ended, and is taken out: of all of them, or the oldest."""
        ended = await self.ended(board.under_way if of_all else board.under_way[:1])
        for shard, ids in board.holders.items():
            if ended & set(ids):
                await self._write(share.name, shard, board, [one for one in ids if one not in ended])
        return bool(ended)

    async def ended(self, those: Sequence[str]) -> set[str]:
        return {one for one in those if not await self._members.lives(one)}

    async def seen_to(self, share: Share, but: str, granted: str = "") -> Board:
        """The limit as it is, once those are told that have got a permit and may not know.

        `granted`: one that was just let in. Where its place is gone, it may have left the line before.
        """
        board = await self.read(share)
        is_there = board.shard_of(granted) is not None and granted not in board.waiting.values()
        if is_there and await self._members.has_ended(granted):
            board = await self._without(share, board, granted)
        told = [(name, one) for name, one in board.waiting.items() if one != but and board.shard_of(one)]
        for name, one in told:
            if not await self._members.tell(one):
                board = await self._without(share, board, one)
            await self._notes.drop_note(_kind(share.name), name)
        return await self.read(share) if told else board

    async def _without(self, share: Share, board: Board, who: str) -> Board:
        """Takes out a holder that has ended, also where another changes the note meanwhile. The limit as it is then."""
        for _ in range(LOCK_TRIES):
            shard = board.shard_of(who)
            if shard is None:
                return board
            await self._replace(share, board, shard, who, ())
            board = await self.read(share)
        raise _busy(share.name)

    async def read(self, share: Share, waiting: int = LOOKED_AT) -> Board:
        return await read_line(self._notes, share, waiting)

    async def waits_at(self, share: Share, own: str) -> bool:
        return await self._notes.get_note(_kind(share.name), own) is not None

    async def drop_place(self, share: Share, own: str) -> None:
        await self._notes.drop_note(_kind(share.name), own)

    async def _write(self, name: str, shard: str, board: Board, ids: Sequence[str]) -> bool:
        """False where another changed the note meanwhile. A note without holders is deleted."""
        before = board.bodies.get(shard)
        if not ids:
            return before is None or await self._notes.drop_note(_kind(name), shard, before)
        body = json.dumps(list(ids), separators=(",", ":"))
        return await self._notes.put_note(_kind(name), shard, body, before, replaces=before is not None)


async def read_line(notes: Notes, share: Share, waiting: int) -> Board:
    """The holders, and so many of those who wait."""
    return Board.of(dict(await notes.notes(_kind(share.name), len(shards_of(share)) + waiting)))


def _kind(name: str) -> str:
    return f"permits:{name}"


def _busy(name: str) -> PortError:
    return PortError(f"the limit of {name!r} was changed by others {LOCK_TRIES} times")
