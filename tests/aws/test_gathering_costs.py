"""What starts that become one run cost on DynamoDB: each the same, however many there are, and nobody scans."""

from __future__ import annotations

from collections import Counter

import pytest

from stepwell.limits import MINUTE_MS
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.starts.starting import Start, Started
from tests.aws.kit import AwsWorld, aws_world
from tests.aws.test_ledger import ledger
from tests.aws.test_limit_costs import PLAIN, costs

BATCH = PLAIN.replace("timeline", "batch: {max_size: 100, max_delay: 1m}\ntimeline")
FULL = BATCH.replace("100", "3")
DEBOUNCE = PLAIN.replace("timeline", "debounce: {period: 1m}\ntimeline")
TIMED = DEBOUNCE.replace("debounce", "timeout: 30m\ndebounce")


def begun(world: AwsWorld, number: int, *, keyed: bool = False) -> Started:
    return run_now(world.service.start(Start("flow", {"n": number}, key=f"k{number}" if keyed else "")))


@pytest.mark.parametrize("definition", [BATCH, DEBOUNCE], ids=["batch", "debounce"])
@pytest.mark.parametrize(("keyed", "home"), [(False, Counter()), (True, Counter(E=1))], ids=["plain", "keyed"])
def test_a_start_that_becomes_part_of_a_run_costs_one_write_unit_and_one_more_with_a_key(
    definition: str, keyed: bool, home: Counter[str]
) -> None:
    """And as much when fifty came before it. The first one also makes the run, and names it."""
    with aws_world(definition) as world:
        begun(world, 0, keyed=keyed)
        units, _, _ = costs(world)
        assert units["NOTE"] == 1
        spent = []
        for number in range(1, 60):
            assert begun(world, number, keyed=keyed).folded
            spent.append(costs(world))
        assert all(units == Counter(LOG=1) + home for units, _, _ in spent[:-10])
        assert max(requests.total() for _, requests, _ in spent) <= 8 + 2 * keyed
        assert not any("scan" in requests for _, requests, _ in spent)


@pytest.mark.parametrize("definition", [BATCH, FULL, DEBOUNCE, TIMED], ids=["batch", "full", "debounce", "timed"])
@pytest.mark.parametrize("keyed", [False, True], ids=["plain", "keyed"])
def test_the_ledger_of_a_run_that_starts_have_made_is_what_was_counted(definition: str, keyed: bool) -> None:
    with aws_world(definition) as world:
        begun(world, 90)
        world.pass_time(60 * MINUTE_MS)
        costs(world)
        run_id = begun(world, 0, keyed=keyed).header.run_id
        world.pass_time(MINUTE_MS // 2)
        for number in (1, 2):
            begun(world, number, keyed=keyed)
        world.pass_time(60 * MINUTE_MS)
        assert world.header(run_id).status == "completed"
        assert ledger(world, run_id).write_units == world.meter.units.total()
        assert ledger(world, run_id).invocations == Counter(world.sent)["DeleteMessage"]
        assert ledger(world, run_id).schedules == Counter(world.sent)["CreateSchedule"]


def test_a_run_without_gathering_costs_what_it_did() -> None:
    with aws_world(PLAIN) as world:
        begun(world, 0)
        assert "NOTE" not in costs(world)[0]
