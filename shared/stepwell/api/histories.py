"""Reads a run's history page by page."""

from __future__ import annotations

from dataclasses import dataclass

from stepwell.engine.entries import PHASE, Entry
from stepwell.engine.records import ROOT
from stepwell.runtime.calls.service import Service


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
    async for entry in (await service.narrator(run_id)).entries(token, after):
        if entry.type == PHASE and not phases:
            continue
        if len(found) == limit:
            return HistoryPage(tuple(found), True)
        found.append(entry)
    return HistoryPage(tuple(found), False)


async def last_entry(service: Service, run_id: str, slot: int) -> Entry | None:
    """Returns the newest entry since the root token's record before `slot`, also of a branch."""
    newest = None
    async for entry in (await service.narrator(run_id)).entries(after=f"{ROOT}@{slot - 1}.999999999" if slot else ""):
        newest = entry
    return newest
