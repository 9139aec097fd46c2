"""Lines: which branch begins when another ends, in a fork that lets k run at a time (`max_concurrency: k`).

    page 0   7, 3!, 5, 417>    the m-th that comes into a page's line begins the branch k + m behind the page's first
    page 4   401, 417, 417>0   417 found that its own page's line had begun all, and chose the line of page 0

Each page has a line: its branches, in the order in which they end. So each end begins a branch, and no page hears of
another. But a page with a slow branch holds back the one that its end would begin. So whoever ends where all have begun
goes as a guest into the line of the first page that holds one back. Its own page keeps what it chose, so that each copy
of it goes the same way; and a place in a line never changes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence

from stepwell.engine.forks.branches import span_of
from stepwell.engine.forks.members import index_of, is_arrival, is_guest
from stepwell.engine.records import Fork, Group
from stepwell.values import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """The line of a page, for the branches of one rule. Those that a redriven run has kept are in none."""

    all: Sequence[int]  # the branches of the rule
    own: Sequence[int]  # those of the page, whose ends make the line
    begins: Sequence[int]  # those that begin, one for each that comes

    def begun_by(self, index: int, members: Iterable[str]) -> int | None:
        """Returns the branch that this one begins; None if it came when all had begun."""
        place = list(self._comers(members)).index(index)
        return self.begins[place] if place < len(self.begins) else None

    def begun(self, members: Iterable[str]) -> Sequence[int]:
        """Returns the branches that have been begun by those who came."""
        return self.begins[: sum(1 for _ in self._comers(members))]

    def has_room(self, members: Iterable[str]) -> bool:
        """Tells whether it holds back a branch."""
        return len(self.begun(members)) < len(self.begins)

    def _comers(self, members: Iterable[str]) -> Iterator[int]:
        for member in members:
            among = self.own if is_arrival(member) else self.all if is_guest(member) else ()
            if among and (index := index_of(member)) in among:
                yield index


def line_of(fork: Fork, page: int, index: int) -> Line:
    """Returns the line of a page for the rule of this branch, which may be in another page."""
    group, order = _order_of(fork, index)
    indexes = fork.page_indexes(page)
    first, end = bisect_left(order, indexes.start), bisect_left(order, indexes.stop)
    return Line(order, order[first:end], order[first + group.max_concurrency : end + group.max_concurrency])


def next_in_line(fork: Fork, index: int, members: Sequence[str]) -> list[int]:
    """Returns the branch that begins when this one arrives, if the concurrency is limited.

    `members`: those of its page's join in order, its own arrival included.
    """
    group, order = _order_of(fork, index)
    if not group.max_concurrency or index in fork.kept:
        return []
    if fork.by_arrival:
        following = line_of(fork, fork.page_of(index), index).begun_by(index, members)
        return [] if following is None else [following]
    place = order.index(index) + group.max_concurrency
    return [order[place]] if place < len(order) else []


def first_left(fork: Fork) -> list[int]:
    """Returns the branches of a reopened fork that begin at once: they were not kept, and nothing holds them back."""
    kept = frozenset(fork.kept)
    return [index for index in range(fork.width) if index not in kept and awaited(fork, index).is_over(kept)]


def _order_of(fork: Fork, index: int) -> tuple[Group, Sequence[int]]:
    """Returns the rule of a branch, and its branches in the order in which they begin. Those that were kept do not."""
    group, span = span_of(fork, index)
    if not fork.kept:
        return group, span
    kept = frozenset(fork.kept)
    return group, tuple(one for one in span if one not in kept)


def first_begun(fork: Fork) -> Iterator[Sequence[int]]:
    """Yields the branches of each rule that begin at once."""
    for start, group in _by_start(fork):
        _, order = _order_of(fork, start)
        yield order[: group.max_concurrency or len(order)]


def lines_of(fork: Fork, page: int) -> list[Line]:
    """Returns the lines of a page, one for each rule that has branches there and a bound."""
    indexes = fork.page_indexes(page)
    heads = [max(start, indexes.start) for start, group in _by_start(fork)
             if group.max_concurrency and start < indexes.stop and start + group.count > indexes.start]  # fmt: skip
    return [line_of(fork, page, head) for head in heads]


def _by_start(fork: Fork) -> Iterator[tuple[int, Group]]:
    """Yields the rules that have branches, each with its first one."""
    start = 0
    for group in fork.groups:
        if group.count:
            yield start, group
        start += group.count


def other_lines(fork: Fork, index: int, full: Collection[int]) -> list[int]:
    """Returns the pages whose lines may hold back a branch that this one could begin. `full`: where all have ended."""
    group, span = span_of(fork, index)
    if not (fork.by_arrival and group.max_concurrency):
        return []
    pages = range(fork.page_of(span.start), fork.page_of(span.stop - 1) + 1)
    return [page for page in pages
            if page != fork.page_of(index) and page not in full and line_of(fork, page, index).begins]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Awaited:
    """What a branch begins after: so many of these branches have ended, or have come to their page as guests."""

    branches: Sequence[int]
    count: int
    page: int = 0  # of the branches
    span: Sequence[int] = ()  # the branches that may be guests there

    def is_over(self, ended: Collection[int], guests: Collection[int] = ()) -> bool:
        """Tells whether the branch can begin. `guests`: those in the line of its `page`."""
        return self.came(ended, guests) >= self.count

    def came(self, ended: Collection[int], guests: Collection[int] = ()) -> int:
        """Returns how many have ended, or have come as guests."""
        return sum(one in ended for one in self.branches) + sum(one in self.span for one in guests)


def awaited(fork: Fork, index: int) -> Awaited:
    """Returns what this branch begins after: those that it needs, or its predecessors in line."""
    if fork.needs:
        return Awaited(fork.needs[index], len(fork.needs[index]))
    group, order = _order_of(fork, index)
    if not group.max_concurrency or index in fork.kept:
        return Awaited((), 0)
    place = order.index(index) - group.max_concurrency
    if place < 0:
        return Awaited((), 0)
    before = order[place]
    page = fork.page_of(before)
    if not fork.by_arrival:
        return Awaited((before,), 1, page)
    own = line_of(fork, page, index).own
    return Awaited(own, own.index(before) + 1, page, order)
