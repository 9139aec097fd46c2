"""Joins of wide forks: each page counts for itself, and tells the fork of the arrivals that can matter to it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product

import pytest

from stepwell.definition.graph import FanIn, Json
from stepwell.engine.forks.join import arrival_of, fires, must_tell, needed, packed, tolerated, unpacked
from stepwell.engine.records import TASKS, End, Fork, Group, Kind, Record, Status, Tally
from stepwell.engine.token import Branch, Token

JOINS = [
    FanIn(),
    FanIn(on_branch_failure="collect"),
    FanIn(tolerate_count=1),
    FanIn(tolerate_percent=50),
    FanIn("any"),
    FanIn("any", first_failure="fail"),
    FanIn("any", on_branch_failure="collect"),
    FanIn("m_of_n", need=3),
    FanIn("m_of_n", need=3, first_failure="fail"),
    FanIn("m_of_n", need=2, tolerate_count=1),
    FanIn("m_of_n", need=3, on_branch_failure="collect"),
]


@pytest.mark.parametrize("tally", [Tally(1), Tally(3, 2), Tally(2, 0, 1), Tally(3, 1, 2), Tally(500, 499, 498)])
def test_a_page_s_counts_come_back_as_they_were_packed(tally: Tally) -> None:
    assert unpacked({0: packed(tally)}) == tally


def test_the_counts_of_all_pages_are_added_and_marks_are_no_counts() -> None:
    pages = {0: packed(Tally(2, 1, 1)), 1: packed(Tally(3, 0, 2)), -1: packed(Tally(7, 7, 7)), -2: 1}
    assert unpacked(pages) == Tally(5, 1, 3)


@pytest.mark.parametrize("fan_in", JOINS, ids=str)
def test_what_the_pages_tell_completes_the_join_as_soon_as_the_branches_do(fan_in: FanIn) -> None:
    """Whichever branches fail, and in whichever order they arrive. Two pages of two branches."""
    fork = Fork((Group("", "n", 4),), page=2)
    for order, failed in product(permutations(range(4)), _subsets(range(4))):
        pages, told = {0: Tally(), 1: Tally()}, {0: 0}
        for index in order:
            page, is_failed = fork.page_of(index), index in failed
            tally = pages[page] = Tally(pages[page].arrived + 1, pages[page].failed + is_failed)
            if must_tell(fan_in, fork, page, tally, is_failed=is_failed):
                told[page] = packed(tally)
            arrived = unpacked({place: packed(one) for place, one in pages.items()})
            assert fires(fan_in, 4, unpacked(told)) == fires(fan_in, 4, arrived), (order, failed)


def _subsets(whole: range) -> Iterator[set[int]]:
    for chosen in product((False, True), repeat=len(whole)):
        yield {one for one, is_in in zip(whole, chosen, strict=True) if is_in}


def test_a_percentage_of_branches_is_counted_in_decimals() -> None:
    """93.6 % of 1,375 are 1,287, and the product of the floats is a little less."""
    fan_in = FanIn(tolerate_percent=93.6)
    assert (tolerated(fan_in, 1375), tolerated(fan_in, 1374)) == (1287, 1286)


def test_a_join_that_collects_counts_failures_among_those_it_needs() -> None:
    assert fires(FanIn("any", on_branch_failure="collect"), 4, Tally(1, 1))
    assert not fires(FanIn("any"), 4, Tally(1, 1))
    assert fires(FanIn("m_of_n", need=2, on_branch_failure="collect"), 4, Tally(2, 1))
    assert not fires(FanIn("m_of_n", need=2), 4, Tally(2, 1))


@pytest.mark.parametrize("policy", ["all", "any", "m_of_n"])
def test_a_fork_without_branches_needs_none(policy: str) -> None:
    assert needed(FanIn(policy, need=3), 0) == 0


def test_a_page_keeps_to_itself_what_cannot_matter() -> None:
    """Each arrival that is told is a write to the one item that all pages share."""
    fork = Fork((Group("", "n", 4),), page=2)
    assert not must_tell(FanIn(), fork, 0, Tally(1), is_failed=False)
    assert not must_tell(FanIn(on_branch_failure="collect"), fork, 0, Tally(1, 1), is_failed=True)
    assert not must_tell(FanIn("m_of_n", need=4), fork, 0, Tally(1), is_failed=False)
    assert not must_tell(FanIn("any"), fork, 0, Tally(1, 1), is_failed=True)
    assert not must_tell(FanIn(tolerate_count=3), fork, 0, Tally(1, 1), is_failed=True)


@pytest.mark.parametrize(("written", "slot"), [("made", 2), ("what it was made of", -1)])
def test_a_branch_says_where_its_output_stands_only_if_its_last_record_has_it_as_it_is(
    written: Json, slot: int
) -> None:
    """A function's record may then refer to it instead of repeating it."""
    fork = Fork((Group("", "f", 1, is_apart=True),), TASKS)
    end = End(Status.COMPLETED)
    last = Record(2, Kind.STEP, "wake", 5, "work", output=written, next=end)
    ended = Token("0/3.0", branch=Branch(0, 1, "f", "f", TASKS), slot=2, last=last, end=end, result="made")
    arrival = arrival_of(fork, ended)
    assert (arrival.output, arrival.slot) == ("made", slot)
