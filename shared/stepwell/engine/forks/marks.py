"""Marks: which branches of a fork wait, and until when, as numbers of its joins that only grow.

    branch   the number at its index in its page's join          page   the number at -1 - page in the fork's join

A mark is one number of 63 bits: how far the branch or page is, whether it waits, for a person or until which second,
and for a page which branch comes first. A later mark is greater, so a late writer changes nothing. Beside the marks of
the branches, the number at -1 - index in a page's join says that the branches of that branch have waited, all of them.
It stays when they go on. So a page of such branches only says that they may wait, and that a look at each will tell.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from stepwell.engine.forks.branches import span_of
from stepwell.engine.forks.join import unpacked
from stepwell.engine.forks.lines import awaited, first_begun, lines_of
from stepwell.engine.forks.members import guests_of, indexes_of
from stepwell.engine.records import Fork, Parked
from stepwell.engine.token import Token
from stepwell.engine.waits.kind import kind_named
from stepwell.values import dataclass

PAGES_READ = 10  # at each change, where pages cannot say by themselves whether their branches have begun, or wait
FORKS_READ = 100  # in branches, at each change
_INDEXES = 1 << 7  # more than the branches of a page
_SECONDS = 1 << 33
_LATER = 1 << 32  # added to the seconds of a wait that asks no person
_NEVER = _LATER - 1
_INSIDE = 0  # the rank of a page of whose branches some stand at forks of their own


@dataclass(frozen=True, slots=True)
class Mark:
    """`index`: the branch whose wait is shown, as it has the lowest rank."""

    turns: int
    waits: bool
    rank: int = _SECONDS - 1
    index: int = 0

    @property
    def is_inside(self) -> bool:
        """Tells whether some branches of the page stand at forks of their own, which are to be looked at."""
        return self.waits and self.rank == _INSIDE


def branch_mark(branch: Token) -> int:
    """Returns the number of a branch that began or ended a wait."""
    if branch.parked is None or not is_waiting(branch):
        return _packed(Mark(branch.next_slot, waits=False))
    return _packed(Mark(branch.next_slot, True, rank_of(branch.parked)))


def rank_of(parked: Parked) -> int:
    """Returns a lower number for a wait for a person, and for one that is due sooner."""
    seconds = _NEVER if parked.until_ms is None else min(parked.until_ms // 1000, _NEVER)
    return seconds if kind_named(parked.kind).asks_people else seconds + _LATER


def is_waiting(token: Token) -> bool:
    """Tells whether the token waits."""
    return not token.ended and token.parked is not None and token.resumption is None


def waiting_of(numbers: Mapping[int, int]) -> set[int]:
    """Returns the branches that wait, by the numbers of their page's join."""
    return {index for index, value in numbers.items() if index >= 0 and _unpacked(value).waits}


def page_mark(fork: Fork, page: Iterable[int], members: Collection[str], numbers: Mapping[int, int]) -> Mark:
    """Returns the mark of the branches with these indexes, which wait if all wait that have begun and not ended.

    `members` and `numbers` are those of the page's join. A branch whose predecessor is in another page may have begun.
    """
    turns = sum(_turns(value) if index >= 0 else 1 for index, value in numbers.items()) + len(members)
    live = live_in(fork, page, members)
    waiting = waits_of(live, numbers)
    if waiting is None:
        return Mark(turns, waits=False)
    if waiting.inside:
        return Mark(turns, True, _INSIDE, live[0])
    rank, first = min((rank, index) for index, rank in waiting.ranks.items())
    return Mark(turns, True, rank, first)


def live_in(fork: Fork, page: Iterable[int], members: Collection[str]) -> list[int]:
    """Returns the branches of a page that may have begun and have not ended. `members`: those of its join."""
    indexes, ended, guests = set(page), indexes_of(members), guests_of(members)
    came: dict[Sequence[int], int] = {}  # in each line, which is counted once: the branches of a page share it

    def may_have_begun(index: int) -> bool:
        before = awaited(fork, index)
        if before.branches not in came:
            is_here = all(one in indexes for one in before.branches)
            came[before.branches] = before.came(ended, guests) if is_here else fork.width
        return came[before.branches] >= before.count

    return sorted(filter(may_have_begun, indexes - ended))


