"""The model of docs/scale.md counts what emulated AWS counts, and nothing that runs share is written once a run."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from stepwell.aws.store.keys import BY_DUE, BY_STATE, BY_WORKFLOW, STATE_SHARDS, run_partition
from stepwell.limits import MINUTE_MS
from stepwell.runtime.loop.driving import run_now
from tests.aws.fork_costs import NESTED
from tests.aws.kit import AwsWorld, aws_world
from tests.aws.test_costs import APPROVAL, CHAIN, warm
from tests.docs.test_benchmarks import FOLDER, imported

RUNS = 8
STEP = 'ask: {run: python:m.work, output: {n: "{{ result }}"}'
ITEMS = NESTED.replace("ask: {wait: {for: approval, timeout: 24h}", STEP).replace(
    'half: {transitions: [{to: ask, foreach: "{{ input }}"',
    'half: {transitions: [{to: ask, foreach: "{{ state.item }}"',
)


@pytest.fixture
def scale(monkeypatch: pytest.MonkeyPatch) -> Any:
    return imported(FOLDER / "scale.py", monkeypatch)


def test_a_run_writes_to_its_own_partition_and_to_one_of_each_index(scale: Any) -> None:
    with warm(CHAIN) as world:
        runs = [world.start() for _ in range(RUNS)]
        world.deliver()
        heat = world.meter.heat
        shared = {place: units for place, units in heat.items() if place[0] != "table"}
        assert {partition for index, partition in heat if index == "table"} == set(map(run_partition, runs))
        assert all(units == scale.HEADER_UNITS + 10 * scale.STEP_UNITS for units in (heat - Counter(shared)).values())
    assert shared[BY_WORKFLOW, "flow"] == RUNS * scale.WORKFLOW_UNITS
    assert sum(units for (index, _), units in shared.items() if index == BY_STATE) == RUNS * scale.STATE_UNITS
    assert {index for index, _ in shared} == {BY_WORKFLOW, BY_STATE}


def test_the_runs_that_live_are_spread_over_the_partitions_of_their_state(scale: Any) -> None:
    assert scale.STATE_PARTITIONS == STATE_SHARDS
    with warm("workflow: flow\ntimeline: [{name: s, run: python:m.s}]") as world:
        for _ in range(100):
            world.start()
        live = [units for (index, _), units in world.meter.heat.items() if index == BY_STATE]
    assert len(live) == STATE_SHARDS
    assert max(live) <= 1.6 * 100 / STATE_SHARDS


@pytest.mark.parametrize(("outer", "inner"), [(10, 10), (20, 10), (3, 250), (110, 3)])
def test_a_fork_of_forks_writes_and_sends_what_the_model_says(scale: Any, outer: int, inner: int) -> None:
    with aws_world(ITEMS, forks_kept=0) as world:
        world.start(given=[[0]])
        world.deliver()
        world.meter.clear()
        run_id = world.start(given=[[0] * inner] * outer)
        messages = world.deliver()
        assert world.header(run_id).status == "completed"
        units, hottest = world.meter.total, max(world.meter.heat.values())
    load = scale.Items(outer, inner, step_seconds=0)
    assert messages == load.messages
    assert units == pytest.approx(load.units, rel=0.01, abs=10)
    assert hottest <= scale.FORK_UNITS * 100 + 10  # of one partition: a hundred branches of the outer fork


def test_branches_whose_steps_take_a_second_get_messages_of_their_own(scale: Any) -> None:
    with aws_world(ITEMS, forks_kept=0) as world:
        world.steps.of["ask"] = lambda _: world.clock.advance(1_000)
        world.start(given=[[0] * 20] * 2)
        assert world.deliver() == scale.Items(2, 20, step_seconds=1).messages


def test_the_sweeper_makes_four_requests_for_a_run_that_lives_on_once(scale: Any) -> None:
    few, many = met_by(2), met_by(12)
    assert many - few == Counter(
        query=20, get_item=10, update_item=10
    )  # its header and log, its snapshot; it is watched
    assert (many - few).total() == 10 * scale.MET_REQUESTS


def met_by(runs: int) -> Counter[str]:
    """The requests of the first sweep that finds so many runs that wait."""
    with aws_world(APPROVAL) as world:
        sweep(world)
        for _ in range(runs):
            world.start()
        world.deliver()
        world.clock.advance(10 * MINUTE_MS)
        world.meter.clear()
        sweep(world)
        assert {index for index, _ in world.meter.heat} <= {"table", BY_DUE}
        return Counter(world.meter.requests)


def sweep(world: AwsWorld) -> None:
    run_now(world.sweeper.sweep(5 * MINUTE_MS))


def test_the_model_can_be_asked_on_the_command_line(
    scale: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in ("starts", "items", "waiting"):
        monkeypatch.setattr(sys, "argv", ["scale.py", kind])
        scale.main()
    said = capsys.readouterr().out
    assert "the starts of one workflow" in said
    assert "1,000,000 items: 2,034,034 write units" in said
    assert "20 GB" in said


def test_the_page_names_each_quota_of_the_model(scale: Any) -> None:
    page = (Path(__file__).parents[2] / "docs" / "scale.md").read_text(encoding="utf-8")
    assert [quota.name for quota in scale.QUOTAS if quota.name not in page] == []
