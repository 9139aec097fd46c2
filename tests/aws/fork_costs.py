"""What a branch costs on AWS, by the width of its fork: the services are emulated, their calls and bytes are counted.

    python -m tests.aws.fork_costs [width …]

Each width is compared with the one before it, so that a run's own start, its fork and its join are left out.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from time import perf_counter

from stepwell.aws.store.items import size_of
from stepwell.aws.store.keys import run_partition
from stepwell.limits import FORK_LANE
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.steps.port import StepCall
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
    read_units: int
    objects: int  # requests to S3 that write, and
    fetches: int  # those that read
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
    read_units: float
    objects: float
    fetches: float
    sqs: float
    invocations: float

    @property
    def usd(self) -> float:
        """Per million branches, by the table and S3 alone: on demand, us-east-1."""
        return 0.625 * self.units + 0.125 * self.read_units + 5.0 * self.objects + 0.4 * self.fetches


def counted(
    width: int,
    policy: str = "all",
    forks_kept: int = 0,
    failing: Collection[int] = (),
    lane: int = 0,
    result_bytes: int = 0,
    is_slow: bool = False,
) -> Counted:
    """`forks_kept`: 0 for workers that are cold at every message, which read most. `failing`: these branches fail.

    `lane`: so many branches are written together. `result_bytes`: of each branch; 0: its number. `is_slow`: steps take
    so long that no other branch waits for them.
    """
    text = MAP.replace("POLICY", POLICIES[policy]).replace("WIDTH", str(width))
    with aws_world(text, forks_kept=forks_kept, lane=lane) as world:
        made = {n: f"{n:0{result_bytes}}" if result_bytes else n for n in range(width)}

        def work(call: StepCall) -> object:
            if is_slow and call.late is not None:
                run_now(call.late())
            return fails() if call.input["item"] in failing else made[call.input["item"]]

        world.steps.of["work"] = work
        world.start(given=[0])
        world.deliver()
        world.meter.clear()
        world.sent.clear()
        world.stored.clear()
        run_id = world.start(given=list(range(width)))
        invocations = world.deliver()
        calls, stored = Counter(world.sent), Counter(world.stored)
        reads, read_units, units = _reads(world), world.meter.read_units, world.meter.total
        if world.token(run_id).scope["found"] != [{"n": made[n]} for n in range(width) if n not in failing]:
            raise AssertionError(f"the fork of {width} did not join")
        sent = calls["SendMessage"] + calls["SendMessageBatch"]
        return Counted(
            width=width,
            units=units,
            reads=reads,
            read_units=read_units,
            objects=stored["PutObject"],
            fetches=stored["GetObject"],
            sqs=sent + calls["DeleteMessage"] + invocations,  # each invocation was one receive
            invocations=invocations,
            **sizes(world, run_id),
        )


def _reads(world: AwsWorld) -> int:
    return world.meter.requests["query"] + world.meter.requests["get_item"]


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
    return Cost(**{one.name: (getattr(more, one.name) - getattr(fewer, one.name)) / wider for one in fields(Cost)})


def main() -> None:
    """Prints a line for each width."""
    parser = argparse.ArgumentParser(prog="python -m tests.aws.fork_costs", description=__doc__)
    parser.add_argument("widths", type=int, nargs="*", default=WIDTHS)
    parser.add_argument("--policy", choices=sorted(POLICIES), default="all")
    parser.add_argument("--warm", action="store_true", help="one worker that keeps the fork between its messages")
    parser.add_argument("--lanes", action="store_true", help="branches that share a message are written together")
    parser.add_argument("--result", type=int, default=0, help="bytes of each branch's result")
    parser.add_argument("--slow", action="store_true", help="no branch waits for another's step")
    given = parser.parse_args()
    before = counted(1, given.policy, result_bytes=given.result)  # which has no lanes
    for width in given.widths:
        began = perf_counter()
        lane = FORK_LANE if given.lanes else 0
        now = counted(width, given.policy, 8 if given.warm else 0, lane=lane, result_bytes=given.result,
                      is_slow=given.slow)  # fmt: skip
        cost = per_branch(before, now)
        print(
            f"{width:6}: {cost.units:.3f} units, {cost.reads:.3f} reads ({cost.read_units:.2f} units),"
            f" {cost.sqs:.3f} SQS, {cost.invocations:.3f} invocations, {cost.objects:.3f} objects ({cost.fetches:.2f}"
            f" read) a branch: {cost.usd:.2f} USD a million; largest item {now.item_bytes} B, partition"
            f" {now.partition_bytes} B, the fork's own set {now.joins_bytes} B ({perf_counter() - began:.0f} s)",
            flush=True,
        )
        before = now


if __name__ == "__main__":
    main()
