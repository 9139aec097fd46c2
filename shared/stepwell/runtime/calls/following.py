"""Answers watchers of the live feed with the history entries since their cursor."""

from __future__ import annotations

from stepwell.limits import LIVE_PAGE_ENTRIES
from stepwell.runtime.calls.service import Service
from stepwell.runtime.notify.live import LiveEntry, Topic, page_frame
from stepwell.runtime.notify.telling import TOLD


async def entries_since(service: Service, topic: Topic, after: str | None) -> str:
    """Returns the frame that answers a watcher: the run's entries after its cursor; none for many runs.

    Raises NotFound, and InvalidInput for an `after` that is no entry of the run.
    """
    if not topic.run_id or after is None:
        return page_frame((), after or "", more=False)
    narrator = await service.narrator(topic.run_id)
    found: list[LiveEntry] = []
    last = settled = after
    async for entry, before in narrator.settling(after=after):
        if len(found) == LIVE_PAGE_ENTRIES:
            return page_frame(found, last, more=True)
        last, settled = entry.id, before
        if entry.type in TOLD:
            found.append(LiveEntry(topic.run_id, narrator.run.workflow, entry))
    return page_frame(found, settled, more=False)
