"""Turns records and headers, as they are written, into history entries for subscribers.

An entry is made from a record and the token around it (`engine.history`). The token is remembered from the record
before: a run that goes on in the same process costs no read. A log never changes, so what is remembered is never wrong;
it may only be missing, and is then read: the header, and the log from the last snapshot before the record.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from stepwell.definition.graph import PART, Graph, Json
from stepwell.engine.entries import ENTRY_TYPES, PHASE, Entry, entry_json
from stepwell.engine.fold import apply, fold
from stepwell.engine.forks.branches import branch_id
from stepwell.engine.forks.lanes import split_lane
from stepwell.engine.history import opening, under_way
from stepwell.engine.limits.spending import is_pauser
from stepwell.engine.records import ROOT, Goto, Record, Status
from stepwell.engine.stored.batches import decode_batch
from stepwell.engine.stored.codec import encode_record
from stepwell.engine.stored.snapshots import decode_snapshot, encode_token
from stepwell.engine.stored.token_batches import decode_records
from stepwell.engine.table import Phase
from stepwell.engine.token import Token
from stepwell.errors import DefinitionError, EngineFault
from stepwell.limits import SNAPSHOT_RECORDS
from stepwell.runtime.log.claims import fetch
from stepwell.runtime.log.conditions import narrate
from stepwell.runtime.log.lanes import Lanes
from stepwell.runtime.log.outputs import in_full
from stepwell.runtime.log.shown_nodes import shown_nodes
from stepwell.runtime.log.standing import run_info
from stepwell.runtime.ports import Blobs, Log, Runs, Saved, Slots
from stepwell.runtime.ports.headers import FORK, REDRIVE, Header
from stepwell.values import dataclass

_logger = logging.getLogger("stepwell.telling")

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# Of no use to subscribers afterwards, and half of all entries.
UNTOLD = frozenset({PHASE, "run.pending", "step.started", "node.passed"})
TOLD = frozenset(ENTRY_TYPES) - UNTOLD
REMEMBERED = 500  # tokens, and as many headers
REMEMBERED_BYTES = 50_000  # per token; a larger one is read again
PAGE_RECORDS = 100  # records per read: each may hold a large output


@dataclass(frozen=True, slots=True)
class Notice:
    """A history entry for subscribers, with its run as it was right after the entry."""

    run: Header
    status: Status
    entry: Entry
    data_left_out: bool = False

    @property
    def id(self) -> str:
        """Returns the notice's id: the same each time it is told."""
        return f"{self.run.run_id}/{self.entry.id}"


def notice_json(notice: Notice) -> dict[str, Json]:
    """Returns the notice as subscribers get it: `entry` is as the history shows it."""
    run_id = notice.run.run_id
    return {
        "id": notice.id,
        "run_id": run_id,
        "workflow": notice.run.workflow,
        "version": notice.run.version,
        "status": notice.status.value,
        "tags": dict(notice.run.tags),
        "entry": entry_json(_without_code(notice.entry)),
        "data_left_out": notice.data_left_out,
        "links": {"run": f"/runs/{run_id}", "history": f"/runs/{run_id}/history"},
    }


def _without_code(entry: Entry) -> Entry:
    """Returns the entry without its error's traceback: subscribers need not see the code."""
    error = entry.data.get("error") if isinstance(entry.data, dict) else None
    if not isinstance(error, dict) or "traceback" not in error:
        return entry
    rest = {name: value for name, value in error.items() if name != "traceback"}
    return replace(entry, data={**entry.data, "error": rest})


def without_data(notice: Notice) -> Notice:
    """Returns the notice without its data, which is too large to be sent."""
    return replace(notice, entry=replace(notice.entry, data=None), data_left_out=True)


