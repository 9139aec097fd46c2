"""The sweep of a deployed Stepwell: as many pages of live runs as fit into an invocation, and the rest in the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from stepwell.runtime.assembly import Assembly
from stepwell.runtime.logbook import Logbook
from stepwell.runtime.ports import RunPage, RunQuery, Store
from stepwell.runtime.sweeper import Found, Sweeper


class Sweeping:
    """The sweeps of one process, which remembers where the last one had to stop; a new process begins at the top."""

    def __init__(self, parts: Assembly) -> None:
        self._pages = _PagesInTime(parts.ports.store)
        ports = replace(parts.ports, store=self._pages)
        self._sweeper = Sweeper(ports, Logbook(ports, parts.catalog))

    async def sweep(self, still_ms: int, left_ms: Callable[[], int]) -> tuple[Found, ...]:
        """Wakes the runs that stand still. A page that was begun is looked at to its end."""
        self._pages.left_ms = left_ms
        return await self._sweeper.sweep(still_ms)


class _PagesInTime:
    """The Store port, whose list of runs ends when the time does."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._go_on_at = ""
        self.left_ms: Callable[[], int] = lambda: 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def list_runs(self, query: RunQuery) -> RunPage:
        if not query.cursor:
            query = replace(query, cursor=self._go_on_at)
        self._go_on_at = ""
        page = await self._store.list_runs(query)
        if not page.next_cursor or self.left_ms() > 0:
            return page
        self._go_on_at = page.next_cursor
        return replace(page, next_cursor="")