@dataclass(frozen=True, slots=True)
class Waits:
    """Branches that wait. `ranks`: by index. `inside`: those that may, at forks of their own."""

    ranks: Mapping[int, int]
    inside: Sequence[int] = ()

    def and_of(self, other: Waits) -> Waits:
        return Waits({**self.ranks, **other.ranks}, (*self.inside, *other.inside))


def waits_of(live: Collection[int], numbers: Mapping[int, int]) -> Waits | None:
    """Returns how these branches wait, by the numbers of their page's join; None if there are none, or one does not."""
    ranks = ranks_of(live, numbers)
    inside = [index for index in live if index not in ranks]
    if not live or any(place_of_branches(index) not in numbers for index in inside):
        return None
    return Waits(ranks, inside)


def _turns(value: int) -> int:
    mark = _unpacked(value)
    return 2 * mark.turns + mark.waits


def ranks_of(branches: Iterable[int], numbers: Mapping[int, int]) -> dict[int, int]:
    """Returns the ranks of those that wait, by index."""
    marks = {index: _unpacked(numbers[index]) for index in branches if index in numbers}
    return {index: mark.rank for index, mark in marks.items() if mark.waits}


def live_of(fork: Fork, members: Collection[str]) -> list[int]:
    """Returns the branches that have begun and not ended, of a fork whose branches all arrive in one set."""
    ended = indexes_of(members)
    return [index for index in range(fork.width) if index not in ended and awaited(fork, index).is_over(ended)]


def place_of_branches(index: int) -> int:
    """Returns the place in a page's join of the number which says that the branches of this branch waited."""
    return -1 - index


def place_of_page(page: int) -> int:
    """Returns the place of a page's mark among the numbers of its fork's join; its tally has the page's own number."""
    return -1 - page


def is_mark(fork: Fork, place: int) -> bool:
    """Tells whether a number of the one set, or of the fork's join, is a mark."""
    return place < 0 or is_one_set(fork)


def packed_page(mark: Mark, page: range) -> int:
    """Packs a page's mark."""
    return _packed(replace(mark, index=mark.index - page.start if mark.waits else 0))


def is_one_set(fork: Fork) -> bool:
    """Tells whether all branches arrive in one set: those of one page, and the steps of a DAG."""
    return len(fork.pages) == 1 or bool(fork.needs)


def is_in_lines(fork: Fork) -> bool:
    """Tells whether branches begin one after the other, across pages, and at most so many pages of them at once."""
    at_once = sum(min(group.count, group.max_concurrency or group.count) for group in fork.groups)
    return not is_one_set(fork) and fork.by_arrival and at_once <= PAGES_READ * fork.page


def may_rest(fork: Fork, index: int, members: Sequence[str]) -> bool:
    """Tells whether nothing may run in a page now that this branch has ended, begun none, and none there has waited.

    `members`: those of the page's join, in order. The branches of its rule have all begun, or it would begin one.
    """
    page = fork.page_of(index)
    left = frozenset(fork.page_indexes(page)) - indexes_of(members)
    if not left or not left.isdisjoint(span_of(fork, index)[1]):
        return False
    if any(not left.isdisjoint(first) for first in first_begun(fork)):
        return False
    return all(left.isdisjoint(line.begun(members)) for line in lines_of(fork, page))


def waiting_pages(fork: Fork, numbers: Mapping[int, int]) -> dict[int, Mark] | None:
    """Returns the marks of the pages that have branches left, each with its first one; None if a page does not wait.

    `numbers`: of the fork's join, which hears from the pages.
    """
    found: dict[int, Mark] = {}
    for page in fork.pages:
        indexes = fork.page_indexes(page)
        if page in numbers and unpacked({page: numbers[page]}).arrived >= len(indexes):
            continue
        mark = _unpacked(numbers.get(place_of_page(page), 0))
        if not mark.waits:
            return None
        found[page] = replace(mark, index=indexes.start + mark.index)
    return found


def _packed(mark: Mark) -> int:
    return ((mark.turns * 2 + mark.waits) * _SECONDS + mark.rank) * _INDEXES + mark.index


def _unpacked(value: int) -> Mark:
    rest, index = divmod(value, _INDEXES)
    turns, rank = divmod(rest, _SECONDS)
    return Mark(turns // 2, turns % 2 == 1, rank, index)
