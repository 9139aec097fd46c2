"""Programs of what state machines compile to: retriers that count apart, and joins that get the branches' results.

A A B ── the first retrier, twice; the second, once ── done
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from stepwell.definition.graph import END, FanIn, Graph, Limit, Node, Retrier, Rule, Step, Throttle
from stepwell.engine.actions import Outcome
from stepwell.engine.records import ROOT, Failure, Fork, Kind, Record, RetryAt
from tests.sim import lock_programs as parts
from tests.sim.fork_programs import items
from tests.sim.programs import Program
from tests.sim.snags import HELD, Snag
from tests.sim.world import World

_DELAY_MS = 2_000
_RESULTS = frozenset({Kind.STEP, Kind.MOVED})  # of a step, or of its answer


@dataclass(frozen=True)
class Named:
    """The errors of one type; "": all."""

    type: str = ""

    def take(self, failure_type: str, category: str, data: object = None) -> bool:
        return self.type in ("", failure_type)


@dataclass(frozen=True)
class Retried(Program):
    """A workflow whose steps fail in a way of their own at each try."""

    fails: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # node -> the type of each try's failure

    def outcome(self, call: Any, now_ms: int, seen: Any) -> Outcome:
        made = super().outcome(call, now_ms, seen)
        fails = self.fails.get(call.node, ())
        if call.attempt > len(fails):
            return made
        failure = Failure(fails[call.attempt - 1], "step", "again", call.node, call.attempt)
        return Outcome(failure=failure, started_ms=now_ms)


def make_retried(rng: random.Random) -> Program:
    """A step of two or three retriers, whose workers are held up and die around its records, while its code is gone."""
    names = rng.sample(("A", "B", "C"), 2)
    retriers = tuple(Retrier(Named(one), rng.randint(1, 3), _DELAY_MS, rng.choice((1.0, 2.0))) for one in names)
    retriers += (Retrier(Named(), 1, 1_000),) * (rng.random() < 0.5)
    is_broken = rng.random() < 0.4  # its code is gone once an attempt has begun
    throttle = Throttle("x", None) if rng.random() < 0.3 else None
    step = Step("python:sim.n0", retriers=retriers, at_most_once=is_broken or rng.random() < 0.5, throttle=throttle)
    nodes = {
        "n0": Node("n0", step=step, rules=parts._next("n0", "n1")),
        "n1": Node("n1", step=Step("python:sim.n1"), rules=parts._next("n1", END)),
    }
    fails = tuple(rng.choice((*names, *names, "C")) for _ in range(rng.randint(2, 8)))
    asks = ({"type": "break", "phase": HELD},) * is_broken
    snags = (Snag("wake", "append", lets=rng.randint(2, 9), most=1, held_ms=(1,)),) if is_broken else _deaths(rng)
    graph = parts._graph("sim", nodes)
    return Retried(graph, {}, {}, frozenset(), (), (), asks=asks, snags=snags, limits={"x": Limit(1)},
                   fails={"n0": fails})  # fmt: skip


def _deaths(rng: random.Random) -> tuple[Snag, ...]:
    """Before a record, and behind a later one."""
    lets = rng.randint(0, 3)
    before = Snag("wake", "append", "append", True, lets=lets, most=rng.choice((1, 2)), held_ms=(1,))
    lets += rng.randint(1, 3)
    return before, Snag("wake", "append", "append", lets=lets, most=rng.choice((1, 3)), held_ms=(1, 1_500))


def make_resulted(rng: random.Random) -> Program:
    """A fork whose join gets its branches' results. Who ends a branch is held up as it arrives, and dies."""
    width, strides = rng.randint(2, 5), rng.choice((None, None, 1, 2))
    over = Rule("n0.next", "next", to="n1", foreach=items("n0"), max_concurrency=strides)
    fan_in = FanIn(merge="results", target=rng.choice(("", "met")))
    nodes = {
        "n0": Node("n0", rules=(over,), join="n3"),
        "n1": Node("n1", step=Step("python:sim.n1"), rules=parts._next("n1", "n2")),
        "n2": Node("n2", step=Step("python:sim.n2"), rules=parts._next("n2", "n3")),
        "n3": Node("n3", fan_in=fan_in, rules=parts._next("n3", "n4")),
        "n4": Node("n4", step=Step("python:sim.n4"), rules=parts._next("n4", END)),
    }
    arrives = Snag("wake", rng.choice(("arrive", "read_join", "append")), rng.choice(("arrive", "append", "")),
                   lets=rng.randint(0, 4), most=rng.choice((1, 3)), held_ms=(1, 1_500))  # fmt: skip
    graph = Graph("sim", "sha256:sim", "nodes", "n0", nodes, {})
    given = {"key": "k", "n0": list(range(width))}
    page, chunk = rng.choice((0, 2)), rng.choice((0, 1, 2))
    return Program(graph, {}, {}, frozenset(), (), (), input=given, page=page, chunk=chunk,
                   snags=(arrives,))  # fmt: skip


def laws_of_retried(world: World, logs: dict[str, list[Record]]) -> Iterator[str]:
    """Of one run: each retrier is used as often as it may, and joins of results have these in order."""
    for name, node in world.program.graph.nodes.items():
        if node.step is not None and node.step.retriers:
            for token, log in logs.items():
                yield from _counted(token, log, name, node.step.retriers, 2 * world.chances.skew_ms)
        if node.fan_in is not None and node.fan_in.merge == "results":
            yield from _results(logs, name)


def _counted(token: str, log: list[Record], name: str, retriers: tuple[Retrier, ...], skew_ms: int) -> Iterator[str]:
    """By the failures of the log alone."""
    counts = [0] * len(retriers)
    for record in (one for one in log if one.kind is Kind.STEP and one.node == name):
        error, where = record.error, f"{token} slot {record.slot}"
        found = next((at for at, one in enumerate(retriers) if error and one.errors.take(error.type, "")), None)
        is_due = found is not None and counts[found] < retriers[found].max_retries
        if is_due is not isinstance(record.next, RetryAt):
            yield f"retriers: {where} follows {counts} retries, and has {record.next}"
        if found is None or not isinstance(record.next, RetryAt):
            counts = [0] * len(retriers)
            continue
        counts[found] += 1
        delay_ms = retriers[found].initial_delay_ms * retriers[found].rate ** (counts[found] - 1)
        early_ms = record.at_ms + delay_ms - record.next.at_ms  # a record is no older than the one before it
        if record.next.used != tuple(counts) or not 0 <= early_ms <= skew_ms:
            yield f"retriers: {where} is the retry {counts} after {delay_ms} ms, and has {record.next} {record.at_ms}"


def _results(logs: dict[str, list[Record]], name: str) -> Iterator[str]:
    """By what the last step of each branch returned."""
    log = logs[ROOT]
    for record in log:
        fork = log[record.slot - 1].next
        if record.kind is Kind.JOINED and record.node == name and isinstance(fork, Fork) and record.error is None:
            branches = [logs[f"{ROOT}/{record.slot - 1}.{index}"] for index in range(fork.width)]
            ends = [[one for one in branch if one.kind in _RESULTS][-1] for branch in branches]
            expected = [one.output for one in ends]
            pairs = zip(ends, record.output, strict=True)  # of a branch that failed, the law of joins has what is there
            if any(told != one.output for one, told in pairs if one.error is None):
                yield f"law 3: the join in slot {record.slot} has {record.output}, and its branches made {expected}"
