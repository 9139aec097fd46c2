"""Random families of runs under limits: of how many are under way at once, and of how fast they begin."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from stepwell.definition.graph import END, Call, Child, Concurrency, Graph, Node, RateLimit
from tests.sim import lock_programs as parts
from tests.sim.child_programs import Family
from tests.sim.programs import BAD, KEY, TOPICS, Program


def make_limited(rng: random.Random) -> Program:
    """A run that starts three to five others at once, which are too many for their workflows' limits."""
    return contending(rng, _leaf, 3)


def contending(rng: random.Random, leaf: Callable[[random.Random, str], Program], most_events: int) -> Program:
    """A run that starts three to five others at once, of one or two workflows that `leaf` makes."""
    kids = [leaf(rng, f"kid{index}") for index in range(rng.choice([1, 1, 2]))]
    names = [kid.graph.name for kid in kids]
    called = tuple(Child(f"c{index}", rng.choice(names)) for index in range(rng.randint(3, 5)))
    call = Call(called, timeout_ms=rng.choice([None, None, 5_000, 3_600_000]), parent_close="cancel",
                failed_child=rng.choice(["propagate", "return", "return"]),
                siblings=rng.choice(["cancel", "finish", "finish"]))  # fmt: skip
    nodes = {"n0": Node("n0", call=call, rules=parts._next("n0", END))}
    graph = Graph("sim", "sha256:sim", "timeline", "n0", nodes, {})
    events = tuple((rng.choice(TOPICS), f"e{number}", 1) for number in range(rng.randint(0, most_events)))
    calls = [("cancel", rng.choice([0, 1, 30]))] * (rng.random() < 0.1)
    calls += [(f"{word} child", rng.choice([0, 0, 1, 30])) for word in ("cancel", "terminate") if rng.random() < 0.4]
    return Family(graph, {}, {}, frozenset(), events, tuple(calls), input={"key": "k"}, callees=tuple(kids))


def _leaf(rng: random.Random, name: str) -> Program:
    nodes, more = parts._chain(rng, rng.randint(1, 3))
    key = BAD if rng.random() < 0.03 else rng.choice([None, KEY])
    limit = Concurrency(rng.choice([1, 1, 2]), key, rng.choice(["queue", "queue", "cancel_newest", "cancel_oldest"]))
    pace = RateLimit(1, rng.choice([500, 30_000]), rng.choice([1, 2])) if rng.random() < 0.2 else None
    timeout_ms = rng.choice([None, None, None, 2_000, 60_000])
    graph = replace(parts._graph(name, nodes), concurrency=limit, rate_limit=pace, timeout_ms=timeout_ms)
    return parts._program(rng, graph, more)
