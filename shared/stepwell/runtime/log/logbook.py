"""Reads and writes tokens' logs: decodes records, saves snapshots, and stores large bodies as claim checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from stepwell.definition.graph import Graph, Limit
from stepwell.engine.actions import Write
from stepwell.engine.copying import changed
from stepwell.engine.durable.operations import with_operation
from stepwell.engine.durable.transact import Refusal
from stepwell.engine.fold import fold
from stepwell.engine.forks.branches import Branches, branch_id, parent_of
from stepwell.engine.forks.lanes import lane_at, lanes_of, stays
from stepwell.engine.forks.needs import ancestors, knowing
from stepwell.engine.names import Moment
from stepwell.engine.records import ROOT, End, Fork, Kind, Record
from stepwell.engine.starts import with_input
from stepwell.engine.stored.snapshots import decode_snapshot, encode_token
from stepwell.engine.stored.token_batches import decode_records, encode_records
from stepwell.engine.token import NEW, Token
from stepwell.limits import (
    FORKS_KEPT,
    FORKS_KEPT_BYTES,
    FORKS_KEPT_MS,
    HISTORY_BRANCHES,
    LONG_LOG_RECORDS,
    RUN_STEPS,
    SNAPSHOT_RECORDS,
)
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.log.claims import fetch, stow
from stepwell.runtime.log.due import whole_minute
from stepwell.runtime.log.kept_forks import KeptForks
from stepwell.runtime.log.lanes import Lanes, RunLane
from stepwell.runtime.log.lately import Lately
from stepwell.runtime.log.outputs import in_full
from stepwell.runtime.log.standing import ForkedParent, Forks, Standing, run_info
from stepwell.runtime.log.token_reader import TokenReader
from stepwell.runtime.log.waypoints import Waypoints
from stepwell.runtime.ports import EventTaken, Marked, Ports
from stepwell.runtime.ports.headers import Header

_FROM_OUTSIDE = frozenset({Kind.STARTED, Kind.RESUMED, Kind.ENDED})


class Logbook:
    """The log in the engine's types."""

    def __init__(
        self,
        ports: Ports,
        catalog: Catalog,
        snapshot_records: int = SNAPSHOT_RECORDS,
        max_steps: int = RUN_STEPS,
        forks_kept: int = FORKS_KEPT,
        lane: int = 0,
        long_log_records: int = LONG_LOG_RECORDS,
    ) -> None:
        """`lane`: how many branches of a new fork share a log; 0: none do."""
        self._snapshot_records, self._max_steps = snapshot_records, max_steps
        self._log, self._slots, self._runs, self._notes = ports.log, ports.slots, ports.runs, ports.notes
        self._blobs, self._clock, self._catalog = ports.blobs, ports.clock, catalog
        self._forks = KeptForks(forks_kept)
        self.pushers: Lately[tuple[str, str, int], str] = Lately(forks_kept, FORKS_KEPT_BYTES, FORKS_KEPT_MS)
        """The actor that last pushed a fork's parent past that fork, by the fork's place."""
        self._waypoints, self._lane = Waypoints(), lane
        self._reader = TokenReader(ports, forks_kept, long_log_records)
        self.lanes = Lanes(ports.log, ports.blobs)

    @property
    def limits(self) -> Mapping[str, Limit]:
        """Returns the named limits deployed now."""
        return self._catalog.limits

    async def load(
        self, run_id: str, token_id: str = ROOT, known: Forks | None = None, *, fresh: bool = False
    ) -> Standing | None:
        """Returns the token, folded from its last snapshot on; None for an unknown run or branch.

        `known`: forks that were read before: a fork does not change. `fresh`: the branch most likely has no record yet,
        which one read can tell.
        """
        place = parent_of(token_id)
        if place is None:
            header = await self._runs.get_run(run_id)
            if header is None:
                return None
            graph = await self.graph_of(header)
            at = await self._folded(Standing(header, run_info(header), graph, Token(token_id), -1))
            at = changed(at, run=with_input(at.run, at.token))
            return at if at.is_whole else None
        parent_id, slot, index = place
        fork = await self.fork(run_id, parent_id, slot, known)
        if fork is None or index >= fork.fork.width:
            return None
        lane = known.lane_of(fork.id, index) if known is not None and known.lanes else None
        begun = await self._before_first_record(fork, index, lane)
        if fork.fork.lane:
            return await self._in_lane(begun, fork, index, fresh=fresh)
        if fresh and await self._slots.is_blank(run_id, token_id):
            return await self.refreshed(begun) if begun.run.is_paused else begun
        return await self._folded(begun)

    async def _in_lane(self, begun: Standing, fork: ForkedParent, index: int, *, fresh: bool) -> Standing:
        """Returns a branch that begins in a lane. The lane is read first: a branch never moves back into it."""
        lane, at = begun.lane, begun
        if lane is None:
            lane = await self.lanes.read(begun.run_id, lane_at(fork.fork, fork.id, index))
            at = changed(begun, lane=lane)
        if records := lane.state.records(index):
            at = changed(at, token=fold(records, begun.token))
        is_own = lane.state.has_moved(index) and not at.token.ended
        if is_own and not (fresh and await self._slots.is_blank(begun.run_id, at.token.id)):
            return await self._folded(at)
        return await self.refreshed(at) if at.run.is_paused else at

    async def share_lanes(self, run_id: str, tokens: Sequence[str], known: Forks) -> list[RunLane]:
        """Reads the lanes where these branches of one fork begin, to write them together; [] if there are none."""
        place = parent_of(tokens[0])
        fork = None if place is None else await self.fork(run_id, place[0], place[1], known)
        if fork is None or not fork.fork.lane:
            return []
        indexes = [index for token in tokens if (index := int(token.rpartition(".")[2])) < fork.fork.width]
        for one in lanes_of(fork.fork, fork.id, indexes):
            known.lanes[one.name] = await self.lanes.read(run_id, one)
        return list(known.lanes.values())

    async def leave(self, at: Standing, *, at_once: bool = False) -> Standing:
        """Moves the token's next slot to its own log. Returns the token as it is then."""
        lane = at.lane_held
        if lane is None:
            return at
        await lane.leave(at.index, at.wake, at_once=at_once)
        return at.caught_up

    async def refreshed(self, at: Standing) -> Standing:
        """Returns the token with the run's header read again. A fork that was read before has an older one."""
        header = await self._runs.get_run(at.run_id)
        return at if header is None else changed(at, header=header, run=run_info(header, at.run))

    async def behind_mark(self, at: Standing, records: Sequence[Record]) -> Standing:
        """Clears the way for records. While the run is paused, the mark first goes to the slot behind them.

        pause    header ── mark in slot 5
        worker                             5 is refused: header: paused ── mark in 6 ── none in 5 ── its record in 5
        another                                                                                       6 is refused …
        """
        if at.run.is_paused and not isinstance(records[-1].next, End):
            await self.leave(at, at_once=True)
            await self._slots.mark(at.run_id, at.token.id, records[-1].slot + 1)
        if at.is_marked:
            await self._slots.unmark(at.run_id, at.token.id, records[0].slot)
        return changed(at, is_marked=False)

    async def mark(self, at: Standing) -> Standing:
        """Puts a mark in the token's next slot, so that its next writer reads the header first. Returns the token."""
        at = await self.leave(at, at_once=True)
        while not at.token.ended and not await self._slots.mark(at.run_id, at.token.id, at.token.next_slot):
            saved = await self._log.read_log(at.run_id, at.token.id, at.token.slot)
            for record in await self._reader.decoded(saved):
                at = at.after(record)
        return at

    async def _before_first_record(self, fork: ForkedParent, index: int, lane: RunLane | None = None) -> Standing:
        """Returns the branch before its first record, with the results of the branches that it needs."""
        at = changed(fork.parent, token=fork.branches.at(index), saved_slot=-1, lane=lane)
        branch = at.token.branch
        if branch is None or not branch.needs:
            return at
        before = await self.tokens_at(fork, ancestors(fork.fork, branch.index))
        known = knowing(branch, [one for one in before if one.ended])
        return changed(at, token=changed(at.token, branch=known))

    async def _folded(self, at: Standing) -> Standing:
        """Returns the token folded from its last snapshot on; `at` has what a branch gets from its parent."""
        at = await self._reader.read(at)
        return await self.refreshed(at) if at.is_marked or (at.run.is_paused and at.token.branch) else at

    async def fork(self, run_id: str, parent_id: str, slot: int, known: Forks | None = None) -> ForkedParent | None:
        """Returns the parent as it was when it forked in this slot; None if there is no such run, or no fork there.

        A warm process may return a cached one, whose header may be older.
        """
        place = (parent_id, slot)
        if known is not None and place in known:
            return known[place]
        found = self._forks.get((run_id, *place), self._clock.now_ms()) or await self._fork_read(run_id, *place, known)
        if known is not None and found is not None:
            known[place] = found
        return found

    async def _fork_read(self, run_id: str, parent_id: str, slot: int, known: Forks | None) -> ForkedParent | None:
        at = await self.load(run_id, parent_id, known)
        found = None if at is None else await self._forked(at, slot)
        if found is not None and not found.parent.token.holds(slot):
            self._forks.keep((run_id, parent_id, slot), found, self._clock.now_ms())
        return found

    async def _forked(self, at: Standing, slot: int) -> ForkedParent | None:
        if at.token.slot > slot:  # the parent went on: it has tasks, or this branch or message is late
            at = await self._turned_back(at, slot) or await self.as_it_was(at, slot)
        if at.token.slot != slot or at.token.last is None or not isinstance(at.token.last.next, Fork):
            return None
        return ForkedParent(changed(at, read=None), Branches(self.moment(at, ""), at.token))  # it is kept

    async def with_branches(self, at: Standing) -> Standing:
        """Returns the run with the members of its first node once they may begin, or with its fork's branches.

        Only the branches of a fork of one page are read. For a function's tasks these are the open operations, up to a
        hundred: a query for each record that began some. Else it costs a query for each hundred. Other runs are
        returned as they are.
        """
        if 0 < at.token.open_tasks <= HISTORY_BRANCHES and not at.token.ended:
            forks = [(await self._forked(at, slot), one.open) for slot, one in at.token.tasks.items() if one.open]
            open_ = [await self.tokens_at(fork, indexes) for fork, indexes in forks if fork is not None]
            return changed(at, branches=tuple(token for tokens in open_ for token in tokens))
        there = at.token.last.next if at.token.last is not None and not at.token.ended else None
        slot = at.token.slot if isinstance(there, Fork) and len(there.pages) == 1 else -1
        if at.graph.first.members:  # the fork follows the start of an idle run, and the wait for the run's locks
            slot = await self._slot_of_members(at)
        fork = await self._forked(at, slot) if slot >= 0 else None
        if fork is None:
            return at
        return changed(at, branches=tuple(await self.tokens_at(fork, range(fork.fork.width))))

    async def _slot_of_members(self, at: Standing) -> int:
        """Returns the slot in which a DAG forked; for a redriven run, in which it did so last."""
        slot = int(at.run.idle) + (2 if at.graph.lock else 0)
        if not at.token.origin and at.token.gathered is None:
            return slot
        limit = None if at.token.gathered is not None else slot + 4
        records = await self._reader.decoded(await self._log.read_log(at.run_id, ROOT, -1, limit))
        return max((record.slot for record in records if isinstance(record.next, Fork)), default=-1)

    async def _turned_back(self, at: Standing, slot: int) -> Standing | None:
        """Returns a function's token as it began tasks in this slot: they read nothing of its log. Else None."""
        for record in await self.lanes.own(at.run_id, at.token.id, slot - 1, 1):
            if isinstance(record.next, Fork) and record.next.is_of_tasks:
                return changed(at, token=changed(at.token, slot=slot, last=record))
        return None

    async def as_it_was(self, at: Standing, slot: int) -> Standing:
        """Returns the token at this slot. Reads the whole log up to there: only for messages after a fork closed."""
        branch = at.token.branch
        begun = Token(at.token.id)
        if branch is not None:
            begun = changed(begun, branch=branch, started_ms=at.token.started_ms, result=branch.result)
        records = await self.lanes.token(at.run_id, at.token.id, -1, slot + 1)
        return changed(at, token=fold(records, begun))

    async def branches(self, fork: ForkedParent, page: int) -> list[Standing]:
        """Returns all branches of one page, also those without a record."""
        return await self.branches_at(fork, fork.fork.page_indexes(page))

    async def logs(self, fork: ForkedParent, page: int) -> list[tuple[Standing, list[Record]]]:
        """Returns those branches of the page that have records, as they began, each with its records."""
        found = await self.page_logs(fork, page)
        return [
            (await self._before_first_record(fork, token.branch.index), log) for token, log in found if token.branch
        ]

    async def page_logs(self, fork: ForkedParent, page: int) -> list[tuple[Token, list[Record]]]:
        """Returns the same as `logs` in one query, without the results of the branches that they need."""
        logs = await self.logs_of(fork.parent.run_id, fork.fork, fork.id, page)
        branches = {branch_id(fork.id, index): index for index in fork.fork.page_indexes(page)}
        return [(fork.branches.at(branches[name]), records) for name, records in logs.items()]

    async def logs_of(self, run_id: str, fork: Fork, name: str, page: int) -> dict[str, list[Record]]:
        """Returns the records of a page's branches by token id, if they have any; one query. `name`: the fork's id."""
        return (await self.lanes.branches(run_id, fork, name, fork.page_indexes(page)))[0]

    async def branches_at(self, fork: ForkedParent, indexes: Iterable[int]) -> list[Standing]:
        """Returns these branches by ascending index, without the results of the branches that they need."""
        read = await self._branches_read(fork, indexes)
        return [changed(fork.parent, token=token, saved_slot=-1, lane=lane) for token, lane in read]

    async def tokens_at(self, fork: ForkedParent, indexes: Iterable[int]) -> list[Token]:
        """Returns the tokens of these branches, as `branches_at` does."""
        return [token for token, _ in await self._branches_read(fork, indexes)]

    async def _branches_read(self, fork: ForkedParent, indexes: Iterable[int]) -> list[tuple[Token, RunLane | None]]:
        """Reads branches, with their lanes; one query for each page."""
        found: list[tuple[Token, RunLane | None]] = []
        for _, page in groupby(indexes, fork.fork.page_of):
            wanted = list(page)
            logs, lanes = await self.lanes.branches(fork.parent.run_id, fork.fork, fork.id, wanted)
            for index in wanted:
                begun = fork.branches.at(index)
                found.append((fold(logs.get(begun.id, ()), begun), lanes.get(index)))
        return found

    async def token_before(self, run_id: str, slot: int, token_id: str = ROOT) -> Token | None:
        """Returns the last token known before `slot`: a waypoint, a snapshot, or the start. None: no such branch."""
        begun = NEW
        if (place := parent_of(token_id)) is not None:
            parent_id, fork_slot, index = place
            fork = await self.fork(run_id, parent_id, fork_slot)
            if fork is None or index >= fork.fork.width:
                return None
            begun = fork.branches.at(index)
        if slot <= 0:
            return begun
        if (kept := self._waypoints.before(run_id, token_id, slot, self._clock.now_ms())) is not None:
            return kept
        loaded = await self._log.load(run_id, token_id)
        if loaded.snapshot is None or loaded.snapshot.slot >= slot:
            return begun
        saved = decode_snapshot(await self._fetch(loaded.snapshot.body))
        return begun if saved is None else changed(saved, branch=begun.branch)

    def passed(self, run_id: str, token: Token) -> None:  # called by readers of history
        self._waypoints.keep(run_id, token, self._clock.now_ms())

    async def history(self, run_id: str, token_id: str, after: int, limit: int | None) -> Sequence[Record]:
        """Returns records with their outputs, for people and replays."""
        return await self.in_full(run_id, token_id, await self.lanes.token(run_id, token_id, after, limit))

    async def in_full(self, run_id: str, token_id: str, records: Sequence[Record]) -> list[Record]:
        """Returns the records with the outputs that they refer to, which no fold needs."""
        return await in_full(self._slots, self._blobs, run_id, token_id, records)

    async def expose(self, at: Standing, record: Record) -> None:
        """Makes a run due now, so that the sweeper finds it, before a record that moves it from outside is appended.

             caller    due: now ── append ── dies
             sweeper                           └── finds the run, and wakes it

        A run that the sweeper has not met yet needs none of this: the sweeper will find it.
        """
        header = at.header
        is_of_run = at.token.branch is None or record.kind is not Kind.ENDED  # else the run itself moved before
        if record.kind not in _FROM_OUTSIDE or not is_of_run:
            return
        now_ms = whole_minute(self._clock.now_ms())
        if header.due_ms is None or header.due_ms > now_ms:
            await self._runs.watch(at.run_id, now_ms)

    async def append(
        self, at: Standing, write: Write, records: Sequence[Record]
    ) -> Sequence[Record] | Refusal | EventTaken | Marked | None:
        """Appends the records. Returns None, or the records that hold their slots, or why nothing was written.

        `records`: the open batch, if there is one, and last the record of the write.
        """
        if at.header.watched:
            await self.expose(at, write.record)
        if at.lane is not None and (there := await self._lane_decided(at, at.lane, write)) is not None:
            return None if there is write.record else [there]
        body = await stow(encode_records(records, is_gathered=at.lane is not None), self._blobs, at.run_id)
        found = await self._log.append(
            at.run_id, at.token.id, records[0].slot, body, consumes=write.consumes, also=write.also
        )
        return decode_records(await self._fetch(found)) if isinstance(found, str) else found

    async def _lane_decided(self, at: Standing, lane: RunLane, write: Write) -> Record | None:
        """Returns the record that has this slot in the lane, written now or before; None: it is in the own log."""
        index = at.index
        if lane.state.holds(index):
            if stays(write):
                await lane.append(index, write.record, lambda: at.after(write.record).wake())
            else:
                await self.leave(at, at_once=write.record.kind is Kind.STEP)
        return lane.state.decided(index, write.record.slot)

    async def save_if_due(self, at: Standing) -> Standing:
        """Saves a snapshot if enough records follow the last one, so that loading does not grow with history.

        For a wide fork two records are enough, as each message to its branches reads the parent again. While a batch is
        open, nothing is saved.
        """
        if at.is_open:
            return at
        last = at.token.last
        is_wide = last is not None and isinstance(last.next, Fork) and last.next.width > last.next.chunk
        if at.token.slot - at.saved_slot < (2 if is_wide else self._snapshot_records):
            return at
        body = await stow(encode_token(at.token), self._blobs, at.run_id)
        await self._log.save_snapshot(at.run_id, at.token.id, at.token.slot, body)
        at = changed(at, saved_slot=at.token.slot)
        self._reader.saved(at)
        return at

    def moment(self, at: Standing, by: str, jitter: float = 0.0) -> Moment:
        now_ms, branch = self._clock.now_ms(), at.token.branch
        if branch is not None and now_ms < branch.started_ms:
            now_ms = branch.started_ms
        graph = at.graph if at.turn is None else with_operation(at.graph, at.turn)
        return Moment(
            graph, at.run, now_ms, by, jitter, self._max_steps, at.rollback, at.turn, at.permitted, at.spent, self._lane
        )

    async def graph_of(self, header: Header) -> Graph:
        return await self._catalog.pinned(header.version, self._notes)

    async def _fetch(self, body: str) -> str:
        return await fetch(body, self._blobs)
