"""Exports: what a replay needs of a run: its header's facts and definition, then the records of all its tokens.

    token 0, slot by slot ── then the branches of its first fork, each with its own forks ── then those of the next

The order follows places in the logs, so a page begins where the last one ended, whatever was written meanwhile.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TypeAlias

from stepwell.definition.graph import Json
from stepwell.engine.copying import changed
from stepwell.engine.fold import fold
from stepwell.engine.forks.branches import branch_id, fork_id, is_branch_id, without_lanes
from stepwell.engine.records import ROOT, Fork, Kind
from stepwell.engine.starts import input_of
from stepwell.engine.stored.codec import encode_record
from stepwell.engine.stored.token_batches import decode_records, is_batch
from stepwell.engine.token import Token
from stepwell.errors import InvalidInput
from stepwell.limits import BATCH_RECORDS, EXPORT_BYTES
from stepwell.runtime.log.claims import fetch
from stepwell.runtime.log.lanes import Lanes
from stepwell.runtime.log.outputs import in_full
from stepwell.runtime.ports import Ports, Saved
from stepwell.runtime.ports.headers import STARTS, Header
from stepwell.runtime.stores.jsontext import encode
from stepwell.values import dataclass

FORMAT = "stepwell.export/1"
Place: TypeAlias = tuple[tuple[int, int], ...]  # (fork's slot, index) for each branch on the way, then (-1, slot)

_CURSOR = re.compile(r"(0[0-9/.]{0,400})@(-1|[0-9]{1,9})")
_TOGETHER = 100  # records whose outputs are read at once
_NONE, _ALL = -1, 1 << 62  # slots before and after all others


@dataclass(frozen=True, slots=True)
class ExportPage:
    """Some lines of an export, and the cursor of the next page; "" if this is the last one."""

    items: tuple[Json, ...]
    next_cursor: str = ""


async def read_export(ports: Ports, header: Header, cursor: str, limit: int) -> ExportPage:
    """Returns the lines after the cursor: at most `limit`, and about EXPORT_BYTES. Raises InvalidInput."""
    after = _place_of_cursor(cursor) if cursor else ()
    items: list[Json] = [] if after else [await _facts(ports, header)]
    at, size_bytes = cursor or f"{ROOT}@-1", sum(len(encode(one)) for one in items)
    async for token, slot, body in _Walk(ports, header.run_id, after).token(ROOT):
        size_bytes += len(body)
        if len(items) == limit or (items and size_bytes > EXPORT_BYTES):
            return ExportPage(tuple(items), at)
        items.append({"token": token, "record": _shown(body)})
        at = f"{token}@{slot}"
    return ExportPage(tuple(items))


async def _facts(ports: Ports, header: Header) -> Json:
    """Returns the first line: the definition, and of the header only what a replay needs."""
    definition = await ports.notes.get_definition(header.version)
    run = {
        "run_id": header.run_id,
        "workflow": header.workflow,
        "version": header.version,
        "status": header.status.value,
        "input": await _given(ports, header),
        "created_ms": header.created_ms,
        "started_ms": header.started_ms,
        "start_at_ms": header.start_at_ms,
        "idle": header.idle,
    }
    return {"format": FORMAT, "run": run, "definition": None if definition is None else json.loads(definition)}


async def _given(ports: Ports, header: Header) -> Json:
    """Returns the run's input; if several starts were gathered into the run, it is in the log."""
    if not header.origin.startswith(f"{STARTS}:"):
        return header.input
    saved = await ports.log.read_log(header.run_id, ROOT)
    records = [record for one in saved for record in decode_records(await fetch(one.body, ports.blobs))]
    starts = fold((record for record in records if record.kind is Kind.GATHERED), Token())
    return None if starts.gathered is None else input_of(starts.gathered)


def _shown(body: str) -> Json:
    """Returns a record as an export has it: as if each branch had its own log."""
    raw = json.loads(body)
    is_shared = isinstance(raw.get("next"), dict) and raw["next"].get("lane")
    return json.loads(encode_record(without_lanes(*decode_records(body)))) if is_shared else raw


