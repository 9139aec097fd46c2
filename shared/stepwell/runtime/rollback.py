"""Rollback: reads off a run's logs what is to be undone, once nothing in it runs any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stepwell.engine.compensation import committed, newest_first
from stepwell.engine.forks import Branches, pages
from stepwell.engine.names import Undo
from stepwell.engine.records import ROOT, Fork, Record
from stepwell.engine.token import Token
from stepwell.runtime.forking import Forking
from stepwell.runtime.logbook import ForkedParent, Logbook, Standing


class Rollback:
    """Prepares runs that are being undone. Whoever goes on with one reads its logs anew, and reads the same."""

    def __init__(self, logbook: Logbook, forking: Forking) -> None:
        self._logbook, self._forking = logbook, forking

    async def prepare(self, at: Standing, by: str) -> Standing:
        """The run with what is to be undone. Its branches have ended then, so that nothing more is committed."""
        if at.token.undoing is None or at.token.ended or at.rollback is not None:
            return at
        begun = replace(at, token=Token())
        records = await self._logbook.history(at.run_id, ROOT, -1, None)
        found = await self._committed(begun, records, by)
        return replace(at, rollback=newest_first(at.graph, found))

    async def _committed(self, begun: Standing, records: Sequence[Record], by: str) -> list[Undo]:
        """Of one token and of all that it forked."""
        found: list[Undo] = []
        moment = self._logbook.moment(begun, by)
        for token, undo in committed(moment, begun.token, records):
            found += [] if undo is None else [undo]
            if token.last is not None and isinstance(token.last.next, Fork) and token.last.next.width:
                parent = replace(begun, token=token)
                found += await self._of_fork(ForkedParent(parent, Branches(moment, token)), by)
        return found

    async def _of_fork(self, fork: ForkedParent, by: str) -> list[Undo]:
        found: list[Undo] = []
        for page in pages(fork.fork.width):
            await self._forking.end_page(fork, page, by)
            for branch, records in await self._logbook.logs(fork, page):
                found += await self._committed(branch, records, by)
        return found
