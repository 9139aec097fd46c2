"""Lanes: logs shared by the branches of one message, written by one put for all records that are ready.

     branch 20   step ── its record waits ──┐                         ┌── ended
     branch 21   step ── its record waits ──┼── one put into the lane ┼── ended
     branch 22   parks ── it is to move ────┘                         └── its own log: waiting …

The results of a large batch are a blob, so that reading who has arrived does not read them. A refused put returns the
winner's batch, and puts the rest one slot further. A message for a single branch puts a batch of one. Everybody else
reads the records of branches wherever they lie.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator, Iterable, Sequence
from dataclasses import replace
from types import coroutine
from typing import Any, TypeAlias

from stepwell import limits
from stepwell.engine.forks.branches import branch_id, fork_id, parent_of
from stepwell.engine.forks.lanes import LaneLog, LanePlace, lane_at, lanes_in
from stepwell.engine.records import End, Fork, Record, Status
from stepwell.engine.stored.batches import Batch, arrived_in, beside, decode_batch, encode_batch
from stepwell.engine.stored.token_batches import decode_records
from stepwell.errors import LeaseLost
from stepwell.limits import BATCH_RECORDS
from stepwell.runtime.log.claims import fetch, stow
from stepwell.runtime.log.messages import Wake
from stepwell.runtime.ports import Blobs, Joined, Log, Saved
from stepwell.values import dataclass

Work: TypeAlias = Coroutine[Any, Any, None]
OnwardWake: TypeAlias = Callable[[], Wake]


class Lanes:
    """Reads lanes and their records."""

    def __init__(self, log: Log, blobs: Blobs) -> None:
        self._log, self._blobs = log, blobs

    async def read(self, run_id: str, place: LanePlace) -> RunLane:
        """Reads one lane: one query."""
        saved = await self._log.read_log(run_id, place.name)
        return RunLane(self._log, self._blobs, run_id, await self._state(place, saved))

    async def page(self, run_id: str, fork: Fork, name: str, page: int) -> list[RunLane]:
        """Reads the lanes of a page: one query."""
        places = lanes_in(fork, name, page)
        found = (await self._log.read_join(run_id, f"{name}@{page}", [place.name for place in places])).lanes
        return [RunLane(self._log, self._blobs, run_id, await self._state(place, found.get(place.name, ())))
                for place in places]  # fmt: skip

    async def join(self, run_id: str, fork: Fork, name: str, page: int) -> Joined:
        """Returns the join of a page, including branches that ended in lanes."""
        places = lanes_in(fork, name, page)
        joined = await self._log.read_join(run_id, f"{name}@{page}", [place.name for place in places])
        bodies = [one.body for saved in joined.lanes.values() for one in saved]
        return replace(joined, members=joined.members.union(*map(arrived_in, bodies)), lanes={})

    async def branches(
        self, run_id: str, fork: Fork, name: str, indexes: Iterable[int]
    ) -> tuple[dict[str, list[Record]], dict[int, RunLane]]:
        """Returns the records of these branches by token id, if they have any, and their lanes by index."""
        wanted = list(indexes)
        if not fork.lane:
            logs = await self._log.read_logs(run_id, [branch_id(name, index) for index in wanted])
            return {token: await self.decoded(saved) for token, saved in logs.items()}, {}
        pages = dict.fromkeys(fork.page_of(index) for index in wanted)
        lanes = [lane for page in pages for lane in await self.page(run_id, fork, name, page)]
        of = {index: lane for lane in lanes for index in lane.state.place.indexes}
        moved = [branch_id(name, index) for index in wanted if of[index].state.has_moved(index)]
        own = await self._log.read_logs(run_id, moved) if moved else {}
        found: dict[str, list[Record]] = {}
        for index in wanted:
            token = branch_id(name, index)
            records = [*of[index].state.records(index), *await self.decoded(own.get(token, ()))]
            if records:
                found[token] = records
        return found, {index: of[index] for index in wanted}

    async def token(self, run_id: str, token: str, after: int = -1, limit: int | None = None) -> list[Record]:
        """Returns a token's records after a slot, in order. Reads its lane only if its own log does not start there."""
        own = await self.own(run_id, token, after, limit)
        if parent_of(token) is None or (own and own[0].slot == after + 1):
            return own
        place = await self._place(run_id, token)
        if place is None:
            return own
        index = int(token.rpartition(".")[2])
        lane = (await self.read(run_id, place)).state
        if lane.has_moved(index) and not own:  # it may have moved since the first read
            own = await self.own(run_id, token, after, limit)
        found = [record for record in lane.records(index) if record.slot > after] + own
        return found if limit is None else found[:limit]

    async def own(self, run_id: str, token: str, after: int, limit: int | None) -> list[Record]:
        """Returns the records after a slot of a token's own log, also from a batch that begins before it."""
        before = max(after - 1, -1)  # the record there tells whether such a batch is there
        saved = await self._log.read_log(run_id, token, before, None if limit is None else limit + after - before)
        if after > 0 and (not saved or saved[0].slot > after):
            saved = [*(await self._log.read_log(run_id, token, max(after - BATCH_RECORDS, -1), BATCH_RECORDS)), *saved]
            saved = list({one.slot: one for one in saved}.values())
        found = [record for record in await self.decoded(saved) if record.slot > after]
        return found if limit is None else found[:limit]

    async def decoded(self, saved: Sequence[Saved]) -> list[Record]:
        return [record for one in saved for record in decode_records(await fetch(one.body, self._blobs))]

    async def _place(self, run_id: str, token: str) -> LanePlace | None:
        """Returns the lane of a branch from its fork's record in its parent's own log; None if it has none."""
        place = parent_of(token)
        if place is None:
            return None
        parent, slot, index = place
        for record in await self.own(run_id, parent, slot - 1, 1):
            if record.slot == slot and isinstance(record.next, Fork) and record.next.lane:
                return lane_at(record.next, fork_id(parent, slot), index)
        return None

    async def _state(self, place: LanePlace, saved: Iterable[Saved]) -> LaneLog:
        return LaneLog(place, [decode_batch(await fetch(one.body, self._blobs), place.fork) for one in saved])


