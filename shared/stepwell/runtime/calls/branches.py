"""Lists branches of a fork, each with whether it may begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stepwell.engine.lines import awaited
from stepwell.engine.tasks import names_of
from stepwell.runtime.forks.lines import are_over
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import ForkedParent, Standing
from stepwell.runtime.ports import Log


async def branches_from(logbook: Logbook, log: Log, fork: ForkedParent, first: int, limit: int) -> list[Standing]:
    """The branches by index from `first` on, at most `limit`; a query for each page that has some of them."""
    last = min(first + limit, fork.fork.width)
    if first >= last:
        return []
    pages = range(fork.fork.page_of(first), fork.fork.page_of(last - 1) + 1)
    read = [branch for page in pages for branch in await logbook.branches(fork, page)]
    wanted = [one for one in read if first <= one.index < last]
    waits = [awaited(fork.fork, one.index) for one in wanted]
    if len(fork.fork.pages) > 1:
        is_over = await are_over(log, fork, waits)
    else:
        ended = {one.index for one in read if one.token.ended}
        is_over = {wait: wait.is_over(ended) for wait in waits}
    names = _operations(fork)
    return [
        replace(one, may_begin=is_over[wait], operation=names[one.index] if names else "")
        for one, wait in zip(wanted, waits, strict=True)
    ]


def _operations(fork: ForkedParent) -> Sequence[str]:
    """What the branches began as: of a durable function's, only the record of their fork says so."""
    at, last = fork.parent, fork.parent.token.last
    if last is None:
        return ()
    return names_of(last) or (last.node or at.graph.start,) * fork.fork.width
