"""What the sweeper costs on DynamoDB: it reads what is due, and runs that wait cost it nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from stepwell.aws.store.items import header_item, size_of
from stepwell.aws.store.table import SHAPE
from stepwell.engine.records import Status
from stepwell.limits import DAY_MS, MINUTE_MS
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.loop.rounds import NOTE, Rounds
from stepwell.runtime.ports import Lane
from tests.aws.kit import AwsWorld, aws_world
from tests.aws.meter import entry_of
from tests.aws.test_costs import APPROVAL, CHAIN, NAP
from tests.contract.emulated import items_of, partitions_of

STILL_MS = 5 * MINUTE_MS
MONTH_SWEEPS = 31 * DAY_MS // STILL_MS
ASKS = "workflow: flow\ntimeline: [{name: hold, wait: {for: approval, timeout: 3d}}]"


def sweep(world: AwsWorld) -> int:
    return len(run_now(world.sweeper.sweep(STILL_MS)))


def met(world: AwsWorld, count: int = 1) -> list[str]:
    """Runs that wait, and that the sweeper has met: all live runs at first, and once more an hour later."""
    runs = [world.start() for _ in range(count)]
    world.deliver()
    for _ in range(15):
        world.pass_time(STILL_MS)
        sweep(world)
    world.meter.clear()
    world.store.calls.clear()
    return runs


def add_waiting(world: AwsWorld, like: str, count: int) -> None:
    """So many more runs that wait: their headers, put past the store. Every other one has a timer."""
    header, items = world.header(like), partitions_of(world.table.name)
    assert (header.status, header.watched) == (Status.WAITING, True)
    for number in range(count):
        due_ms = None if number % 2 else world.clock.now_ms() + 30 * DAY_MS + number
        item = header_item(replace(header, run_id=f"more_{number:05d}", due_ms=due_ms))
        items[item["pk"]["S"]] = {item["sk"]["S"]: {**item, "input": {"S": "null"}}}


def spent_by_sweep(world: AwsWorld, finds: int) -> tuple[Counter[str], int]:
    """Requests by kind, and write units."""
    world.meter.clear()
    assert sweep(world) == finds
    return Counter(world.meter.requests), world.meter.total


def test_ten_thousand_waiting_runs_of_which_three_are_overdue_cost_reads_for_three() -> None:
    spent: list[tuple[Counter[str], int]] = []
    for more in (0, 9_997):
        with aws_world(ASKS) as world:
            runs = met(world, 3)
            add_waiting(world, runs[0], more)
            sweep_for_days(world, 3)
            spent.append(spent_by_sweep(world, finds=3))
    alone, beside_many = spent
    assert beside_many == alone
    requests, units = alone
    assert requests["query"] == 4 + 4 + 2 * 3  # due runs and new runs, of four shards each; a header and a log each
    assert requests["batch_get_item"] == 1  # the headers of those that are due
    assert requests["get_item"] == 1 + 3  # the note, and a snapshot each
    assert units == 3 * 3 + 1  # each is due anew: its header, and its entry's old place and new one; the note


def sweep_for_days(world: AwsWorld, days: int) -> None:
    """What so many days of sweeps that find nothing come to: their note, with later times."""
    world.clock.advance(days * DAY_MS)
    now_ms, note = world.clock.now_ms(), run_now(world.store.get_note(*NOTE))
    rounds = replace(Rounds.of(note), swept_ms=now_ms, until_ms=now_ms - STILL_MS)
    assert run_now(world.store.put_note(*NOTE, rounds.note(), note))
    world.clock.advance(STILL_MS)


def test_a_sweep_of_a_healthy_system_is_ten_requests_and_one_write_unit_however_many_runs_wait() -> None:
    with aws_world(APPROVAL) as world:
        met(world, 20)
        for _ in range(3):
            world.clock.advance(STILL_MS)
            requests, units = spent_by_sweep(world, finds=0)
            assert requests == Counter(query=8, get_item=1, put_item=1)
            assert units == 1


def test_a_stuck_run_is_found_within_two_sweeps_beside_any_number_that_wait() -> None:
    """A sweep reads no run that waits: it is the same beside 2,000 as beside 1,000,000.

    A run is stuck when its step's time-out and `still_ms` are over.
    """
    with aws_world(APPROVAL) as world:
        (waits,) = met(world)
        add_waiting(world, waits, 2_000)
        stuck = world.start()
        lost = world.queue.receive([Lane.WORK], world.clock.now_ms(), 60_000)
        assert lost is not None
        world.queue.delete(lost)
        world.clock.advance(2 * STILL_MS)
        assert [len(found) for found in two_sweeps(world, stuck)] == [1, 0]  # its wake may be behind others


def two_sweeps(world: AwsWorld, stuck: str) -> list[list[str]]:
    """What each of two sweeps found, at a price that is bounded."""
    found = []
    for _ in range(2):
        world.clock.advance(STILL_MS)
        world.meter.clear()
        found.append([one.run_id for one in run_now(world.sweeper.sweep(STILL_MS))])
        assert world.meter.requests.total() <= 20
    assert stuck in found[0]
    return found


def test_a_run_that_is_over_before_the_sweeper_comes_pays_nothing_for_it() -> None:
    with aws_world(CHAIN) as world:
        world.start()
        world.deliver()
        world.meter.clear()
        world.start()
        world.deliver()
        for _ in range(3):
            world.clock.advance(STILL_MS)
            sweep(world)
        assert world.meter.units == Counter(LOG=10, RUN=6, NOTE=3)


@pytest.mark.parametrize(
    ("definition", "answered", "more"),
    [
        (APPROVAL, True, 2 + 3 + 1),  # it has a timer, before which it is answered
        (NAP, False, 2 + 0 + 1),  # it is due in the minute in which it ends
    ],
    ids=["approval", "sleep"],
)
def test_a_wait_that_outlasts_a_sweep_costs_a_few_write_units_more_however_long_it_is(
    definition: str, answered: bool, more: int
) -> None:
    """The sweeper meets it: its header, and an entry where it has a timer. Resumed: its header before the record that

    resumes it, and the entry's new place. Ended: the entry. A wait that is over sooner pays none of them.
    """
    with aws_world(definition) as world:
        run_id = world.start()
        world.deliver()
        world.meter.clear()
        for _ in range(24):
            world.pass_time(STILL_MS)
            sweep(world)
        if answered:
            run_now(world.service.approve(run_id))
        world.pass_time(20 * DAY_MS)
        assert world.header(run_id).status == "completed"
        assert world.meter.units["RUN"] == 1 + 2 + more  # the header as it resumes, and as it ends


def test_the_page_on_deploying_says_what_waiting_costs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text()
    assert "| a wait of more than five minutes, in addition to its row above | 3 to 6 | | | 1.88 to 3.75 |" in page
    assert "0.50 USD a month for a million waiting runs" in page
    assert "0.01 USD a month" in page
    assert round(MONTH_SWEEPS * ((8 * 0.5 + 1) * 0.125 + 0.625) / 1e6, 2) == 0.01  # queries, the note read and written


def test_a_run_that_waits_stores_less_than_two_kilobytes() -> None:
    """At 0.25 USD a month for each gigabyte; each item and each entry of an index is 100 bytes more."""
    with aws_world(APPROVAL) as world:
        (run_id,) = met(world)
        items = [item for item in items_of(world.table.name) if item["pk"]["S"] == f"RUN#{run_id}"]
        entries = [entry_of(index, item) for index in SHAPE["GlobalSecondaryIndexes"] for item in items]
        stored = [*items, *(entry for entry in entries if entry is not None)]
        assert len(stored) == 2 + 3  # the header and the record; by workflow, by state, by due time
        assert sum(size_of(item) + 100 for item in stored) < 2_000
