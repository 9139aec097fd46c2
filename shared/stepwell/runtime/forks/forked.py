"""Which forks a run's logs tell of, the innermost first: for who deletes what they left.

A wait for child runs leaves the set of those that ended, as a fork of one page does.
"""

from __future__ import annotations

from typing import TypeAlias

from stepwell.engine.codec import decode_record
from stepwell.engine.forks import branch_id, fork_id
from stepwell.engine.records import ROOT, Fork, Record
from stepwell.runtime.log.claims import fetch
from stepwell.runtime.ports import Blobs, Log, Saved

Found: TypeAlias = list[tuple[str, int, int]]


async def forks_of(log: Log, blobs: Blobs, run_id: str) -> Found:
    """(id, width, pages) of each fork. One query for each page."""
    found: Found = []
    for saved in await log.read_log(run_id, ROOT):
        await _add(log, blobs, run_id, ROOT, saved, found)
    return found


async def _add(log: Log, blobs: Blobs, run_id: str, token: str, saved: Saved, found: Found) -> None:
    record: Record = decode_record(await fetch(saved.body, blobs))
    if record.parked is not None and len(record.parked.children) > 1:
        found.append((fork_id(token, record.slot), len(record.parked.children), 1))
    if not isinstance(record.next, Fork):
        return
    fork = fork_id(token, record.slot)
    for page in record.next.pages:
        logs = await log.read_logs(run_id, [branch_id(fork, index) for index in record.next.page_indexes(page)])
        for branch, records in logs.items():
            for one in records:
                await _add(log, blobs, run_id, branch, one, found)
    found.append((fork, record.next.width, len(record.next.pages)))