class RunLane:
    """A lane of a run, for writing."""

    def __init__(self, log: Log, blobs: Blobs, run_id: str, state: LaneLog) -> None:
        self._log, self._blobs, self._run_id, self.state = log, blobs, run_id, state
        self.is_shared = False  # by the branches of a message: records are collected
        self.may_be_closed = False  # a failure of one may have ended the others
        self._ready: dict[int, Record] = {}
        self._leaving: set[int] = set()

    def append(self, index: int, record: Record, wake: OnwardWake) -> Awaitable[None]:
        """Writes a branch's next record if its slot lies in this lane. `decided` then tells which record is there."""
        self._ready[index] = record
        if self.is_shared and not _is_urgent(record):
            return Ready(self, index, record, None if isinstance(record.next, End) else wake)
        return self._append_now(index)

    async def _append_now(self, index: int) -> None:
        await self.commit(going_on=[index])
        self.may_be_closed = self.is_shared

    async def leave(self, index: int, wake: OnwardWake, *, at_once: bool) -> None:
        """Moves the branch's next slot to its own log, unless the branch has ended."""
        if self.state.holds(index):
            self._leaving.add(index)
            if self.is_shared and not at_once:
                await Ready(self, index, None, wake)
            else:
                await self.commit()

    async def look_again(self) -> None:
        """Reads what others wrote, after one of these branches failed: no step begins in a fork that has closed."""
        self.may_be_closed = False
        for one in await self._log.read_log(self._run_id, self.state.place.name, self.state.next_slot - 1):
            self.state.add(decode_batch(await fetch(one.body, self._blobs), self.state.place.fork))

    async def commit(self, leaving: Iterable[int] = (), going_on: Collection[int] = ()) -> None:
        """Puts what is ready at the next slot; after a refusal, what is still undecided, one slot further.

            this worker   slot 0: 20, 21, 22, 23 ── refused: the winner has 20 and 21 ── slot 1: 22, 23
            its twin      slot 0: 20, 21

        A large record that is alone in its put goes to its branch's own log if the branch is among those that go on at
        once: in the lane, everybody who asks for the page would read it.
        """
        self._leaving.update(leaving)
        while (batch := self._batch()) is not None:
            body = encode_batch(batch, self.state.place.fork)
            if (
                len(batch.records) == 1
                and len(body) > limits.LANE_ALONE_BYTES
                and batch.records.keys() <= set(going_on)
            ):
                batch = Batch(moved=batch.moved.union(batch.records))
                body = encode_batch(batch, self.state.place.fork)
            body = await stow(body, self._blobs, self._run_id, limits.ITEM_BYTES, beside(batch))
            found = await self._log.append(self._run_id, self.state.place.name, self.state.next_slot, body)
            if isinstance(found, str):
                batch = decode_batch(await fetch(found, self._blobs), self.state.place.fork)
            self.state.add(batch)
            if not isinstance(found, str):  # nothing is undecided
                break
        self._ready.clear()
        self._leaving.clear()

    def _batch(self) -> Batch | None:
        state = self.state
        records = {index: one for index, one in sorted(self._ready.items()) if self._is_next(index, one)}
        moved = frozenset(index for index in self._leaving if state.holds(index))
        return Batch(records, moved) if records or moved else None

    def _is_next(self, index: int, record: Record) -> bool:
        """Tells whether this record's slot is still open, and lies here."""
        return self.state.holds(index) and len(self.state.records(index)) == record.slot


