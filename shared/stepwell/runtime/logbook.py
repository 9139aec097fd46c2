"""Reading and writing a token's log: bodies to records, snapshots, claim checks for what is large."""

from __future__ import annotations

import json
import marshal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeAlias

from stepwell.definition.graph import DEFAULT_POOL, Graph
from stepwell.engine.codec import decode_record, decode_token, encode_record, encode_token
from stepwell.engine.dag import ancestors, knowing
from stepwell.engine.fold import apply, fold
from stepwell.engine.forks import Branches, branch_id, fork_id, page_indexes, page_of, parent_of
from stepwell.engine.functions import with_operation
from stepwell.engine.names import Moment, Undo, node_of
from stepwell.engine.parts import completes
from stepwell.engine.records import ROOT, Fork, Kind, Record, Resumption, RunInfo
from stepwell.engine.token import Token
from stepwell.engine.transact import Refusal, TableWrite
from stepwell.engine.turns import Turn
from stepwell.errors import EngineFault
from stepwell.limits import (
    CLAIM_CHECK_BYTES,
    FORK_CHUNK,
    FORKS_KEPT,
    FORKS_KEPT_BYTES,
    FORKS_KEPT_MS,
    PAGE_BRANCHES,
    RUN_STEPS,
    SNAPSHOT_RECORDS,
)
from stepwell.runtime.blobs import of_run
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.lately import Lately
from stepwell.runtime.messages import Wake
from stepwell.runtime.ports import Blobs, Header, Ports, Saved


@dataclass(frozen=True, slots=True)
class Standing:
    """A token as its log has it now, with what is needed to move it."""

    header: Header
    run: RunInfo
    graph: Graph
    token: Token
    saved_slot: int  # of its last snapshot, -1 for none
    dag: tuple[Token, ...] = ()  # the steps of a DAG, read only for who shows them
    branches: tuple[Token, ...] = ()  # of the fork of one page where it stands, read only for who shows them
    rollback: tuple[Undo, ...] | None = None  # of a run that is being undone, once it was read
    turn: Turn | None = None  # of a durable function, once it was asked what follows the last record

    @property
    def run_id(self) -> str:
        return self.header.run_id

    def wake(self, hops: int = 0) -> Wake:
        """Says that the token's last record wants pushing on, to the workers who run the step where it stands."""
        pool = pool_at(self.graph, node_of(self.graph, self.token))
        return Wake(self.run_id, self.token.slot, self.token.id, pool, hops)

    def after(self, record: Record) -> Standing:
        return replace(self, token=apply(self.token, record), turn=None)


@dataclass(frozen=True, slots=True)
class ForkedParent:
    """A token as it stood when it forked, and its branches."""

    parent: Standing
    branches: Branches

    @property
    def fork(self) -> Fork:
        last = self.parent.token.last
        if last is None or not isinstance(last.next, Fork):
            raise EngineFault(f"{self.parent.token.id} stands at no fork", code="broken_log")
        return last.next

    @property
    def id(self) -> str:
        return fork_id(self.parent.token.id, self.parent.token.slot)


Forks: TypeAlias = dict[tuple[str, int], ForkedParent]


