"""What child runs and a rollback cost on DynamoDB and SQS, counted in write units, the indexes included."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.aws.kit import AwsWorld, aws_world
from tests.runtime.kit import fails

CHILD = "workflow: child\ntimeline: [{name: look, run: python:m.look}]\n"
CALL = 'workflow: flow\ntimeline: [{name: ask, run: "workflow:child"}, {name: after, run: python:m.a}]\n'
ALONE = Counter(RUN=6)  # a run's own start and end


def children(count: int) -> str:
    calls = ", ".join("{workflow: child}" for _ in range(count))
    return f"workflow: flow\ntimeline: [{{name: ask, children: [{calls}]}}, {{name: after, run: python:m.a}}]\n"


def spent(world: AwsWorld) -> tuple[Counter[str], Counter[str]]:
    """Units and SQS and Scheduler calls of one run that is not the first of its version."""
    for _ in range(2):
        world.meter.clear()
        world.sent.clear()
        run_id = world.start()
        world.deliver()
    assert world.header(run_id).status == "completed"
    return world.meter.units, Counter(world.sent)


def test_a_child_costs_its_own_run_and_two_units_and_two_changes_of_the_header_more() -> None:
    """The parent's wait and its end, for which no item of the mailbox is written; leaving the node is the third."""
    with aws_world(CALL, CHILD) as world:
        units, sent = spent(world)
        steps = Counter(LOG=2)
        assert units - steps - ALONE - ALONE == Counter(LOG=3, RUN=2)
        assert (sent["SendMessage"], sent["CreateSchedule"]) == (3, 1)  # each run's wake, the resume; the limit of 1 h


@pytest.mark.parametrize("count", [2, 10])
def test_of_several_children_each_costs_its_run_and_one_unit_for_its_arrival(count: int) -> None:
    with aws_world(children(count), CHILD) as world:
        units, sent = spent(world)
        own = Counter(LOG=1 + count, RUN=6 + 6 * count)
        assert units - own == Counter(LOG=3, RUN=2, JOIN=count)
        assert sent["SendMessage"] == 1 + count + 1 + 1  # each run's wake, the resume, and the limit of five minutes


def test_undoing_a_step_costs_one_unit() -> None:
    """Beside the failed run's own, the header says once that it is being undone."""
    names = [f"s{n}" for n in range(10)]
    steps = ", ".join(f"{{name: {name}, run: python:m.s, compensate: {{run: python:m.undo}}}}" for name in names)
    flow = f"workflow: flow\nfailure_policy: compensate\ntimeline: [{steps}, {{name: last, run: python:m.last}}]\n"
    with aws_world(flow) as world:
        world.steps.of["last"] = lambda _: fails()
        for _ in range(2):
            world.meter.clear()
            run_id = world.start()
            world.deliver()
        assert world.header(run_id).status == "compensated"
        assert world.meter.units["LOG"] == 10 + 1 + 10
        assert world.meter.units["RUN"] - 7 <= 1
