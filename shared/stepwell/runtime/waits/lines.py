"""Lines: the holders of a limit's permits, and those who wait for one, are the notes of one partition.

     NOTES#permits:<limit>   NOTE#h00, NOTE#h01, …      who holds a permit, twenty in each
                             NOTE#w<order>#<who>        who waits, in the order of their turns

     enter    a note has room ── nobody before me? my id goes in ── granted
               └── no: my place is written ── read again ── still none: wait
     leave    my id goes out, the first who waits goes in ── it is told, and then its place is deleted

A waiter writes before it reads the holders again, and a holder that leaves reads the waiters after it has written: one
of them sees the other. A holder whose place is still there was granted its permit by an actor that is about to tell it,
or has died. Only that actor tells it at once: of two messages, two workers would run its step together. Whoever else
reads that has a message sent a minute later, in case the actor has died, and marks the place, so that it is one. Only a
repeated call to leave tells at once, because the first call may have died.

    leave    my id goes out, b's goes in ──────────────────────── b is told ── b's place is deleted
    another                   reads ── a message for b in a minute ── b's place is marked

Whoever lets another in reads again: if its place is gone, it has begun, or had left the line before. A holder that has
ended is removed by whoever finds it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Protocol

from stepwell.engine.actions import Share
from stepwell.errors import PortError
from stepwell.limits import LOCK_TRIES, PERMITS_TOGETHER
from stepwell.runtime.ports import Notes
from stepwell.values import dataclass

LOOKED_AT = 10  # how many of those who wait are read
_SHARD, _WAITS = "h", "w"
_FRESH, _SEEN = "", "seen"  # what a place's note holds: before and after another has seen it granted


class Turn(StrEnum):
    """The answer to a request for a permit."""

    GRANTED = "granted"
    WAITS = "waits"
    LATER = "later"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Board:
    """A limit as it was read: the holders by note, the notes' bodies, and the first of those who wait, by note.

    `seen`: notes of those who wait that another has seen granted.
    """

    holders: dict[str, tuple[str, ...]] = field(default_factory=dict)
    bodies: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)
    seen: frozenset[str] = frozenset()

    @classmethod
    def of(cls, notes: dict[str, str]) -> Board:
        bodies = {name: body for name, body in notes.items() if name.startswith(_SHARD)}
        waiting = {name: name.partition("#")[2] for name in notes if name.startswith(_WAITS)}
        seen = frozenset(name for name in waiting if notes[name] != _FRESH)
        return cls({name: tuple(json.loads(body)) for name, body in bodies.items()}, bodies, waiting, seen)

    @property
    def under_way(self) -> tuple[str, ...]:
        return tuple(one for name in sorted(self.holders) for one in self.holders[name])

    @property
    def left(self) -> dict[str, str]:
        """Returns those who wait and have no permit, by note."""
        under_way = set(self.under_way)
        return {name: one for name, one in self.waiting.items() if one not in under_way}

    def shard_of(self, who: str) -> str | None:
        return next((name for name, ids in self.holders.items() if who in ids), None)

    def room(self, share: Share) -> str | None:
        """Returns the first note with room for another holder; None if all are full."""
        for name in shards_of(share):
            if len(self.holders.get(name, ())) < capacity_of(share, name):
                return name
        return None


def shards_of(share: Share) -> list[str]:
    return [f"{_SHARD}{number:02d}" for number in range(-(-share.most // PERMITS_TOGETHER))]


def capacity_of(share: Share, shard: str) -> int:
    """Returns how many of the permits are in this note; 0 if the limit was lowered below it."""
    return max(0, min(PERMITS_TOGETHER, share.most - PERMITS_TOGETHER * int(shard.removeprefix(_SHARD))))


def place_of(order: str) -> str:
    """Returns the note of one who waits. `order`: text that sorts, `#`, and the claimant."""
    return _WAITS + order


class Members(Protocol):
    """The claimants in lines: whether they still want a permit, and how they are told."""

    async def lives(self, who: str) -> bool:
        """Tells whether the claimant may still hold a permit. Its end may be noticed a little late."""

    async def has_ended(self, who: str) -> bool:
        """Tells by its log, without delay, whether the claimant holds no permit any more."""

    async def tell(self, who: str) -> bool:
        """Wakes a claimant that got its permit. Returns False if it has ended, and gives nothing back."""

    async def remind(self, who: str) -> bool:
        """The same, a minute later."""


class Lines:
    """The lines of all limits. Every operation may be repeated."""

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

        `may_wait`: else it is refused. `looks_at_all`: check all holders for ended ones, not the oldest alone. `then`:
        called once it waits.
        """
        is_written, granted = False, ""
        for _ in range(LOCK_TRIES):
            board = await self.seen_to(share, but=who, granted=granted)
            if board.shard_of(who) is not None:
                return await self._granted(share, board, own)
            room, first = board.room(share), min(board.left, default=own)
            if room is not None and first < own:
                granted = board.left[first] if await self._grant(share, room, board, board.left[first]) else ""
            elif room is not None:
                if await self._grant(share, room, board, who):
                    return await self._granted(share, board, own)
            elif is_written:
                return Turn.WAITS
            elif not await self._take_out_ended(share, board, of_all=looks_at_all or own in board.waiting):
                if not may_wait:
                    return Turn.REFUSED
                await self._notes.put_note(_kind(share.name), own, _FRESH, None)
                is_written = True
                if then is not None:
                    await then()
        raise _busy(share.name)

    async def _granted(self, share: Share, board: Board, own: str) -> Turn:
        if own in board.waiting:
            await self._notes.drop_note(_kind(share.name), own)
        return Turn.GRANTED

    async def leave(self, share: Share, who: str, own: str = "") -> None:
        """Removes the claimant and its place `own`, and grants permits to those who wait while there is room.

        If it is out already, this may be a repeated call that died as it let in one that has left the line since.
        """
        if own:
            await self._notes.drop_note(_kind(share.name), own)
        granted, comes_again = "", not own
        for number in range(LOCK_TRIES):
            board = await self.seen_to(share, but=who, granted=granted, has_come_to_leave=number == 0)
            left, shard = [one for one in board.left.values() if one != who], board.shard_of(who)
            granted = ""
            if shard is not None:
                comes_again = False
                granted = await self._replace(share, board, shard, who, left)
            elif left and (room := board.room(share)) is not None:
                granted = left[0] if await self._grant(share, room, board, left[0]) else ""
            elif left and comes_again and (gone := await self._newest_ended(board)):
                await self._without(share, board, gone)
            else:
                return
        raise _busy(share.name)

    async def disband(self, share: Share, who: str, own: str = "") -> None:
        """Removes the claimant and its place `own` from the line of a limit that is no more, and tells all who wait.

        Only who marks a place tells its claimant: of two messages, two workers would run its step together.
        """
        if own:
            await self._notes.drop_note(_kind(share.name), own)
        for _ in range(LOCK_TRIES):
            board = await self._without(share, await self.read(share), who)
            left = {place: one for place, one in board.left.items() if place not in board.seen}
            if not left:
                for place, one in board.waiting.items():  # others had let them in, and have died, or tell them now
                    if one != who and board.shard_of(one):
                        await self._remind(share, board, place, one)
                return
            for place, one in left.items():
                if await self._notes.put_note(_kind(share.name), place, who, _FRESH, replaces=True):
                    await self._members.tell(one)
                    await self._notes.drop_note(_kind(share.name), place)
        raise _busy(share.name)

    async def _newest_ended(self, board: Board) -> str:
        """Returns a holder that is the newest in its note and has ended; "" if there is none."""
        for ids in board.holders.values():
            if ids and await self._members.has_ended(ids[-1]):
                return ids[-1]
        return ""

    async def _grant(self, share: Share, shard: str, board: Board, who: str) -> bool:
        return await self._write(share.name, shard, board, (*board.holders.get(shard, ()), who))

    async def _replace(self, share: Share, board: Board, shard: str, who: str, left: Sequence[str]) -> str:
        """Removes the holder, and lets in the first who waits if the note has room. Returns who that is, or ""."""
        kept = tuple(one for one in board.holders[shard] if one != who)
        first = left[:1] if len(kept) < capacity_of(share, shard) else ()
        is_written = await self._write(share.name, shard, board, (*kept, *first))
        return first[0] if is_written and first else ""

    async def _take_out_ended(self, share: Share, board: Board, *, of_all: bool) -> bool:
        """Removes ended holders, of all or only the oldest. Tells whether there was one."""
        ended = await self.ended(board.under_way if of_all else board.under_way[:1])
        for shard, ids in board.holders.items():
            if ended & set(ids):
                await self._write(share.name, shard, board, [one for one in ids if one not in ended])
        return bool(ended)

    async def ended(self, those: Sequence[str]) -> set[str]:
        return {one for one in those if not await self._members.lives(one)}

    async def seen_to(self, share: Share, but: str, granted: str = "", *, has_come_to_leave: bool = False) -> Board:
        """Tells claimants that got a permit and may not know. Returns the limit as it is then.

        `granted`: one that was just let in. If its place is gone, it may have left the line before.
        `has_come_to_leave`: if `but` is out already, this is a repeated call, and the first may have died before that.
        """
        board = await self.read(share)
        is_there = board.shard_of(granted) is not None and granted not in board.waiting.values()
        if is_there and await self._members.has_ended(granted):
            board = await self._without(share, board, granted)
        is_changed, is_repeated = False, has_come_to_leave and board.shard_of(but) is None
        for place, one in [(name, one) for name, one in board.waiting.items() if one != but and board.shard_of(one)]:
            is_told = is_repeated or one == granted
            if not await (self._members.tell(one) if is_told else self._remind(share, board, place, one)):
                board, is_told = await self._without(share, board, one), True
            if is_told:
                await self._notes.drop_note(_kind(share.name), place)
                is_changed = True
        return await self.read(share) if is_changed else board

    async def _remind(self, share: Share, board: Board, place: str, who: str) -> bool:
        """Sends a message for later to a holder that another tells. Returns False if it has ended.

        Its place may be gone from the board, if that was read again since.
        """
        if place in board.seen:
            return True
        wants = await self._members.remind(who)
        if wants:
            await self._notes.put_note(_kind(share.name), place, _SEEN, _FRESH, replaces=True)
        return wants

    async def _without(self, share: Share, board: Board, who: str) -> Board:
        """Removes a holder that has ended, even if others change the note meanwhile. Returns the limit after it."""
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
        """Writes a note of holders. Returns False if another changed it meanwhile. Deletes a note without holders."""
        before = board.bodies.get(shard)
        if not ids:
            return before is None or await self._notes.drop_note(_kind(name), shard, before)
        body = json.dumps(list(ids), separators=(",", ":"))
        return await self._notes.put_note(_kind(name), shard, body, before, replaces=before is not None)


async def read_line(notes: Notes, share: Share, waiting: int) -> Board:
    """Reads the holders, and the first `waiting` of those who wait."""
    return Board.of(dict(await notes.notes(_kind(share.name), len(shards_of(share)) + waiting)))


def _kind(name: str) -> str:
    return f"permits:{name}"


def _busy(name: str) -> PortError:
    return PortError(f"the limit of {name!r} was changed by others {LOCK_TRIES} times")