class Logbook:
    """The store seen through the engine's eyes."""

    def __init__(
        self,
        ports: Ports,
        catalog: Catalog,
        snapshot_records: int = SNAPSHOT_RECORDS,
        max_steps: int = RUN_STEPS,
        forks_kept: int = FORKS_KEPT,
    ) -> None:
        self._snapshot_records, self._max_steps = snapshot_records, max_steps
        self._store, self._blobs, self._clock = ports.store, ports.blobs, ports.clock
        self._catalog = catalog
        self._forks: Lately[tuple[str, str, int], ForkedParent] = Lately(forks_kept, FORKS_KEPT_BYTES, FORKS_KEPT_MS)
        self.pushers: Lately[tuple[str, str, int], str] = Lately(forks_kept, FORKS_KEPT_BYTES, FORKS_KEPT_MS)
        """Who pushed a fork's parent when it was last seen, past that fork."""

    async def load(
        self, run_id: str, token_id: str = ROOT, known: Forks | None = None, *, fresh: bool = False
    ) -> Standing | None:
        """The token folded from its last snapshot and what follows it; None for an unknown run.

        `known`: forks that were read before. A fork stands still, so they need not be read again.
        `fresh`: most likely a branch has no record yet, which one read tells.
        """
        place = parent_of(token_id)
        if place is None:
            header = await self._store.get_run(run_id)
            if header is None:
                return None
            graph = await self._catalog.pinned(header.version, self._store)
            return await self._folded(Standing(header, run_info(header), graph, Token(token_id), -1))
        parent_id, slot, index = place
        fork = await self.fork(run_id, parent_id, slot, known)
        if fork is None or index >= fork.fork.width:
            return None
        begun = await self._begun(fork, index)
        if fresh and not await self._store.read_log(run_id, token_id, limit=1):
            return begun
        return await self._folded(begun)

    async def _begun(self, fork: ForkedParent, index: int) -> Standing:
        """The branch before its first record. A DAG's step has what those before it brought."""
        at = replace(fork.parent, token=fork.branches.at(index), saved_slot=-1)
        branch = at.token.branch
        if branch is None or not at.graph.dag or not at.graph.dag.get(branch.start):
            return at
        before = await self._folded_branches(fork, ancestors(at.graph.dag, branch.start))
        known = knowing(branch, [one for one in before if one.ended])
        return replace(at, token=replace(at.token, branch=known))

    async def _folded(self, at: Standing) -> Standing:
        """From its last snapshot on; what a branch has of its parent is in `at` already."""
        loaded = await self._store.load(at.run_id, at.token.id)
        token, saved_slot = at.token, -1
        if loaded.snapshot is not None:
            saved = decode_token(await self._fetch(loaded.snapshot.body))
            token, saved_slot = replace(saved, branch=token.branch), loaded.snapshot.slot
        return replace(at, token=fold(await self._decoded(loaded.records), token), saved_slot=saved_slot)

    async def fork(self, run_id: str, parent_id: str, slot: int, known: Forks | None = None) -> ForkedParent | None:
        """The parent as it was when it forked in this slot. None: no such run, or it has no fork there.

        A warm process may have it still, with the run's header as it was.
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
        if found is not None:
            self._forks.keep((run_id, parent_id, slot), found, _size_bytes(found.parent), self._clock.now_ms())
        return found

    async def _forked(self, at: Standing, slot: int) -> ForkedParent | None:
        if at.token.slot > slot:  # it has gone on: of an abandoned branch, or of a late message
            at = await self._as_it_was(at, slot)
        if at.token.slot != slot or at.token.last is None or not isinstance(at.token.last.next, Fork):
            return None
        return ForkedParent(at, Branches(self.moment(at, ""), at.token))

    async def with_dag(self, at: Standing) -> Standing:
        """The run with its steps where it is a DAG that has begun; a query for each hundred. Others as they are."""
        fork = await self._forked(at, int(at.run.idle)) if at.graph.dag else None  # slot 0 of an idle run: its start
        if fork is None:
            return at
        return replace(at, dag=tuple(await self._folded_branches(fork, range(fork.fork.width))))

    async def with_branches(self, at: Standing) -> Standing:
        """The run with its branches where it stands at a fork of one page, for one query. Others as they are."""
        fork = at.token.last.next if at.token.last is not None and not at.token.ended else None
        if at.graph.dag or not isinstance(fork, Fork) or not 0 < fork.width <= PAGE_BRANCHES:
            return at
        parent = ForkedParent(at, Branches(self.moment(at, ""), at.token))
        return replace(at, branches=tuple(await self._folded_branches(parent, range(fork.width))))

    async def _as_it_was(self, at: Standing, slot: int) -> Standing:
        """The whole log is read up to there: only for what comes after a fork has closed."""
        begun = Token(at.token.id, branch=at.token.branch, started_ms=at.token.started_ms if at.token.branch else 0,
                      result=at.token.branch.result if at.token.branch else None)  # fmt: skip
        saved = await self._store.read_log(at.run_id, at.token.id, -1, slot + 1)
        return replace(at, token=fold(await self._decoded(saved), begun))

    async def branches(self, fork: ForkedParent, page: int) -> list[Standing]:
        """All branches of one page, those without a record too."""
        return await self.branches_at(fork, page_indexes(fork.fork.width, page))

    async def logs(self, fork: ForkedParent, page: int) -> list[tuple[Standing, list[Record]]]:
        """Each branch of the page as it began, and its records: those that have any."""
        indexes = page_indexes(fork.fork.width, page)
        names = {branch_id(fork.id, index): index for index in indexes}
        logs = await self._store.read_logs(fork.parent.run_id, list(names))
        return [(await self._begun(fork, names[name]), await self._decoded(saved)) for name, saved in logs.items()]

    async def branches_at(self, fork: ForkedParent, indexes: Iterable[int]) -> list[Standing]:
        """By index, ascending. A DAG's steps know nothing here of those before them."""
        tokens = await self._folded_branches(fork, indexes)
        return [replace(fork.parent, token=token, saved_slot=-1) for token in tokens]

    async def _folded_branches(self, fork: ForkedParent, indexes: Iterable[int]) -> list[Token]:
        """By index, ascending; one query for each page."""
        found: list[Token] = []
        for _, page in groupby(indexes, page_of):
            tokens = [fork.branches.at(index) for index in page]
            logs = await self._store.read_logs(fork.parent.run_id, [token.id for token in tokens])
            found += [fold(await self._decoded(logs.get(token.id, ())), token) for token in tokens]
        return found

    async def _decoded(self, saved: Sequence[Saved]) -> list[Record]:
        return [decode_record(await self._fetch(one.body)) for one in saved]

    async def token_before(self, run_id: str, slot: int) -> Token:
        """The token from which the records of `slot` and later can be told: the last snapshot, or the very start."""
        loaded = await self._store.load(run_id, ROOT)
        if loaded.snapshot is None or loaded.snapshot.slot >= slot:
            return Token()
        return decode_token(await self._fetch(loaded.snapshot.body))

    async def history(self, run_id: str, token_id: str, after: int, limit: int | None) -> Sequence[Record]:
        """Records as they were written, for people."""
        saved = await self._store.read_log(run_id, token_id, after, limit)
        return [decode_record(await self._fetch(one.body)) for one in saved]

    async def append(self, at: Standing, record: Record) -> Record | None:
        """None when this record took its slot, else the record that holds it."""
        body = await stow(encode_record(record), self._blobs, at.run_id)
        winner = await self._store.append(at.run_id, at.token.id, record.slot, body)
        return None if winner is None else decode_record(await self._fetch(winner))

    async def append_with(self, at: Standing, record: Record, writes: Sequence[TableWrite]) -> Record | Refusal | None:
        """As `append`, with the user's own writes in the same transaction. A Refusal: nothing was written."""
        body = await stow(encode_record(record), self._blobs, at.run_id)
        found = await self._store.append_with(at.run_id, at.token.id, record.slot, body, writes)
        return decode_record(await self._fetch(found)) if isinstance(found, str) else found

    async def save_if_due(self, at: Standing) -> Standing:
        """A snapshot each time enough records follow the last, so that loading does not grow with history.

        And of a wide fork, whose parent is read again by each message to its branches.
        """
        last = at.token.last
        is_wide = last is not None and isinstance(last.next, Fork) and last.next.width > FORK_CHUNK
        if at.token.slot - at.saved_slot < (2 if is_wide else self._snapshot_records):
            return at
        body = await stow(encode_token(at.token), self._blobs, at.run_id)
        await self._store.save_snapshot(at.run_id, at.token.id, at.token.slot, body)
        return replace(at, saved_slot=at.token.slot)

    def moment(self, at: Standing, by: str, jitter: float = 0.0) -> Moment:
        forked_ms = at.token.branch.started_ms if at.token.branch else 0
        now_ms = max(self._clock.now_ms(), forked_ms)
        return Moment(
            with_operation(at.graph, at.turn), at.run, now_ms, by, jitter, self._max_steps, at.rollback, at.turn
        )

    def resumed(self, at: Standing, by: str, came: Resumption) -> Record:
        """What ended the wait, or a part of what it is for: for the next slot."""
        last = at.token.last
        at_ms = max(self.moment(at, by).now_ms, last.at_ms if last else 0)
        kind = Kind.RESUMED if completes(at.token, came) else Kind.RECEIVED
        return Record(at.token.next_slot, kind, by, at_ms, at.token.node, resumption=came)

    async def _fetch(self, body: str) -> str:
        return await fetch(body, self._blobs)


