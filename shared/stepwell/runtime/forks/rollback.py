"""Rollback: reads from a run's logs what is to be undone, once nothing in it runs any more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from stepwell.engine.compensation import committed, newest_first
from stepwell.engine.copying import changed
from stepwell.engine.forks.branches import Branches
from stepwell.engine.forks.lines import awaited
from stepwell.engine.forks.needs import causal_order
from stepwell.engine.names import Undo
from stepwell.engine.records import ROOT, Fork, Record
from stepwell.engine.redriving import moved_forks
from stepwell.engine.token import Token
from stepwell.limits import ROLLBACK_PAGES, ROLLBACK_RECORDS
from stepwell.runtime.forks.forking import Forking
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import ForkedParent, Standing

BeforePage: TypeAlias = Callable[[ForkedParent, int], Awaitable[None]]  # is called before a page of branches is read


class Rollback:
    """Prepares runs that are being undone. A redelivery reads their logs again, and reads the same."""

    def __init__(self, logbook: Logbook, forking: Forking) -> None:
        self._logbook, self._forking = logbook, forking

    async def prepare(self, at: Standing, by: str) -> Standing:
        """Ends the branches of a run that is being undone, and returns the run with what is to be undone."""
        if at.token.undoing is None or at.token.ended or at.rollback is not None:
            return at
        return changed(at, rollback=await self._read(at, by, partial(self._forking.end_page, by=by)))

    async def plan(self, at: Standing) -> tuple[Undo, ...] | None:
        """Returns what is to be undone, or was, newest first, without ending branches: for those who only look.

        None for a run that is not being undone, and for one whose logs are too long to be read for this.
        """
        if at.token.undoing is None or at.token.slot >= ROLLBACK_RECORDS:
            return None
        try:
            return await self._read(at, "", _Allowance(ROLLBACK_PAGES).take)
        except _TooMuchError:
            return None

    async def _read(self, at: Standing, by: str, before: BeforePage) -> tuple[Undo, ...]:
        begun = replace(at, token=Token())
        records = await self._logbook.history(at.run_id, ROOT, -1, None)
        return newest_first(await self._committed(begun, records, by, before))

    async def _committed(
        self, begun: Standing, records: Sequence[Record], by: str, before: BeforePage, since_ms: int = 0
    ) -> list[Undo]:
        """Returns what one token and its forks have to undo. `since_ms`: when what it waited for had ended."""
        found: list[Undo] = []
        moment, moved = self._logbook.moment(begun, by), moved_forks(records)
        for token, undo in committed(moment, begun.token, records):
            found += [] if undo is None else [replace(undo, at_ms=max(undo.at_ms, since_ms))]
            if token.slot in moved:
                continue
            if token.last is not None and isinstance(token.last.next, Fork) and token.last.next.width:
                parent = replace(begun, token=token)
                found += await self._of_fork(ForkedParent(parent, Branches(moment, token)), by, before, since_ms)
        return found

    async def _of_fork(self, fork: ForkedParent, by: str, before: BeforePage, since_ms: int) -> list[Undo]:
        """Returns what the branches have to undo. A branch begun by another's end is no older than that end."""
        found: dict[int, list[Undo]] = {}
        ended_ms: dict[int, int] = {}
        for page in fork.fork.pages:
            await before(fork, page)
            logs = {branch.index: (branch, records) for branch, records in await self._logbook.logs(fork, page)}
            for index in sorted(logs):
                branch, records = logs[index]
                line = awaited(fork.fork, index)
                first_ms = sorted(ended_ms[one] for one in line.branches if one in ended_ms)[: line.count]
                began_ms = max([since_ms, *first_ms])
                ended_ms[index] = max(began_ms, records[-1].at_ms)
                found[index] = await self._committed(branch, records, by, before, began_ms)
        return [undo for index in causal_order(fork.fork) for undo in found.get(index, ())]


class _TooMuchError(Exception):
    """Reading the run would take more pages than an observer may read."""


class _Allowance:
    """Counts how many pages may still be read."""

    def __init__(self, pages_left: int) -> None:
        self._left = pages_left

    async def take(self, fork: ForkedParent, page: int) -> None:
        """Raises _TooMuchError when none is left."""
        if not self._left:
            raise _TooMuchError
        self._left -= 1