def _is_urgent(record: Record) -> bool:
    """Tells whether others wait for the record: a failure may end the fork before they begin."""
    return isinstance(record.next, End) and record.next.status not in (Status.COMPLETED, Status.CANCELLED)


@dataclass(frozen=True, slots=True, eq=False)
class Ready:
    """Awaiting it suspends the coroutine until its record is written together with those of others.

    `record` None: its branch is to leave the lane. `wake`: makes the message by which the branch could go on; None: the
    branch has ended.
    """

    lane: RunLane
    index: int
    record: Record | None
    wake: OnwardWake | None

    def __await__(self) -> Generator[Ready, None, None]:
        yield self

    @property
    def may_go(self) -> bool:
        """Tells whether another message can go on with the branch, with nothing lost."""
        state = self.lane.state
        is_done = self.record is None or state.decided(self.index, self.record.slot) is self.record
        return self.wake is not None and is_done and not state.holds(self.index)


class Crew:
    """Runs the branches of one message in turns: each until it has a record ready; then those are written.

    `holds`: tells whether they may still write.
    """

    def __init__(self, lanes: Iterable[RunLane], holds: Callable[[], bool]) -> None:
        self._lanes, self._holds = list(lanes), holds
        self._waiting: deque[tuple[Work, Ready]] = deque()
        self._written: deque[tuple[Work, Ready]] = deque()  # they are written, and their branches go on
        for lane in self._lanes:
            lane.is_shared = True

    @property
    def must_not_wait(self) -> bool:
        """Tells whether records are to be written or branches to go on: neither may wait for another's step."""
        return bool(self._waiting or (self._written and any(ready.wake is not None for _, ready in self._written)))

    @property
    def _all(self) -> list[tuple[Work, Ready]]:
        return [*self._written, *self._waiting]

    def run(self, work: Work) -> Awaitable[None]:
        """Drives one branch until it ends, or has a record ready."""
        return self._run(work) if self._lanes else work

    @coroutine
    def _run(self, work: Work) -> Generator[Any, Any, None]:
        given = None
        while True:
            try:
                asked = work.send(given)
            except StopIteration:
                break
            if isinstance(asked, Ready):
                self._waiting.append((work, asked))
                break
            try:
                given = yield asked
            except GeneratorExit:
                work.close()
                raise
        for lane in self._lanes:
            if lane.may_be_closed:
                yield from lane.look_again().__await__()

    async def finish(self) -> None:
        """Writes what is ready and runs all branches to their ends."""
        while self._written or self._waiting:
            if not self._written:
                await self.leave((), going_on=[ready.index for _, ready in self._waiting])
                self._written, self._waiting = self._waiting, self._written
            await self.run(self._written.popleft()[0])

    async def leave(self, indexes: Collection[int], going_on: Collection[int] = ()) -> None:
        """Writes what is ready, and moves these branches out of their lanes. Raises LeaseLost."""
        if self._lanes and not self._holds():
            raise LeaseLost("the lease ran out before what was ready was written")
        for lane in self._lanes:
            await lane.commit([index for index in indexes if index in lane.state.place.indexes], going_on)

    async def let_go(self, indexes: Collection[int], send: Callable[[list[Wake]], Awaitable[None]]) -> None:
        """Writes what is ready, and has waiting branches go on by messages, so that no step holds them up."""
        await self.leave({*indexes, *(ready.index for _, ready in self._all if ready.wake is not None)})
        going = [(work, ready) for work, ready in self._all if ready.may_go]
        await send([ready.wake() for _, ready in going if ready.wake is not None])
        self._written = deque(one for one in self._written if one not in going)
        self._waiting = deque(one for one in self._waiting if one not in going)
        for work, _ in going:
            work.close()

    def close(self) -> None:
        """Stops the branches that wait: their message is redelivered."""
        for work, _ in self._all:
            work.close()