class Teller:
    """Turns changes into notices in the order in which they come, for one thread."""

    def __init__(self, log: Log, slots: Slots, runs: Runs, blobs: Blobs, remembered: int = REMEMBERED) -> None:
        self._log, self._slots, self._runs, self._blobs = log, slots, runs, blobs
        self._lanes = Lanes(log, blobs)
        self._headers: _Recent[str, Header] = _Recent(remembered)
        self._tokens: _Recent[tuple[str, str], _Stand] = _Recent(remembered)
        self.graph_of: Callable[[Header], Awaitable[Graph]] | None = None  # None: nodes have the names of the log

    def header_changed(self, before: Header | None, after: Header, has_input: bool = True) -> list[Notice]:
        """Returns the notices of a run's creation, pause, resumption or pick-up.

        A record tells of every other change of a header. `has_input`: False if `after` lacks the run's input.
        """
        self._headers.keep(after.run_id, replace(after, input=None))
        if before is None:
            notices = _notices(after, after.status, opening(Token(), run_info(after)))
            return notices if has_input else [without_data(notice) for notice in notices]
        if before.paused_ms != after.paused_ms and not after.status.terminal:
            return _notices(after, after.status, [_of_pause(before, after)])
        if not before.started_ms and after.started_ms and not _goes_on(after):
            token = Token(slot=(after.rev - 1) // 2)  # the header's `rev` says after which record
            return _notices(after, Status.RUNNING, under_way(token, run_info(after)))
        return []

    async def appended(self, run_id: str, token_id: str, slot: int, body: str) -> list[Notice]:
        """Returns the notices of a record, or of a batch of them; none for a deleted run.

        Raises EngineFault for a record that cannot follow.
        """
        header = self._headers.get(run_id) or await self._runs.get_run(run_id)
        if header is None:
            return []
        self._headers.keep(run_id, replace(header, input=None))
        body = await fetch(body, self._blobs)
        if (lane := split_lane(token_id)) is not None:
            batch = decode_batch(body, lane[0])
            records = [(branch_id(lane[0], index), one) for index, one in batch.records.items()]
        else:
            whole = await in_full(self._slots, self._blobs, run_id, token_id, decode_records(body))
            records = [(token_id, one) for one in whole]
        each = [await self._of_record(header, token, one, len(body)) for token, one in records]
        return [notice for notices in each for notice in notices]

    async def _of_record(self, header: Header, token_id: str, record: Record, size_bytes: int) -> list[Notice]:
        run_id = header.run_id
        stand = await self._before(run_id, token_id, record.slot)
        token = apply(stand.token, record)
        self._remember(run_id, _Stand(token, stand.size_bytes + size_bytes))
        if header.origin and record.at_ms < header.created_ms:
            return []  # the original run told it
        entries = await self._named(header, record, narrate(record, stand.token, token, run_info(header)))
        if header.started_ms and not _goes_on(header):  # the header has told that already
            entries = tuple(entry for entry in entries if entry.type != "run.started")
        return _notices(header, _status(token), entries)

    async def _named(self, header: Header, record: Record, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Returns the entries under the names of the definition, which is read only if they may be others."""
        following = record.next.node if isinstance(record.next, Goto) else ""
        if self.graph_of is None or not (PART in record.node or PART in following):
            return entries
        try:
            shown = shown_nodes(await self.graph_of(header))
        except (DefinitionError, EngineFault) as error:
            _logger.warning("the definition of %s cannot be read: %s", header.run_id, error)
            return entries
        return entries if shown is None else shown.told(entries)

    def forget(self, run_id: str) -> None:
        """Forgets the header of a deleted run: what a late worker writes to its log is not told.

        Its slots are free again, so such a record would have the id of another entry.
        """
        self._headers.drop(run_id)

    def _remember(self, run_id: str, stand: _Stand) -> None:
        """Keeps the token for the next record. It is measured only rarely: its records' bodies bound its size."""
        place = run_id, stand.token.id
        if stand.size_bytes > REMEMBERED_BYTES:
            stand = _Stand(stand.token, len(encode_token(stand.token)))
        if stand.token.ended or stand.size_bytes > REMEMBERED_BYTES:
            self._tokens.drop(place)
        else:
            self._tokens.keep(place, stand)

    async def _before(self, run_id: str, token_id: str, slot: int) -> _Stand:
        """Returns the token as it was before this slot."""
        if slot == 0:
            return _Stand(Token(token_id), 0)
        stand = self._tokens.get((run_id, token_id))
        if stand is None or stand.token.slot >= slot:
            stand = await self._loaded(run_id, token_id, slot)
        token, size_bytes = stand.token, stand.size_bytes
        while token.slot < slot - 1:
            page = await self._lanes.token(run_id, token_id, token.slot, min(PAGE_RECORDS, slot - 1 - token.slot))
            if not page:
                break  # `apply` names the gap
            token = fold(page, token)
            size_bytes += sum(len(encode_record(record)) for record in page)
        return _Stand(token, size_bytes)

    async def _loaded(self, run_id: str, token_id: str, slot: int) -> _Stand:
        """Returns the token of the last snapshot, folded up to `slot`; a new one if the snapshot is later than that."""
        if slot < SNAPSHOT_RECORDS:
            return _Stand(Token(token_id), 0)  # no snapshot can be before it
        loaded = await self._log.load(run_id, token_id)
        if loaded.snapshot is None or loaded.snapshot.slot >= slot:
            return _Stand(Token(token_id), 0)
        token = decode_snapshot(body := await fetch(loaded.snapshot.body, self._blobs))
        if token is None:
            return _Stand(Token(token_id), 0)  # another fold made it
        between = [saved for saved in loaded.records if saved.slot < slot]
        before = [record for record in await self._records(between) if record.slot < slot]  # a batch may go on past it
        return _Stand(fold(before, token), len(body) + sum(len(saved.body) for saved in between))

    async def _records(self, page: Iterable[Saved]) -> list[Record]:
        return [record for saved in page for record in decode_records(await fetch(saved.body, self._blobs))]


@dataclass(frozen=True, slots=True)
class _Stand:
    """A token, and an upper bound of its size in bytes."""

    token: Token
    size_bytes: int


class _Recent(Generic[K, V]):
    """A cache that evicts what was kept longest ago."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._of: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        return self._of.get(key)

    def keep(self, key: K, value: V) -> None:
        self._of[key] = value
        self._of.move_to_end(key)
        if len(self._of) > self._most:
            self._of.popitem(last=False)

    def drop(self, key: K) -> None:
        self._of.pop(key, None)


def _goes_on(run: Header) -> bool:
    """Tells whether the run has records of another one.

    A record says that it goes on, and the next one, if nothing was kept, that it was started: its header says so before
    them.
    """
    return run.origin.partition(":")[0] in {REDRIVE, FORK}


def _notices(run: Header, status: Status, entries: Iterable[Entry]) -> list[Notice]:
    about = replace(run, input=None)
    return [Notice(about, status, entry) for entry in entries if entry.type in TOLD]


def _of_pause(before: Header, after: Header) -> Entry:
    """Returns the entry of a pause's beginning or end. The number in its id is made of the pause's time."""
    place = f"{ROOT}@{after.rev // 2}"
    if after.paused_ms:
        trigger = "internal" if is_pauser(after.paused_by) else "call"
        return Entry(f"{place}.{2 * after.paused_ms}", after.paused_ms, "run.paused", ROOT, trigger=trigger,
                     by=after.paused_by, data={"reason": after.pause_reason or None})  # fmt: skip
    return Entry(f"{place}.{2 * before.paused_ms + 1}", after.changed_ms, "run.unpaused", ROOT, trigger="call")


def _status(token: Token) -> Status:
    """Returns the run's status after the token's last record. While a branch moves, the run is running."""
    if token.id != ROOT:
        return Status.RUNNING
    if token.end is not None:
        return token.end.status
    if token.undoing is not None:
        return Status.COMPENSATING
    if token.parked is not None and token.resumption is None:
        return Status.WAITING
    return Status.PENDING if token.phase is Phase.INITIALIZING else Status.RUNNING
