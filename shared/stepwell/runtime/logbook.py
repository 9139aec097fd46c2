"""Reading and writing a token's log: bodies to records, snapshots, claim checks for what is large."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from stepwell.definition.graph import DEFAULT_POOL, Graph
from stepwell.engine.codec import decode_record, decode_token, encode_record, encode_token
from stepwell.engine.names import Moment
from stepwell.engine.records import ROOT, Record, RunInfo
from stepwell.engine.token import Token, apply, fold
from stepwell.limits import CLAIM_CHECK_BYTES, RUN_STEPS, SNAPSHOT_RECORDS
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.messages import Wake
from stepwell.runtime.ports import Blobs, Header, Ports


@dataclass(frozen=True, slots=True)
class Standing:
    """A token as its log has it now, with what is needed to move it."""

    header: Header
    run: RunInfo
    graph: Graph
    token: Token
    saved_slot: int  # of its last snapshot, -1 for none

    @property
    def run_id(self) -> str:
        return self.header.run_id

    def wake(self, hops: int = 0) -> Wake:
        """Says that the token's last record wants pushing on, to the workers who run the step where it stands."""
        pool = pool_at(self.graph, self.token.node or self.graph.start)
        return Wake(self.run_id, self.token.slot, self.token.id, pool, hops)

    def after(self, record: Record) -> Standing:
        return replace(self, token=apply(self.token, record))


class Logbook:
    """The store seen through the engine's eyes."""

    def __init__(
        self,
        ports: Ports,
        catalog: Catalog,
        snapshot_records: int = SNAPSHOT_RECORDS,
        max_steps: int = RUN_STEPS,
    ) -> None:
        self._snapshot_records, self._max_steps = snapshot_records, max_steps
        self._store, self._blobs, self._clock = ports.store, ports.blobs, ports.clock
        self._catalog = catalog

    async def load(self, run_id: str, token_id: str = ROOT) -> Standing | None:
        """The token folded from its last snapshot and what follows it; None for an unknown run."""
        header = await self._store.get_run(run_id)
        if header is None:
            return None
        graph = await self._catalog.pinned(header.version, self._store)
        loaded = await self._store.load(run_id, token_id)
        token, saved_slot = Token(token_id), -1
        if loaded.snapshot is not None:
            token, saved_slot = decode_token(await self._fetch(loaded.snapshot.body)), loaded.snapshot.slot
        records = [decode_record(await self._fetch(saved.body)) for saved in loaded.records]
        return Standing(header, run_info(header), graph, fold(records, token), saved_slot)

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
        body = await stow(encode_record(record), self._blobs)
        winner = await self._store.append(at.run_id, at.token.id, record.slot, body)
        return None if winner is None else decode_record(await self._fetch(winner))

    async def save_if_due(self, at: Standing) -> Standing:
        """A snapshot each time enough records follow the last, so that loading does not grow with history."""
        if at.token.slot - at.saved_slot < self._snapshot_records:
            return at
        body = await stow(encode_token(at.token), self._blobs)
        await self._store.save_snapshot(at.run_id, at.token.id, at.token.slot, body)
        return replace(at, saved_slot=at.token.slot)

    def moment(self, at: Standing, by: str, jitter: float = 0.0) -> Moment:
        return Moment(at.graph, at.run, self._clock.now_ms(), by, jitter, self._max_steps)

    async def _fetch(self, body: str) -> str:
        return await fetch(body, self._blobs)


_CLAIM = '{"claim":'  # no record or snapshot begins so: their first field is another
_WIDEST = 4  # bytes of a character in UTF-8


async def stow(body: str, blobs: Blobs) -> str:
    """The body itself, or for a large one a claim check on the blob that holds it."""
    if len(body) * _WIDEST <= CLAIM_CHECK_BYTES or len(data := body.encode()) <= CLAIM_CHECK_BYTES:
        return body
    return f"{_CLAIM}{json.dumps(await blobs.put(data))}}}"


async def fetch(body: str, blobs: Blobs) -> str:
    """The inverse of `stow`."""
    if not body.startswith(_CLAIM):
        return body
    return (await blobs.get(json.loads(body)["claim"])).decode()


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
