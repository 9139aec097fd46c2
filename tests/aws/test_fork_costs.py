"""What a branch costs: the same however wide the fork is: units, reads, messages, invocations."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

from tests.aws.kit import aws_world

MAP = """
workflow: flow
nodes:
  begin: {transitions: [{to: work, foreach: "{{ input }}"}]}
  work: {run: python:m.work, output: {n: "{{ result }}"}, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all, target: found}}
"""


@dataclass(frozen=True)
class Cost:
    """Of a fork, its own start and join left out: what one more branch costs."""

    units: float
    reads: float
    sqs: float
    invocations: float


def cost_of(width: int) -> Counter[str]:
    """What a run that forks into so many branches costs."""
    with aws_world(MAP) as world:
        world.steps.of["work"] = lambda call: call.input["item"]
        world.start(given=[0])
        world.deliver()
        world.meter.clear()
        world.sent.clear()
        run_id = world.start(given=list(range(width)))
        invocations = world.deliver()
        assert world.token(run_id).scope["found"] == [{"n": n} for n in range(width)]
        calls = Counter(world.sent) + Counter(world.meter.requests)
        sent = calls["SendMessage"] + calls["SendMessageBatch"]
        return Counter(
            units=world.meter.total,
            reads=calls["query"] + calls["get_item"],
            sqs=sent + calls["DeleteMessage"] + invocations,  # each invocation was one receive
            invocations=invocations,
        )


def per_branch(fewer: int, more: int) -> Cost:
    less, much = cost_of(fewer), cost_of(more)
    return Cost(
        **{name: (much[name] - less[name]) / (more - fewer) for name in ("units", "reads", "sqs", "invocations")}
    )


@pytest.fixture(scope="module")
def narrow() -> Cost:
    return per_branch(10, 100)


@pytest.fixture(scope="module")
def wide() -> Cost:
    return per_branch(100, 400)


def test_a_branch_of_one_small_step_costs_two_write_units_its_arrival_included(narrow: Cost, wide: Cost) -> None:
    assert narrow.units <= 2.1
    assert wide.units <= 2.1


def test_ten_branches_share_a_message_and_an_invocation(narrow: Cost, wide: Cost) -> None:
    for cost in (narrow, wide):
        assert cost.sqs <= 0.22
        assert cost.invocations <= 0.11


def test_a_branch_is_read_once_and_a_tenth_of_its_parent(narrow: Cost, wide: Cost) -> None:
    assert narrow.reads <= 1.5
    assert wide.reads <= 1.5
