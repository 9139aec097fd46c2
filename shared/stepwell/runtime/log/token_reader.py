"""Reads tokens: from their last snapshot on, or from where this process has read a long log last.

message 1   snapshot at 150 ── 151 … 190 are read and folded      kept: the token at 190
message 2                                    191, 192 are read

A log only grows, and a token at a slot never changes: whoever continues from it gets what it gets from the start.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.engine.copying import changed
from stepwell.engine.fold import fold
from stepwell.engine.records import Record
from stepwell.engine.stored.snapshots import decode_snapshot
from stepwell.engine.stored.token_batches import decode_records
from stepwell.engine.token import Token
from stepwell.limits import FORKS_KEPT_BYTES, FORKS_KEPT_MS
from stepwell.runtime.log.claims import claim_of, fetch
from stepwell.runtime.log.lately import Lately
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.ports import Ports, Saved
from stepwell.values import dataclass


@dataclass(frozen=True, slots=True)
class _Kept:
    """A token as it was read last."""

    token: Token
    saved_slot: int  # of its last snapshot
    size_bytes: int  # of what was read for it


class TokenReader:
    """Reads tokens, and keeps those with long logs for the next messages to this process."""

    def __init__(self, ports: Ports, kept: int, long_log_records: int) -> None:
        """`kept`: how many tokens, each with `long_log_records` or more after its snapshot: of others, all is read."""
        self._log, self._blobs, self._clock, self._least = ports.log, ports.blobs, ports.clock, long_log_records
        self._tokens: Lately[tuple[str, int, str], _Kept] = Lately(kept, FORKS_KEPT_BYTES, FORKS_KEPT_MS)

    async def read(self, at: Standing) -> Standing:
        """Returns the token as its log has it; `at` has what a branch gets from its parent."""
        kept = self._tokens.get(_key(at), self._clock.now_ms())
        if kept is None:
            return await self._read_from_snapshot(at)
        loaded = await self._log.load(at.run_id, at.token.id, kept.token.slot)
        if kept.token.ended and loaded.records:  # it was redriven; or deleted, and a late worker began its log anew
            return await self._read_from_snapshot(at)
        at = changed(at, saved_slot=kept.saved_slot, is_marked=loaded.is_marked)
        return await self._folded(at, kept.token, loaded.records, kept.size_bytes)

    async def _read_from_snapshot(self, at: Standing) -> Standing:
        """Returns the token, folded from its last snapshot on; from its start if another fold made the snapshot."""
        loaded = await self._log.load(at.run_id, at.token.id)
        at, records = changed(at, saved_slot=-1, is_marked=loaded.is_marked), loaded.records
        if loaded.snapshot is None:
            return await self._folded(at, at.token, records)
        snapshot = await fetch(loaded.snapshot.body, self._blobs)
        saved = decode_snapshot(snapshot)
        if saved is None:
            return await self._folded(at, at.token, await self._log.read_log(at.run_id, at.token.id))
        return await self._folded(changed(at, saved_slot=saved.slot), saved, records, len(snapshot))

    async def _folded(self, at: Standing, token: Token, saved: Sequence[Saved], known_bytes: int = 0) -> Standing:
        token = token if token.branch is at.token.branch else changed(token, branch=at.token.branch)
        records = await self.decoded(saved)
        at = changed(at, token=fold(records, token), read=tuple(records) if token.slot < 0 else None)
        if at.token.slot - at.saved_slot >= self._least:
            self._keep(at, known_bytes + sum(len(one.body) for one in saved))
        return at

    def saved(self, at: Standing) -> None:
        """Notes that the token has a newer snapshot now, so that its next message does not save one again."""
        if (kept := self._tokens.get(_key(at), self._clock.now_ms())) is not None:
            self._keep(changed(at, token=kept.token), kept.size_bytes)

    def _keep(self, at: Standing, size_bytes: int) -> None:
        self._tokens.keep(_key(at), _Kept(at.token, at.saved_slot, size_bytes), size_bytes, self._clock.now_ms())

    async def decoded(self, saved: Sequence[Saved]) -> list[Record]:
        """Returns the records of these items."""
        bodies = [await fetch(one.body, self._blobs) if claim_of(one.body) else one.body for one in saved]
        return [record for body in bodies for record in decode_records(body)]


def _key(at: Standing) -> tuple[str, int, str]:
    """A deleted run's id may be another run's, which was created later."""
    return at.run_id, at.header.created_ms, at.token.id
