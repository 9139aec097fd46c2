"""Begins branches in other pages: if a page's own line is empty, its ending branches serve a slower page's line.

The choice of a page is written before anything follows from it, so a copy of the message goes the same way. It costs
two write units for each branch that a slow one held back, and nothing if no page is slow.
"""

from __future__ import annotations

from stepwell.engine.forks.join import unpacked
from stepwell.engine.forks.lines import line_of, other_lines
from stepwell.engine.forks.marks import is_one_set
from stepwell.engine.forks.members import as_choice, as_guest, choices_of, guests_of
from stepwell.runtime.log.standing import ForkedParent
from stepwell.runtime.ports import Joined, Log


class Lines:
    """The lines of branches in forks with `max_concurrency`. Each call may be repeated."""

    def __init__(self, log: Log) -> None:
        self._log = log

    async def begun_elsewhere(self, fork: ForkedParent, index: int, joined: Joined, *, may_choose: bool) -> list[int]:
        """Returns the branch of another page's line that this one begins, if there is one.

        `joined`: the join of its own page. `may_choose`: False once the fork's join is complete: only branches begun
        before may still have to be pushed.
        """
        if is_one_set(fork.fork) or not other_lines(fork.fork, index, ()):
            return []
        run_id, own, tried = fork.parent.run_id, join_name(fork, fork.fork.page_of(index)), 0
        while True:
            chosen = choices_of(joined.order, index)
            for page in chosen[tried:]:
                there = await self._log.arrive(run_id, join_name(fork, page), as_guest(index), in_order=True)
                begun = line_of(fork.fork, page, index).begun_by(index, there.order)
                if begun is not None:
                    return [begun]
            tried = len(chosen)
            free = await self._with_room(fork, index) if may_choose else None
            if free is None:
                return []
            joined = await self._log.arrive(run_id, own, as_choice(index, free), in_order=True)

    async def _with_room(self, fork: ForkedParent, index: int) -> int | None:
        """Returns the first page that holds back a branch. Pages that the fork's join knows to be full are skipped."""
        run_id = fork.parent.run_id
        numbers = (await self._log.read_join(run_id, fork.id)).numbers
        full = [page for page in fork.fork.pages
                if unpacked({page: numbers.get(page, 0)}).arrived >= len(fork.fork.page_indexes(page))]  # fmt: skip
        for page in other_lines(fork.fork, index, full):
            there = await self._log.read_join(run_id, join_name(fork, page))
            if line_of(fork.fork, page, index).has_room(there.order):
                return page
        return None


async def guests_in(log: Log, fork: ForkedParent) -> dict[int, set[int]]:
    """Returns, by page, the branches of other pages that joined its line."""
    if is_one_set(fork.fork) or not fork.fork.by_arrival:
        return {}
    run_id = fork.parent.run_id
    return {page: guests_of((await log.read_join(run_id, join_name(fork, page))).order) for page in fork.fork.pages}


def join_name(fork: ForkedParent, page: int) -> str:
    """Returns the name of the join where the branches of a page arrive."""
    return f"{fork.id}@{page}"
