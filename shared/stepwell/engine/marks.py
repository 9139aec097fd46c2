"""Marks: which branches of a fork wait, and until when, as numbers of its joins that only grow.

    branch   the number at its index in its page's join          page   the number at -1 - page in the fork's join

A mark is one number of 63 bits: how far the branch or page is, whether it waits, until which second, and for a page
which branch is due first. A later mark is greater, so a late writer changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from stepwell.engine.forks import awaited
from stepwell.engine.join import indexes_of, unpacked
from stepwell.engine.records import Fork
from stepwell.engine.token import Token

_INDEXES = 1 << 7  # more than the branches of a page
_SECONDS = 1 << 33
_NEVER = _SECONDS - 1


@dataclass(frozen=True, slots=True)
class Mark:
    """`index`: the branch that is due first."""

    turns: int
    waits: bool
    until_seconds: int = _NEVER
    index: int = 0


def branch_mark(branch: Token) -> int:
    """Returns the number of a branch that began or ended a wait."""
    waits = is_waiting(branch)
    until_ms = branch.parked.until_ms if waits and branch.parked else None
    return _packed(Mark(branch.next_slot, waits, _NEVER if until_ms is None else until_ms // 1000))


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
    indexes, ended = set(page), indexes_of(members)
    marks = {index: _unpacked(value) for index, value in numbers.items() if index >= 0}
    turns = sum(2 * mark.turns + mark.waits for mark in marks.values()) + len(members)
    live = [index for index in indexes - ended if _may_have_begun(fork, index, indexes, ended)]
    if not live or not all(index in marks and marks[index].waits for index in live):
        return Mark(turns, waits=False)
    until_seconds, first = min((marks[index].until_seconds, index) for index in live)
    return Mark(turns, True, until_seconds, first)


def _may_have_begun(fork: Fork, index: int, page: Collection[int], ended: Collection[int]) -> bool:
    before = awaited(fork, index)
    return not all(one in page for one in before.branches) or before.is_over(ended)


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


def first_waiting(fork: Fork, members: Collection[str], numbers: Mapping[int, int]) -> int | None:
    """Returns the index of the branch that is due first, if all branches wait or have ended; else None.

    `members` and `numbers` are those of the one set, else of the fork's join, which hears from the pages.
    """
    if is_one_set(fork):
        mark = page_mark(fork, range(fork.width), members, numbers)
        return mark.index if mark.waits else None
    found: list[tuple[int, int]] = []
    for page in fork.pages:
        indexes = fork.page_indexes(page)
        if page in numbers and unpacked({page: numbers[page]}).arrived >= len(indexes):
            continue
        mark = _unpacked(numbers.get(place_of_page(page), 0))
        if not mark.waits:
            return None
        found.append((mark.until_seconds, indexes.start + mark.index))
    return min(found)[1] if found else None


def _packed(mark: Mark) -> int:
    return ((mark.turns * 2 + mark.waits) * _SECONDS + min(mark.until_seconds, _NEVER)) * _INDEXES + mark.index


def _unpacked(value: int) -> Mark:
    rest, index = divmod(value, _INDEXES)
    turns, until_seconds = divmod(rest, _SECONDS)
    return Mark(turns // 2, turns % 2 == 1, until_seconds, index)
