"""Write units of the live feed on AWS, as DynamoDB charges them: none for runs, and two for each who watches."""

from __future__ import annotations

from collections import Counter

import pytest

from stepwell.aws.live import Feed
from tests.aws.meter import Meter
from tests.contract.emulated import item_of
from tests.contract.live_kit import AFTER, BEFORE, seen
from tests.functions.test_live import Watched, approve, waiting, watched

__all__ = ["watched"]  # a fixture

COMES, GOES = 1, 1


@pytest.fixture
def meter(watched: Watched) -> Meter:
    """Counts what all functions of the stack write."""
    cloud = watched.stack.cloud
    cloud.connect("dynamodb")
    counting = Meter(cloud.clients.dynamodb(), item_of)
    cloud.clients._made["dynamodb"] = counting
    return counting


def units_of_a_run(watched: Watched, meter: Meter) -> Counter[str]:
    """Those of a run from its start to its end, by kind of item."""
    meter.clear()
    approve(watched, waiting(watched))
    return Counter(meter.units)


def test_a_run_costs_as_many_write_units_without_a_feed_watched_by_nobody_and_by_five(
    watched: Watched, meter: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever watches all runs, its workflow, or only it."""
    units_of_a_run(watched, meter)  # the first run of a workflow keeps its definition
    with monkeypatch.context() as patch:
        patch.setattr(Feed, "tell", lambda feed, notices: None)
        without = units_of_a_run(watched, meter)
    assert without.total() > 0
    assert units_of_a_run(watched, meter) == without
    watched.open("one", "workflow=flow")
    assert units_of_a_run(watched, meter) == without
    assert seen(watched.gateway.posted["one"]) == [*BEFORE, *AFTER]
    for number in range(4):
        watched.open(f"more {number}")
    assert units_of_a_run(watched, meter) == without
    assert seen(watched.gateway.posted["more 3"]) == [*BEFORE, *AFTER]


def test_a_watcher_costs_two_write_units_however_long_it_stays_and_whatever_it_asks(
    watched: Watched, meter: Meter
) -> None:
    run_id = waiting(watched)
    watched.flow()
    meter.clear()
    watcher = watched.open("a", f"run={run_id}")
    assert meter.total == COMES
    for _ in range(3):
        assert watched.send("message", watcher, '{"after": ""}') == 200
    watched.flow()
    assert meter.total == COMES
    assert watched.send("disconnect", watcher) == 200
    assert meter.total == COMES + GOES


def test_watchers_cost_two_write_units_each(watched: Watched, meter: Meter) -> None:
    waiting(watched)
    watched.flow()
    meter.clear()
    for number in range(5):
        watched.open(f"watcher {number}")
    for number in range(5):
        watched.send("disconnect", f"watcher {number}")
    assert meter.total == 5 * (COMES + GOES)
    assert watched.connections() == []
