"""Narrates a token: its history entries, and those of its branches, in the order in which things happened.

    slot 3 forks ── what its branches did, by time ── slot 4 joins
    slot 3 begins tasks ── slot 4 ── what a task did, by time ── slot 5 ── …

The entries of a fork's branches stand between the entry that opened it and the one that closed it; those of tasks,
beside which their function goes on, among its own. So do those of branches where a join abandons some, beside which the
run goes on. A fork wider than HISTORY_BRANCHES is narrated without its branches,
unless it is a DAG: ask for one branch by its id.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from stepwell.engine.entries import Entry, place_of, token_of
from stepwell.engine.fold import apply, fold
from stepwell.engine.forks.branches import is_branch_id, parent_of
from stepwell.engine.forks.needs import ancestors, causal_order, knowing
from stepwell.engine.history import opening, under_way
from stepwell.engine.records import ROOT, Fork, Record, RunInfo
from stepwell.engine.token import Token
from stepwell.errors import InvalidInput, NotFound
from stepwell.limits import HISTORY_BRANCHES
from stepwell.runtime.calls.givens import Givens
from stepwell.runtime.log.conditions import narrate
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.shown_nodes import ShownNodes
from stepwell.runtime.log.standing import ForkedParent
from stepwell.values import dataclass

Place: TypeAlias = tuple[int, ...]  # where an entry is: (fork's slot, branch) for each fork on the way, slot, number
Placed: TypeAlias = tuple[int, Place, Entry]  # by time, then by place

_PAGE_RECORDS = 100  # in memory at once: each may hold a large output
_NO_SLOT = 1 << 62  # beyond all slots
_NOTHING = -2  # the slot before all that a history tells
_OWN = -1  # instead of a branch: a token's own entries come before those of the fork in the same slot


@dataclass(frozen=True, slots=True)
class Narrator:
    """Reads the entries of one run; with `givens`, the inputs of its steps too.

    `abandons`: a join of its graph leaves branches that go on. Such a history is read from its beginning, because
    entries of any fork may follow the cursor. `read`: the root's whole log, if that is known.
    """

    logbook: Logbook
    run: RunInfo
    givens: Givens | None = None
    shown: ShownNodes | None = None  # the names of nodes in the definition; None: those of the log
    abandons: bool = False
    read: Sequence[Record] | None = None

    async def entries(self, token_id: str = ROOT, after: str = "", until: int | None = None) -> AsyncIterator[Entry]:
        """Yields the entries that follow the one with the id `after`, up to the token's slot `until`.

        Raises NotFound for an unknown token, InvalidInput for an `after` that is no entry of it.
        """
        async for entry, _ in self.settling(token_id, after, until):
            yield entry

    async def settling(
        self, token_id: str = ROOT, after: str = "", until: int | None = None
    ) -> AsyncIterator[tuple[Entry, str]]:
        """Yields the entries, as `entries` does, each with the id of the last before which nothing can come any more.

        A branch may commit a record when others have committed later ones: it stands before theirs. So that id is one
        of the token's own, of before the fork, or the tasks, that are under way; of before the first fork, if a join
        may have left branches.
        """
        cursor = _Cursor.of(token_id, after)
        beside, settled, is_quiet = _Beside(cursor), after, True
        async for standing, entries in self._own(await self._before(token_id, cursor.slot), until):
            for entry in entries:
                for earlier in beside.until(entry):
                    yield earlier, settled
                settled = entry.id if is_quiet else settled
                if beside.is_next(entry):
                    yield entry, settled
            for entry in await self._branches(standing, cursor, beside):
                yield entry, settled
            is_quiet = not standing.has_open_tasks and not (self.abandons and beside.has_any)
        for entry in beside.rest():
            yield entry, settled

    async def _before(self, token_id: str, slot: int) -> Token:
        """Returns the token before this slot, and before its open tasks began: their entries may follow the slot's.

        Raises NotFound for an unknown token.
        """
        is_known = token_id == ROOT or is_branch_id(token_id)
        first = _NOTHING if self.abandons else slot
        token = await self.logbook.token_before(self.run.run_id, first, token_id) if is_known else None
        if token is None:
            raise NotFound(f"run {self.run.run_id} has no branch {token_id[:80]}", code="unknown_branch")
        if not token.tasks:
            return token
        return await self.logbook.token_before(self.run.run_id, min(token.tasks), token_id) or token

    async def _own(self, token: Token, until: int | None) -> AsyncIterator[tuple[Token, Sequence[Entry]]]:
        """Yields the token after each of its records, with the record's entries."""
        is_root = token.id == ROOT
        yield token, opening(Token(), self.run) if is_root and token.last is None else ()
        async for record in self._records(token, until):
            before, token = token, apply(token, record)
            self.logbook.passed(self.run.run_id, token)
            yield token, self._told(record, before, token)
        yield Token(), under_way(token, self.run) if is_root else ()

    def _told(self, record: Record, before: Token, after: Token) -> Sequence[Entry]:
        entries: Sequence[Entry] = narrate(record, before, after, self.run)
        entries = entries if self.givens is None else self.givens.added(entries, record, before)
        return self.named(entries)

    def named(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Returns the entries with the names of nodes that the history has."""
        return entries if self.shown is None else self.shown.told(entries)

    async def _records(self, token: Token, until: int | None) -> AsyncIterator[Record]:
        after, last = token.slot, _NO_SLOT if until is None else until
        while after < last:
            limit = min(_PAGE_RECORDS, last - after)
            records = await self.records_of(token.id, after, limit)
            for record in records:
                yield record
            after = records[-1].slot if len(records) == limit else last  # a shorter page is the last one

    async def records_of(self, token_id: str, after: int, limit: int) -> Sequence[Record]:
        """Returns a token's records after a slot, with their outputs; the root's need no read if they are known."""
        if token_id != ROOT or self.read is None:
            return await self.logbook.history(self.run.run_id, token_id, after, limit)
        found = [record for record in self.read if record.slot > after][:limit]
        return await self.logbook.in_full(self.run.run_id, ROOT, found)

    async def _branches(self, token: Token, cursor: _Cursor, beside: _Beside) -> Sequence[Entry]:
        """Returns the entries of the fork at which the token stands; those of what goes on beside are put aside."""
        fork = token.last.next if token.last is not None else None
        if not isinstance(fork, Fork):
            return ()
        if fork.is_of_tasks or token.has_open_tasks or self.abandons:
            beside.add(await self._of_fork(token, fork), token.slot)
            return ()
        if token.slot < cursor.slot:
            return ()
        found = sorted(await self._of_fork(token, fork), key=_by_time)
        return [entry for _, _, entry in cursor.rest_of(found, token.slot)]

    async def _of_fork(self, token: Token, there: Fork) -> list[Placed]:
        if there.width > HISTORY_BRANCHES and not there.needs:
            return []
        fork = await self.logbook.fork(self.run.run_id, token.id, token.slot)
        if fork is None:
            return []
        found: list[Placed] = []
        turns = {index: turn for turn, index in enumerate(causal_order(fork.fork))}
        for page in fork.fork.pages:
            for branch, records in await self._logs(fork, page):
                turn = turns[branch.branch.index] if branch.branch else 0
                whole = await self.logbook.in_full(self.run.run_id, branch.id, records)
                found += await self._of_branch(branch, whole, (token.slot, turn))
        return found

    async def _logs(self, fork: ForkedParent, page: int) -> Sequence[tuple[Token, Sequence[Record]]]:
        """Returns the branches of a page as they began, with their records.

        Branches of a DAG have the results of the steps before them, since their inputs may read those.
        """
        logs = await self.logbook.page_logs(fork, page)
        if self.givens is None or not fork.fork.needs:
            return logs
        folded = {begun.id: fold(records, begun) for begun, records in logs}
        ended = {one.branch.index: one for one in folded.values() if one.ended and one.branch}
        return [(_knowing(begun, fork.fork, ended), records) for begun, records in logs]

    async def _of_branch(self, token: Token, records: Sequence[Record], outer: Place) -> list[Placed]:
        found: list[Placed] = []
        for record in records:
            before, token = token, apply(token, record)
            entries = self._told(record, before, token)
            found += [(one.at_ms, (*outer, record.slot, _OWN, number), one) for number, one in enumerate(entries)]
            if isinstance(record.next, Fork):
                inner = await self._of_fork(token, record.next)
                found += [(at_ms, (*outer, *place), entry) for at_ms, place, entry in inner]
        return found


def _knowing(begun: Token, fork: Fork, ended: Mapping[int, Token]) -> Token:
    branch = begun.branch
    if branch is None:
        return begun
    known = knowing(branch, [ended[index] for index in ancestors(fork, branch.index) if index in ended])
    return replace(begun, branch=replace(known, started_ms=branch.started_ms))


def _by_time(placed: Placed) -> tuple[int, Place]:
    return placed[:2]


class _Beside:
    """Holds the entries of tasks, or of branches, until the token's own entries reach their time."""

    def __init__(self, cursor: _Cursor) -> None:
        self._cursor, self._waiting = cursor, list[Placed]()
        self._is_past = not cursor.id  # past the cursor: what comes now follows it
        self._is_inside = False  # the cursor is at an entry of a task
        self.has_any = False

    def add(self, found: Sequence[Placed], slot: int) -> None:
        """Adds the entries of the tasks that began at this slot of the function, or of the branches of its fork."""
        self.has_any = True
        self._waiting = sorted([*self._waiting, *found], key=_by_time)
        self._is_inside |= not self._cursor.is_own and slot == self._cursor.slot

    def is_next(self, own: Entry) -> bool:
        """Tells whether an entry of the function follows the cursor."""
        if self._is_inside:
            return self._is_past
        is_next = self._cursor.is_before(own)
        self._is_past |= is_next or own.id == self._cursor.id
        return is_next

    def until(self, own: Entry) -> Iterator[Entry]:
        """Yields the tasks' entries that follow the cursor and precede this entry of the function."""
        while self._waiting and self._waiting[0][0] <= own.at_ms:
            yield from self._shown(self._waiting.pop(0)[2])

    def rest(self) -> Iterator[Entry]:
        """Yields the tasks' entries that follow the cursor and the function's last entry."""
        self._is_past |= not self._is_inside
        for _, _, entry in self._waiting:
            yield from self._shown(entry)

    def _shown(self, entry: Entry) -> Iterator[Entry]:
        if self._is_past:
            yield entry
        self._is_past |= entry.id == self._cursor.id


@dataclass(frozen=True, slots=True)
class _Cursor:
    """The last known entry, as seen from the token whose history is read."""

    id: str
    slot: int  # of the token's own record, or of its fork in which the entry is
    number: int  # of an own entry
    is_own: bool

    @classmethod
    def of(cls, token_id: str, after: str) -> _Cursor:
        if not after:
            return cls("", _NOTHING, 0, is_own=True)
        place, token = place_of(after), token_of(after)
        if place is not None and token == token_id:
            return cls(after, *place, is_own=True)
        while place is not None and is_branch_id(token) and (outer := parent_of(token)) is not None:
            token, slot, _ = outer
            if token == token_id:
                return cls(after, slot, 0, is_own=False)
        raise InvalidInput(f"{after[:80]!r} is not the id of an entry of token {token_id}", code="bad_cursor",
                           hint="pass the `id` of the last known entry, or next_cursor")  # fmt: skip

    def is_before(self, entry: Entry) -> bool:
        """Tells whether one of the token's own entries follows the cursor."""
        slot, number = place_of(entry.id) or (_NOTHING, 0)
        return (slot, number) > (self.slot, self.number) if self.is_own else slot > self.slot

    def rest_of(self, found: Sequence[Placed], slot: int) -> Sequence[Placed]:
        """Returns those entries of this slot's branches that follow the cursor."""
        ids = [] if self.is_own or slot > self.slot else [entry.id for _, _, entry in found]
        return found[ids.index(self.id) + 1 :] if self.id in ids else found
