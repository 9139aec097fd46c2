"""Reads a run's history page by page."""

from __future__ import annotations

from stepwell.engine.entries import PHASE, Entry, place_of, token_of
from stepwell.engine.records import ROOT
from stepwell.errors import NotFound
from stepwell.runtime.calls.newest import newest_of
from stepwell.runtime.calls.service import Service
from stepwell.runtime.log.standing import Standing
from stepwell.values import dataclass

_LAST = 999_999_999  # the number of no entry: all others of its record come before


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """A page of entries, oldest first, and whether there are more."""

    entries: tuple[Entry, ...]
    more: bool


async def read_history(
    service: Service, run_id: str, after: str, limit: int, *, token: str = ROOT, phases: bool = False
) -> HistoryPage:
    """Returns the entries of a token and its branches that follow the one with the id `after`.

    Raises NotFound, InvalidInput. `phases`: the changes of phase too.
    """
    found: list[Entry] = []
    async for entry in (await service.whole_narrator(run_id)).entries(token, after):
        if entry.type == PHASE and not phases:
            continue
        if len(found) == limit:
            return HistoryPage(tuple(found), True)
        found.append(entry)
    return HistoryPage(tuple(found), False)


async def entry_with(service: Service, run_id: str, entry_id: str) -> Entry:
    """Returns one entry of a history by its id. Raises NotFound."""
    token, (slot, _) = token_of(entry_id), place_of(entry_id) or (-1, 0)
    after = f"{token}@{slot - 1}.{_LAST}" if slot > 0 else ""
    async for entry in (await service.whole_narrator(run_id)).entries(token, after, slot):
        if entry.id == entry_id:
            return entry
    raise NotFound(f"run {run_id} has no entry {entry_id[:80]}", code="unknown_entry", hint="pass the `id` of an entry")


async def last_entry(service: Service, at: Standing) -> Entry | None:
    """Returns the run's newest entry, also of a branch.

    Two records tell it most often; else what follows the last snapshot before the root token's last record.
    """
    narrator, slot = service.narrator_of(at), at.token.slot
    if slot > 0:
        previous, record = await narrator.records_of(ROOT, slot - 2, 2)
        if (known := newest_of(at.token, (previous, record), at.run)) is not None:
            return narrator.named([known])[0]
    newest = None
    async for entry in narrator.entries(after=f"{ROOT}@{slot - 1}.{_LAST}" if slot else ""):
        newest = entry
    return newest
