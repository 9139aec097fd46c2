"""Mutants of lanes: each takes one rule of the protocol away, and the simulator must notice."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from stepwell.definition.graph import FanIn
from stepwell.engine.forks import join
from stepwell.engine.forks.lanes import LaneLog, split_lane
from stepwell.engine.forks.members import member_with
from stepwell.engine.records import Fork, Kind, Record, Tally
from stepwell.engine.stored.batches import encode_batch
from stepwell.memory.store import MemoryStore
from stepwell.runtime.forks import forking
from stepwell.runtime.forks.forking import Forking
from stepwell.runtime.log.lanes import Lanes, RunLane
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import ForkedParent, Standing
from stepwell.runtime.ports import Appended, Joined
from tests.sim.tree import batch_of

_append, _join, _end, _in_lane = MemoryStore.append, Lanes.join, Forking._end, Logbook._in_lane
_before_first_record, _arrived, _is_next = Logbook._before_first_record, Forking._arrived, RunLane._is_next
_lane_append = RunLane.append


@contextmanager
def lane_overwritten() -> Iterator[None]:
    """A lane's put has no condition."""

    async def append(self: MemoryStore, run_id: str, token: str, slot: int, body: str, **more: Any) -> Appended:
        log = self._log(run_id, token)
        if split_lane(token) is not None and slot in log.records:
            log.slots.remove(slot)
        if split_lane(token) is not None:
            log.append(slot, body)
            return None
        return await _append(self, run_id, token, slot, body, **more)

    with mock.patch.object(MemoryStore, "append", append):
        yield


@contextmanager
def lane_retried_blindly() -> Iterator[None]:
    """A refused writer puts its whole batch one slot further, without a look at the winner."""

    async def commit(self: RunLane, leaving: Iterable[int] = (), going_on: object = ()) -> None:
        self._leaving.update(leaving)
        batch = self._batch()
        found: Appended = ""
        while batch is not None and isinstance(found, str):
            body = encode_batch(batch, self.state.place.fork)
            found = await self._log.append(self._run_id, self.state.place.name, self.state.next_slot, body)
            won = batch_of(found, self.state.place.fork, self._blobs) if isinstance(found, str) else batch
            self.state.add(won)
        self._ready.clear()
        self._leaving.clear()

    with mock.patch.object(RunLane, "commit", commit):
        yield


@contextmanager
def lanes_alone_arrive() -> Iterator[None]:
    """A page is complete when its lanes are: arrivals of branches that have left them are not counted."""

    async def joined(self: Lanes, run_id: str, fork: Fork, name: str, page: int) -> Joined:
        found = await _join(self, run_id, fork, name, page)
        own = (await self._log.read_join(run_id, f"{name}@{page}")).members if fork.lane else frozenset()
        return replace(found, members=found.members - own)

    with mock.patch.object(Lanes, "join", joined):
        yield


@contextmanager
def full_lane_asks() -> Iterator[None]:
    """A writer asks for its page only if every branch of its lane ended there."""

    def asks(self: LaneLog, index: int) -> bool:
        is_full = all(self.has_arrived(one) for one in self.place.indexes)
        return bool(self._ends[index].error) or (is_full and index == max(self._last))

    with mock.patch.object(LaneLog, "asks", asks):
        yield