def _size_bytes(at: Standing) -> int:
    """About what a token holds: with the run's input, and what a branch has of its parents."""
    token, branch = at.token, at.token.branch
    outputs = [view.output for view in token.steps.values()]
    outer = [branch.item, dict(branch.state)] if branch else []
    held = [dict(token.scope), outputs, token.result, at.run.input, outer]
    return len(marshal.dumps(held, 2))  # four times as fast as to make JSON of it


_CLAIM = '{"claim":'  # no record or snapshot begins so: their first field is another
_WIDEST = 4  # bytes of a character in UTF-8


async def stow(body: str, blobs: Blobs, run_id: str = "") -> str:
    """The body itself, or for a large one a claim check on the run's blob that holds it; nobody's without one."""
    if len(body) * _WIDEST <= CLAIM_CHECK_BYTES or len(data := body.encode()) <= CLAIM_CHECK_BYTES:
        return body
    reference = await blobs.put(data, of_run(run_id) if run_id else "")
    return f"{_CLAIM}{json.dumps(reference)}}}"


async def fetch(body: str, blobs: Blobs) -> str:
    """The inverse of `stow`."""
    reference = claim_of(body)
    return (await blobs.get(reference)).decode() if reference else body


def claim_of(body: str) -> str:
    """The reference to the blob that a stowed body stands for; empty where it is the body itself."""
    return str(json.loads(body)["claim"]) if body.startswith(_CLAIM) else ""


def run_info(header: Header) -> RunInfo:
    """What the engine may know of a run."""
    return RunInfo(
        run_id=header.run_id,
        workflow=header.workflow,
        version=header.version,
        input=header.input,
        created_ms=header.created_ms,
        started_ms=header.started_ms,
        idle=header.idle,
        start_at_ms=header.start_at_ms,
    )


def pool_at(graph: Graph, name: str) -> str:
    """The pool that the definition names for this node's step; the function's own decorator is not known here."""
    node = graph.nodes.get(name)
    return (node.step.pool if node and node.step else None) or DEFAULT_POOL
