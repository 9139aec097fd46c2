"""What a branch costs on AWS, by the width of its fork: the services are emulated, their calls and bytes are counted.

    python -m tests.aws.fork_costs [width …]

Each width is compared with the one before it, so that a run's own start, its fork and its join are left out.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from time import perf_counter

from stepwell.aws.items import size_of
from stepwell.aws.keys import run_partition
from stepwell.limits import FORK_LANE
from stepwell.runtime.loop.driving import run_now
from tests.aws.kit import AwsWorld, aws_world
from tests.contract.emulated import items_of
from tests.runtime.kit import fails

MAP = """
workflow: flow
nodes:
  begin: {transitions: [{to: work, foreach: "{{ input }}"}]}
  work: {run: python:m.work, output: {n: "{{ result }}"}, transitions: [{to: gather}]}
  gather: {fan_in: {policy: POLICY, target: found}}
"""
WAITS = """
workflow: flow
nodes:
  begin: {transitions: [{to: ask, foreach: "{{ input }}"}]}
  ask: {wait: {for: approval, timeout: 24h}, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all}}
"""
IN_LINE = WAITS.replace('"{{ input }}"', '"{{ input }}", max_concurrency: 10')
NESTED = """
workflow: flow
nodes:
  begin: {transitions: [{to: half, foreach: "{{ input }}"}]}
  half: {transitions: [{to: ask, foreach: "{{ input }}"}]}
  ask: {wait: {for: approval, timeout: 24h}, transitions: [{to: inner}]}
  inner: {fan_in: {policy: all}, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all}}
"""
POLICIES = {
    "all": "all",
    "m_of_n": "{m_of_n: WIDTH}, on_branch_failure: collect",
    "tolerant": "all, tolerate: {percent: 10}",
}
WIDTHS = (10, 100, 1_000, 10_000)


@dataclass(frozen=True)
class Counted:
    """A run with a fork of this width."""

    width: int
    units: int
    reads: int
    sqs: int
    invocations: int
    item_bytes: int  # the largest item beside those of the parent, whose log holds what the user gave and gets
    partition_bytes: int  # the largest partition beside the parent's
    joins_bytes: int  # the fork's own set of its pages


@dataclass(frozen=True)
class Cost:
    """What one more branch costs."""

    units: float
    reads: float
    sqs: float
    invocations: float


def counted(
    width: int, policy: str = "all", forks_kept: int = 0, failing: Collection[int] = (), lane: int = 0
) -> Counted:
    """`forks_kept`: 0 for workers that are cold at every message, which read most. `failing`: these branches fail.

    `lane`: so many branches are written together.
    """
    text = MAP.replace("POLICY", POLICIES[policy]).replace("WIDTH", str(width))
    with aws_world(text, forks_kept=forks_kept, lane=lane) as world:
        world.steps.of["work"] = lambda call: fails() if call.input["item"] in failing else call.input["item"]
        world.start(given=[0])
        world.deliver()
        world.meter.clear()
        world.sent.clear()
        run_id = world.start(given=list(range(width)))
        invocations = world.deliver()
        if world.token(run_id).scope["found"] != [{"n": n} for n in range(width) if n not in failing]:
            raise AssertionError(f"the fork of {width} did not join")
        calls = Counter(world.sent)
        sent = calls["SendMessage"] + calls["SendMessageBatch"]
        return Counted(
            width=width,
            units=world.meter.total,
            reads=world.meter.requests["query"] + world.meter.requests["get_item"],
            sqs=sent + calls["DeleteMessage"] + invocations,  # each invocation was one receive
            invocations=invocations,
            **sizes(world, run_id),
        )


def waited(width: int, lane: int = 0) -> tuple[float, float]:
    """Write units of a branch that waits for an approval: until all wait, and when one after the other goes on."""
    with aws_world(WAITS, lane=lane) as world:
        run_id = world.start(given=list(range(width)))
        world.deliver()
        begun = world.meter.total
        world.meter.clear()
        for index in range(width):
            run_now(world.service.approve(run_id, wait=f"0/0.{index}"))
            world.deliver()
        return begun / width, world.meter.total / width


def waited_whole(text: str, given: object, branches: Sequence[str]) -> float:
    """Write units of a branch that waits for an approval, from its begin to its arrival, by the run's whole cost."""
    with aws_world(text) as world:
        run_id = world.start(given=given)
        world.deliver()
        for branch in branches:
            run_now(world.service.approve(run_id, wait=branch))
            world.deliver()
        if world.header(run_id).status != "completed":
            raise AssertionError(f"the run is {world.header(run_id).status}")
        return world.meter.total / len(branches)


def sizes(world: AwsWorld, run_id: str) -> dict[str, int]:
    """Bytes of what a fork adds beside its parent's partition."""
    parents = run_partition(run_id)
    added = [item for item in items_of(world.table.name) if item["pk"]["S"].startswith(f"{parents}#")]
    partitions: Counter[str] = Counter()
    for item in added:
        partitions[item["pk"]["S"]] += size_of(item)
    return {
        "item_bytes": max(map(size_of, added)),
        "partition_bytes": max(partitions.values()),
        "joins_bytes": max((size_of(item) for item in added if "@" not in item["pk"]["S"]), default=0),
    }


def per_branch(fewer: Counted, more: Counted) -> Cost:
    wider = more.width - fewer.width
    return Cost(
        units=(more.units - fewer.units) / wider,
        reads=(more.reads - fewer.reads) / wider,
        sqs=(more.sqs - fewer.sqs) / wider,
        invocations=(more.invocations - fewer.invocations) / wider,
    )


def main() -> None:
    """Prints a line for each width."""
    parser = argparse.ArgumentParser(prog="python -m tests.aws.fork_costs", description=__doc__)
    parser.add_argument("widths", type=int, nargs="*", default=WIDTHS)
    parser.add_argument("--policy", choices=sorted(POLICIES), default="all")
    parser.add_argument("--warm", action="store_true", help="one worker that keeps the fork between its messages")
    parser.add_argument("--lanes", action="store_true", help="branches that share a message are written together")
    given = parser.parse_args()
    before = counted(1, given.policy)  # which has no lanes
    for width in given.widths:
        began = perf_counter()
        now = counted(width, given.policy, 8 if given.warm else 0, lane=FORK_LANE if given.lanes else 0)
        cost = per_branch(before, now)
        print(
            f"{width:6}: {cost.units:.3f} units, {cost.reads:.3f} reads, {cost.sqs:.3f} SQS, {cost.invocations:.3f}"
            f" invocations a branch; largest item {now.item_bytes} B, partition {now.partition_bytes} B,"
            f" the fork's own set {now.joins_bytes} B ({perf_counter() - began:.0f} s)",
            flush=True,
        )
        before = now


if __name__ == "__main__":
    main()