@contextmanager
def page_asked_before_writing() -> Iterator[None]:
    """Who completes the page is asked before the batch is written, not after."""
    seen: dict[tuple[str, str, str], frozenset[str]] = {}

    async def append(self: RunLane, index: int, record: Record, *rest: Any, **options: Any) -> None:
        place = self.state.place
        fork = next((one for one in forks if one[0] == (self._run_id, place.fork)), None)
        if fork is not None:
            page = fork[1].page_of(index)
            joined = await Lanes(self._log, self._blobs).join(self._run_id, fork[1], place.fork, page)
            seen[self._run_id, place.fork, str(index)] = joined.members
        await _lane_append(self, index, record, *rest, **options)

    async def arrived(self: Forking, at: Standing, fork: ForkedParent, page: int) -> Joined | None:
        joined = await _arrived(self, at, fork, page)
        early = seen.get((at.run_id, fork.id, str(at.index)))
        if joined is None or early is None or at.lane is None:
            return joined
        there = at.lane.state
        own = {member_with(index, end) for index, end in there._ends.items() if there.has_arrived(index)}
        return replace(joined, members=early | own)

    async def in_lane(self: Logbook, begun: Standing, fork: ForkedParent, *rest: Any, fresh: bool) -> Standing:
        forks.append(((begun.run_id, fork.id), fork.fork))
        return await _in_lane(self, begun, fork, *rest, fresh=fresh)

    forks: list[tuple[tuple[str, str], Fork]] = []
    with (
        mock.patch.object(RunLane, "append", append),
        mock.patch.object(Forking, "_arrived", arrived),
        mock.patch.object(Logbook, "_in_lane", in_lane),
    ):
        yield


@contextmanager
def lane_judged_by_old_news() -> Iterator[None]:
    """A branch that arrives from its own log trusts what was known of its lane when it left: some are still there."""

    def awaits(self: LaneLog, arrived: Collection[int]) -> bool:
        return any(one not in arrived and not self.has_arrived(one) for one in self.place.indexes)

    with mock.patch.object(LaneLog, "awaits", awaits):
        yield


@contextmanager
def lane_effects_once() -> Iterator[None]:
    """A message that comes again does not repeat the effects of what it had written."""

    async def in_lane(self: Logbook, *given: Any, fresh: bool) -> Standing | None:
        at = await _in_lane(self, *given, fresh=fresh)
        return None if at.token.ended else at

    with mock.patch.object(Logbook, "_in_lane", in_lane):
        yield


@contextmanager
def lane_left_open() -> Iterator[None]:
    """A cancel ends branches that have left their lanes, and leaves those that are in them."""

    async def end(self: Forking, at: Standing, by: str) -> None:
        if at.lane_held is None:
            await _end(self, at, by)

    with mock.patch.object(Forking, "_end", end):
        yield


@contextmanager
def moved_left_alive() -> Iterator[None]:
    """A cancel ends those who are in lanes, and leaves the branches that have moved out of them."""

    async def end(self: Forking, at: Standing, by: str) -> None:
        if at.lane is None or not at.lane.state.has_moved(at.index):
            await _end(self, at, by)

    with mock.patch.object(Forking, "_end", end):
        yield


@contextmanager
def written_after_the_end() -> Iterator[None]:
    """A batch may hold a record of a branch that was cancelled there."""

    def is_next(self: RunLane, index: int, record: Record) -> bool:
        there = self.state.records(index)
        is_late = bool(there) and there[-1].kind is Kind.ENDED and record.kind is not Kind.ENDED
        return _is_next(self, index, record) or (is_late and record not in there)

    with mock.patch.object(RunLane, "_is_next", is_next):
        yield


@contextmanager
def written_after_moving() -> Iterator[None]:
    """A batch may hold a record of a branch that has moved: its slot has two places."""

    def is_next(self: RunLane, index: int, record: Record) -> bool:
        there = self.state.records(index)
        return len(there) == record.slot and self.state._ends.get(index) is None

    with mock.patch.object(RunLane, "_is_next", is_next):
        yield


@contextmanager
def page_not_reported() -> Iterator[None]:
    """A page of a wide fork with lanes is not told to the fork when it is full."""

    def must_tell(fan_in: FanIn, fork: Fork, page: int, tally: Tally, *, is_failed: bool) -> bool:
        told = join.must_tell(fan_in, fork, page, tally, is_failed=is_failed)
        return told and not (fork.lane and page)

    with mock.patch.object(forking, "must_tell", must_tell):
        yield


OF_LANES: tuple[Callable[[], AbstractContextManager[None]], ...] = (
    lane_overwritten,
    lane_retried_blindly,
    lanes_alone_arrive,
    full_lane_asks,
    page_asked_before_writing,
    lane_judged_by_old_news,
    lane_effects_once,
    lane_left_open,
    moved_left_alive,
    written_after_the_end,
    written_after_moving,
    page_not_reported,
)
