"""Marks: what a fork's join says of branches that wait, by numbers that only grow."""

from __future__ import annotations

import random
from dataclasses import replace
from unittest import mock

import pytest

from stepwell.engine.forks.lines import Awaited
from stepwell.engine.forks.marks import (
    Mark,
    branch_mark,
    is_in_lines,
    live_in,
    may_rest,
    packed_page,
    page_mark,
    place_of_branches,
    place_of_page,
    waiting_pages,
    waits_of,
)
from stepwell.engine.records import Arm, Fork, Group, Parked
from stepwell.engine.table import Phase
from stepwell.engine.token import Token
from stepwell.limits import PAGE_BRANCHES

WAITS = Token(phase=Phase.WAITING_FOR_APPROVAL, parked=Parked("approval", (Arm("approval"),)))
GOES_ON = replace(WAITS, phase=Phase.EXECUTING_STEP, parked=None)


def test_branches_wait_once_all_of_them_do() -> None:
    """One that says nothing has only begun, unless its own branches say that they wait."""
    both = {0: branch_mark(WAITS), 1: branch_mark(WAITS)}
    found = waits_of([0, 1], both)
    assert found is not None
    assert (set(found.ranks), found.inside) == ({0, 1}, [])
    assert waits_of([0, 1], {0: branch_mark(WAITS), 1: branch_mark(GOES_ON)}) is None
    assert waits_of([0, 1], {0: branch_mark(WAITS)}) is None
    assert waits_of([], both) is None


def test_a_branch_whose_own_branches_have_waited_may_wait() -> None:
    found = waits_of([0, 1], {0: branch_mark(WAITS), place_of_branches(1): 1})
    assert found is not None
    assert (set(found.ranks), found.inside) == ({0}, [1])


def test_the_numbers_of_branches_and_of_their_branches_have_places_of_their_own() -> None:
    """They are stored: these places stay."""
    assert [place_of_branches(index) for index in range(3)] == [-1, -2, -3]
    assert [place_of_page(page) for page in range(3)] == [-1, -2, -3]


@pytest.mark.parametrize(("most", "is_so"), [(10, True), (10 * PAGE_BRANCHES, True), (10 * PAGE_BRANCHES + 1, False)])
def test_a_fork_is_in_lines_if_few_of_its_branches_run_at_once(most: int, is_so: bool) -> None:
    """Its pages cannot say by themselves whether their branches have begun, and only so many are read."""
    fork = Fork((Group("n0.transitions[0]", "n1", 50 * PAGE_BRANCHES, max_concurrency=most),), "j", by_arrival=True)
    assert is_in_lines(fork) is is_so
    assert not is_in_lines(replace(fork, by_arrival=False))


def test_a_page_that_has_said_nothing_does_not_wait() -> None:
    fork = Fork((Group("n0.transitions[0]", "n1", 2 * PAGE_BRANCHES),), "j")
    first = {place_of_page(0): packed_page(Mark(1, True, 7, 0), fork.page_indexes(0))}
    assert waiting_pages(fork, first) is None
    both = {**first, place_of_page(1): packed_page(Mark(1, True, 9, PAGE_BRANCHES), fork.page_indexes(1))}
    assert waiting_pages(fork, both) == {0: Mark(1, True, 7, 0), 1: Mark(1, True, 9, PAGE_BRANCHES)}


def test_the_mark_of_a_page_grows_with_all_that_its_branches_say() -> None:
    """Else a later one changes nothing."""
    fork = Fork((Group("n0.transitions[0]", "n1", 2),), "j")
    said = {0: branch_mark(WAITS)}
    inside = {**said, place_of_branches(0): 1}
    before, after = (page_mark(fork, range(2), (), one).turns for one in (said, inside))
    assert after == before + 1


LINES = Fork(
    (Group("n0.transitions[0]", "n1", PAGE_BRANCHES + 4, max_concurrency=2), Group("n0.transitions[1]", "n2", 2)),
    "j",
    by_arrival=True,
)
FIRST, SECOND = PAGE_BRANCHES + 4, PAGE_BRANCHES + 5  # of the other rule, in the second page


@pytest.mark.parametrize(
    ("index", "members", "is_so"),
    [
        (SECOND, [f"{FIRST}", f"{SECOND}"], True),
        (SECOND, [f"{SECOND}"], False),  # another one of its rule has begun
        (0, ["0"], False),  # so has branch 1
        (SECOND, [f"{PAGE_BRANCHES}", f"{FIRST}", f"{SECOND}"], False),  # which began the third of this page
    ],
)
def test_a_page_may_rest_if_those_that_are_left_are_of_another_rule(
    index: int, members: list[str], is_so: bool
) -> None:
    assert may_rest(LINES, index, members) is is_so


THROTTLED = Fork(
    (Group("n0.transitions[0]", "n1", 30, max_concurrency=3), Group("n0.transitions[1]", "n1", 30)),
    "j",
    page=40,
    by_arrival=True,
)


def test_those_live_that_have_begun_and_not_ended_in_whatever_order_they_end() -> None:
    chance = random.Random(7)
    page, ended, begun = range(40), list[int](), [0, 1, 2, *range(30, 40)]
    waiting = list(range(3, 30))
    while live := [index for index in begun if index not in ended]:
        assert live_in(THROTTLED, page, [str(index) for index in ended]) == sorted(live)
        ended.append(chance.choice(live))
        if ended[-1] < 30 and waiting:
            begun.append(waiting.pop(0))
    assert len(ended) == 40


def test_who_came_in_a_line_is_counted_once_for_all_of_its_branches() -> None:
    with mock.patch.object(Awaited, "came", autospec=True, side_effect=Awaited.came) as came:
        live_in(THROTTLED, range(40), ["0", "1"])
    assert came.call_count == 2  # once for those that wait for nobody