@dataclass(frozen=True, slots=True)
class _Walk:
    """Walks over all records of a run that follow a place."""

    ports: Ports
    run_id: str
    after: Place

    async def token(self, token: str, read: Sequence[Saved] | None = None) -> AsyncIterator[tuple[str, int, str]]:
        """Yields the token's own records, then its forks'. `read`: its log, if it was read with others of its page."""
        last = self._slot_passed(token)
        log = await self._log(token, last) if read is None else read
        bodies = self._bodies([saved for saved in log if saved.slot > last - BATCH_RECORDS])
        async for group in _grouped(bodies, last):
            for slot, body in await self._in_full(token, group):
                yield token, slot, body
        if read is None and last > _NONE:
            log = await self._log(token, _NONE)
        for slot, fork in await self._forks(log):
            async for found in self._fork(token, slot, fork):
                yield found

    def _slot_passed(self, token: str) -> int:
        """Returns the last slot of the token that an earlier page had; _NONE if none, _ALL if that had them all."""
        own = _path(token)
        if self.after and self.after[:-1] == own:
            return self.after[-1][1]
        return _ALL if self.after > (*own, (-1, _ALL)) else _NONE

    async def _fork(self, token: str, slot: int, fork: Fork) -> AsyncIterator[tuple[str, int, str]]:
        for page in fork.pages:
            indexes = fork.page_indexes(page)
            if self.after > (*_path(token), (slot, indexes[-1]), (_ALL, 0)):
                continue
            names = [branch_id(fork_id(token, slot), index) for index in indexes]
            logs = await self._page(fork_id(token, slot), fork, page)
            for name in names:
                if name in logs and self.after < (*_path(name), (_ALL, 0)):
                    async for found in self.token(name, logs[name]):
                        yield found

    async def _page(self, name: str, fork: Fork, page: int) -> Mapping[str, Sequence[Saved]]:
        """Returns the logs of a fork's page; records in lanes are shown as each branch's own."""
        names = [branch_id(name, index) for index in fork.page_indexes(page)]
        if not fork.lane:
            return await self.ports.log.read_logs(self.run_id, names)
        logs, _ = await Lanes(self.ports.log, self.ports.blobs).branches(
            self.run_id, fork, name, fork.page_indexes(page)
        )
        return {token: [Saved(one.slot, encode_record(one)) for one in records] for token, records in logs.items()}

    async def _log(self, token: str, after: int) -> Sequence[Saved]:
        """Returns the token's records from a slot on, with the batch that this slot may be part of."""
        since = max(after - BATCH_RECORDS, -1)
        return [] if after == _ALL else await self.ports.log.read_log(self.run_id, token, since)

    async def _bodies(self, records: Sequence[Saved]) -> AsyncIterator[tuple[int, str]]:
        """Yields (slot, body) of each record, those of a batch one by one."""
        for saved in records:
            body = await fetch(saved.body, self.ports.blobs)
            found = decode_records(body) if is_batch(body) else ()
            for record in found:
                yield record.slot, encode_record(changed(record, together=0))
            if not found:
                yield saved.slot, body

    async def _in_full(self, token: str, bodies: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
        """Returns the records with the outputs that they refer to, so that readers need not look them up."""
        referring = [record for _, body in bodies if '"output_at":' in body for record in decode_records(body)]
        whole = await in_full(self.ports.slots, self.ports.blobs, self.run_id, token, referring)
        shown = {record.slot: encode_record(changed(record, output_at=-1)) for record in whole}
        return [(slot, shown.get(slot, body)) for slot, body in bodies]

    async def _forks(self, records: Sequence[Saved]) -> list[tuple[int, Fork]]:
        """Returns the forks among the records, each with its slot."""
        decoded = [decode_records(body) async for _, body in self._bodies(records)]
        return [(one.slot, one.next) for found in decoded for one in found if isinstance(one.next, Fork)]


def _path(token: str) -> Place:
    steps = (step.partition(".") for step in token.split("/")[1:])
    return tuple((int(slot), int(index)) for slot, _, index in steps)


async def _grouped(bodies: AsyncIterator[tuple[int, str]], last: int) -> AsyncIterator[list[tuple[int, str]]]:
    """Yields the bodies after slot `last` in groups: a page reads only as many large outputs as it has room for."""
    group: list[tuple[int, str]] = []
    size_bytes = 0
    async for slot, body in bodies:
        if slot > last:
            group.append((slot, body))
            size_bytes += len(body)
        if len(group) == _TOGETHER or size_bytes > EXPORT_BYTES:
            yield group
            group, size_bytes = [], 0
    yield group


def _place_of_cursor(cursor: str) -> Place:
    found = _CURSOR.fullmatch(cursor)
    if found is None or not (found[1] == ROOT or is_branch_id(found[1])):
        raise InvalidInput(f"{cursor[:80]!r} is no cursor of an export", code="bad_cursor", hint="pass next_cursor")
    return (*_path(found[1]), (-1, int(found[2])))
