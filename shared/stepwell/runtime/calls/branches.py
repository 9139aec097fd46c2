"""Lists branches of a fork. Each tells whether it may begin, and since when."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from stepwell.engine.copying import changed
from stepwell.engine.durable.tasks import names_of
from stepwell.engine.forks.lines import Awaited, awaited
from stepwell.engine.forks.members import guests_of, indexes_of
from stepwell.runtime.forks.lines import join_name
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import ForkedParent, Standing
from stepwell.runtime.ports import Log

Comers = tuple[Collection[int], Collection[int]]  # indexes: the branches of a page that have ended, and its guests


async def branches_from(logbook: Logbook, log: Log, fork: ForkedParent, first: int, limit: int) -> list[Standing]:
    """Returns at most `limit` branches, from the index `first` on. Makes one query per page that has any."""
    last = min(first + limit, fork.fork.width)
    if first >= last:
        return []
    pages = range(fork.fork.page_of(first), fork.fork.page_of(last - 1) + 1)
    read = [branch for page in pages for branch in await logbook.branches(fork, page)]
    wanted = {one.index: awaited(fork.fork, one.index) for one in read if first <= one.index < last}
    ended = {one.index: one.token.last_ms for one in read if one.token.ended}
    if len(fork.fork.pages) > 1:
        comers = await _comers(log, fork, wanted.values())
    else:
        comers = {wait.page: (ended, ()) for wait in wanted.values()}
    names = _operations(fork)
    return [
        replace(
            one if one.token.last is not None or not wait.count else _woken(one, wait, comers[wait.page], ended),
            may_begin=not wait.count or wait.is_over(*comers[wait.page]),
            operation=names[one.index] if names else "",
        )
        for one in read
        if (wait := wanted.get(one.index)) is not None
    ]


async def _comers(log: Log, fork: ForkedParent, waits: Iterable[Awaited]) -> dict[int, Comers]:
    """Reads, for each page that branches wait for, which branches and guests have arrived."""
    found: dict[int, Comers] = {}
    for page in {wait.page for wait in waits if wait.count}:
        joined = await log.read_join(fork.parent.run_id, join_name(fork, page))
        found[page] = indexes_of(joined.members), guests_of(joined.order)
    return found


def _woken(at: Standing, wait: Awaited, comers: Comers, ended: Mapping[int, int]) -> Standing:
    """Returns the branch with the time when others let it begin. A branch with `needs` has that time already."""
    branch = at.token.branch
    if branch is None or branch.needs:
        return at
    return replace(at, token=changed(at.token, branch=replace(branch, started_ms=woken_ms(wait, comers, ended))))


def woken_ms(wait: Awaited, comers: Comers, ended: Mapping[int, int]) -> int:
    """Returns when others let a branch begin; 0 if they have not, or if the end of one of them was not read."""
    own, guests = comers
    times = [ended.get(one, 0) for one in wait.branches if one in own]
    times += [ended.get(one, 0) for one in guests if one in wait.span]
    return sorted(times)[wait.count - 1] if len(times) >= wait.count and all(times) else 0


def _operations(fork: ForkedParent) -> Sequence[str]:
    """Returns what each awaited branch runs, by index: an operation that the fork's record names, or its node."""
    at, last = fork.parent, fork.parent.token.last
    if last is None or not fork.fork.is_awaited:
        return ()
    return names_of(last) or (last.node or at.graph.start,) * fork.fork.width
