"""What a branch costs: the same however wide the fork is: units, reads, messages, invocations, and bytes of an item.

`python -m tests.aws.fork_costs` counts the same for ten thousand branches.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from stepwell.aws.store.items import size_of
from stepwell.engine.forks.join import packed
from stepwell.engine.records import Tally
from stepwell.limits import FORK_LANE, FORK_WIDTH, PAGE_BRANCHES
from stepwell.runtime.loop.driving import run_now
from tests.aws.fork_costs import IN_LINE, NESTED, Cost, Counted, counted, per_branch, waited, waited_whole
from tests.aws.kit import aws_world
from tests.aws.meter import KILOBYTE
from tests.contract.emulated import items_of


@pytest.fixture(scope="module")
def forks() -> list[Counted]:
    return [counted(10), counted(100), counted(1_000)]


@pytest.fixture(scope="module")
def costs(forks: list[Counted]) -> list[Cost]:
    return [per_branch(*forks[:2]), per_branch(*forks[1:])]


def test_a_branch_of_one_small_step_costs_two_write_units_its_arrival_included(costs: list[Cost]) -> None:
    for cost in costs:
        assert cost.units <= 2.1


def test_ten_branches_share_a_message_and_an_invocation(costs: list[Cost]) -> None:
    for cost in costs:
        assert cost.sqs <= 0.22
        assert cost.invocations <= 0.11


def test_a_branch_is_read_once_and_a_tenth_of_its_parent_by_workers_that_are_cold(costs: list[Cost]) -> None:
    for cost in costs:
        assert cost.reads <= 1.4


def test_a_warm_worker_reads_a_branch_and_not_its_parent() -> None:
    cost = per_branch(counted(10, forks_kept=8), counted(100, forks_kept=8))
    assert cost.reads <= 1.05


def test_branches_that_are_written_together_cost_a_fifteenth() -> None:
    """Two lanes at least, so that the fork's own writes are left out; one read of the lane, and one of the page."""
    forks = [counted(20, lane=FORK_LANE), counted(100, lane=FORK_LANE), counted(500, lane=FORK_LANE)]
    for fewer, more in pairwise(forks):
        cost = per_branch(fewer, more)
        assert cost.units <= 0.15
        assert cost.reads <= 0.55
        assert cost.sqs <= 0.22
    assert forks[-1].item_bytes < KILOBYTE


def test_a_fork_whose_branches_all_wait_costs_little_more_with_lanes() -> None:
    begun, ended = waited(20, lane=FORK_LANE)
    plain_begun, plain_ended = waited(20)
    assert begun <= plain_begun * 1.1
    assert ended <= plain_ended * 1.05


def test_a_failure_that_is_tolerated_costs_one_write_unit_more_and_the_arrivals_after_it_none() -> None:
    """The fork hears of the failure, because too many of them end it; the others cannot change what it does."""
    smudged, clean = counted(300, "tolerant", failing=(0, 100, 200, 201)), counted(300, "tolerant")
    assert 0 <= smudged.units - clean.units <= 2 * 4


def test_a_page_is_silent_while_the_others_could_not_make_up_what_a_join_of_some_branches_needs() -> None:
    assert per_branch(counted(100, "m_of_n"), counted(200, "m_of_n")).units <= 2.1


def test_that_a_run_is_listed_as_waiting_costs_a_waiting_branch_at_most_six_write_units() -> None:
    """A unit or two when it begins to wait; five when it goes on alone, because the run runs and waits again.

    Without that, a branch that waits costs 1.1 write units until it is parked, and 3.2 until it has arrived.
    """
    for width in (10, 100):
        begun, ended = waited(width)
        assert begun <= 2.9
        assert ended <= 8.2


def test_the_same_where_branches_begin_one_after_the_other_across_pages() -> None:
    assert waited_whole(IN_LINE, list(range(110)), [f"0/0.{index}" for index in range(110)]) <= 11.1


def test_a_wait_in_a_fork_of_a_branch_costs_no_more_its_share_of_that_fork_included() -> None:
    branches = [f"0/0.{outer}/0.{inner}" for outer in range(5) for inner in range(5)]
    assert waited_whole(NESTED, list(range(5)), branches) <= 11.1


def test_no_item_and_no_partition_grows_with_the_width(forks: list[Counted]) -> None:
    """Beside the parent's: its log holds the items that the user gave, and the outputs. An index takes a digit more."""
    ten, hundred, thousand = forks
    assert thousand.item_bytes <= max(ten.item_bytes, hundred.item_bytes) + PAGE_BRANCHES
    assert thousand.item_bytes < KILOBYTE
    assert thousand.partition_bytes <= hundred.partition_bytes * 1.05


def test_the_set_of_all_pages_of_the_widest_fork_is_one_write_unit() -> None:
    with aws_world() as world:
        full = packed(Tally(arrived=PAGE_BRANCHES))
        pages = FORK_WIDTH // PAGE_BRANCHES
        for page in range(pages):
            run_now(world.store.report("run_" + "0" * 26, "0/3", page, full))
        (item,) = items_of(world.table.name)
    assert size_of(item) <= KILOBYTE


def test_a_page_that_keeps_the_order_of_its_arrivals_is_one_write_unit_too() -> None:
    """As forks with `max_concurrency` have it; the branches of the last page have the longest numbers."""
    with aws_world() as world:
        for index in range(FORK_WIDTH - PAGE_BRANCHES, FORK_WIDTH):
            run_now(world.store.arrive("run_" + "0" * 26, "0/3@99", f"{index}!", in_order=True))
        (item,) = items_of(world.table.name)
    assert size_of(item) <= KILOBYTE
