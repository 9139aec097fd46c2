"""Reads a run's history page by page, folding the log from the last snapshot before the page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from stepwell.engine.entries import PHASE, Entry, place_of
from stepwell.engine.fold import apply
from stepwell.engine.history import narrate, opening, under_way
from stepwell.engine.records import RunInfo
from stepwell.engine.token import Token
from stepwell.errors import InvalidInput
from stepwell.limits import PAGE_ITEMS_MAX
from stepwell.runtime.calls.service import Service
from stepwell.runtime.log.logbook import run_info

_BEFORE_ALL = (-2, 0)


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """A page of entries, oldest first, and whether there are more."""

    entries: tuple[Entry, ...]
    more: bool


async def read_history(service: Service, run_id: str, after: str, limit: int, *, phases: bool = False) -> HistoryPage:
    """The entries that follow the one with the id `after`. Raises NotFound, InvalidInput.

    `phases`: the changes of phase too.
    """
    place = place_of(after) if after else _BEFORE_ALL
    if place is None:
        raise InvalidInput(f"{after[:80]!r} is not the id of an entry", code="bad_cursor",
                           hint="pass the `id` of the last known entry, or next_cursor")  # fmt: skip
    found: list[Entry] = []
    async for entry in _entries(service, run_id, place):
        if entry.type == PHASE and not phases:
            continue
        if len(found) == limit:
            return HistoryPage(tuple(found), True)
        found.append(entry)
    return HistoryPage(tuple(found), False)


async def last_entry(service: Service, run_id: str, slot: int) -> Entry | None:
    """Returns the newest entry of the record in `slot`, or of an earlier one."""
    newest = None
    async for entry in _entries(service, run_id, (slot, -1)):
        newest = entry
    return newest


async def _entries(service: Service, run_id: str, after: tuple[int, int]) -> AsyncIterator[Entry]:
    run = run_info(await service.header(run_id))
    token = await service.token_before(run_id, after[0])
    for entry in opening(Token(), run) if token.last is None else ():
        if (place_of(entry.id) or after) > after:
            yield entry
    while records := await service.records(run_id, token.slot, PAGE_ITEMS_MAX):
        for record in records:
            before, token = token, apply(token, record)
            if record.slot >= after[0]:
                for entry in narrate(record, before, token, run):
                    if (place_of(entry.id) or after) > after:
                        yield entry
    for entry in _still_to_come(token, run, after):
        yield entry


def _still_to_come(token: Token, run: RunInfo, after: tuple[int, int]) -> list[Entry]:
    return [entry for entry in under_way(token, run) if (place_of(entry.id) or after) > after]
