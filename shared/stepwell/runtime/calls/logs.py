"""The logs of a run, as those read them who show it or count what it has cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from stepwell.engine.forks.lanes import LaneLog
from stepwell.engine.records import Fork, Record
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.ports import Joined, Log

Page: TypeAlias = tuple[Mapping[str, Sequence[Record]], Iterable[LaneLog]]


class Logs:
    """A run's logs and joins, each read once for all readers."""

    def __init__(self, logbook: Logbook, log: Log, at: Standing) -> None:
        """`at`: the run's root token, whose log may have been read."""
        self._logbook, self._log, self._at = logbook, log, at
        self._joins: dict[str, Joined] = {}
        self._histories: dict[tuple[str, int, int | None], Sequence[Record]] = {}
        self._pages: dict[tuple[str, int], Page] = {}

    async def history(self, run_id: str, token_id: str, after: int, limit: int | None) -> Sequence[Record]:
        """Returns a token's records after a slot, up to `limit` or all. Outputs that they refer to are not read."""
        place = (token_id, after, limit)
        if token_id == self._at.token.id and self._at.read is not None:
            return [record for record in self._at.read if record.slot > after][:limit]
        if place not in self._histories:
            self._histories[place] = await self._logbook.lanes.token(run_id, token_id, after, limit)
        return self._histories[place]

    async def logs_of(self, run_id: str, fork: Fork, name: str, page: int) -> Mapping[str, Sequence[Record]]:
        """Returns the records of a page's branches by token id; one query. `name`: the fork's id."""
        return (await self.branches(run_id, fork, name, page))[0]

    async def branches(self, run_id: str, fork: Fork, name: str, page: int) -> Page:
        """Returns the records of a page's branches, and the lanes in which some of them lie."""
        place = name, page
        if place not in self._pages:
            logs, lanes = await self._logbook.lanes.branches(run_id, fork, name, fork.page_indexes(page))
            self._pages[place] = logs, {lane.state.place.name: lane.state for lane in lanes.values()}.values()
        return self._pages[place]

    def has_read(self, name: str, page: int) -> bool:
        """Tells whether this page's branches were read, so that reading them again is free."""
        return (name, page) in self._pages

    async def read_join(self, run_id: str, join: str) -> Joined:
        if join not in self._joins:
            self._joins[join] = await self._log.read_join(run_id, join)
        return self._joins[join]

    async def page(self, run_id: str, fork: Fork, name: str, page: int) -> Joined:
        """Returns the join of a page, including branches that ended in lanes."""
        if not fork.lane:
            return await self.read_join(run_id, f"{name}@{page}")
        return await self._logbook.lanes.join(run_id, fork, name, page)
