"""Workflows whose steps take virtual time, so that a branch can wait for another one's step."""

from __future__ import annotations

import random
from dataclasses import replace

from stepwell.definition.graph import END, FanIn, Graph, Node, Rule, Step
from tests.sim.fork_programs import items
from tests.sim.programs import Program

TAKES_MS = (0, 50, 150, 1_000, 10_000)
MOST = 12  # branches


def with_times(program: Program, rng: random.Random) -> Program:
    """The program with steps that take as long as chance has it, or all as long as each other."""
    return replace(program, takes_ms=rng.choice([TAKES_MS, TAKES_MS, (1_000,)]))


def make_fork(rng: random.Random) -> Program:
    """One fork over a list, each branch a step or two; messages of a few branches, or of all."""
    names = [f"n{number}" for number in range(1, rng.randint(2, 3))]
    bound = rng.choice([None, None, 1, 2, 3, 5])
    over = Rule("n0.next", "next", to="n1", foreach=items("list"), max_concurrency=bound)
    nodes = {"n0": Node("n0", rules=(over,), join="met")}
    for name, following in zip(names, [*names[1:], "met"], strict=True):
        nodes[name] = Node(name, step=Step(f"python:sim.{name}"), rules=(_next(name, following),))
    policy = rng.choice(["all", "all", "any", "m_of_n"])
    fan_in = FanIn(policy, need=2 if policy == "m_of_n" else 0, merge=rng.choice(["append", "last_wins"]), target="met")
    nodes["met"] = Node("met", fan_in=fan_in, rules=(_next("met", END),))
    graph = Graph("sim", "sha256:sim", "nodes", "n0", nodes, {})
    given = {"key": "k", "list": list(range(rng.randint(2, MOST)))}
    calls = (("cancel", rng.choice([0, 1, 5])),) * (rng.random() < 0.15)
    return Program(graph, {}, {}, frozenset(), (), calls, input=given, chunk=rng.choice([0, 0, 2, 3]),
                   page=rng.choice([0, 0, 2, 4]))  # fmt: skip


def _next(name: str, following: str) -> Rule:
    return Rule(f"{name}.next", "next", to=following)
