"""Random families of runs whose steps want permits of the same few named limits."""

from __future__ import annotations

import random
from dataclasses import replace

from stepwell.definition.graph import Graph, Limit, Node, RateLimit, Throttle
from tests.sim.fork_programs import make_program
from tests.sim.limit_programs import make_limited
from tests.sim.lock_programs import make_locked
from tests.sim.programs import BAD, KEY, Program

NAMES = ("x", "y", "nowhere")
_WEIGHTS = (0.8, 0.18, 0.02)  # there is no limit of the last name


def make_throttled(rng: random.Random) -> Program:
    """A run, its branches and those that it starts, most of whose steps are throttled."""
    made = rng.choice([make_locked, make_limited, make_program, make_program])(rng)
    rates = [None, RateLimit(1, rng.choice([5_000, 30_000]), rng.choice([1, 1, 2]))]
    limits = {name: Limit(rng.choice([1, 1, 1, 2]), rng.choice(rates)) for name in NAMES[:2]}
    callees = tuple(replace(one, graph=_throttled(rng, one.graph)) for one in made.callees)
    return replace(made, graph=_throttled(rng, made.graph), callees=callees, limits=limits)


def _throttled(rng: random.Random, graph: Graph) -> Graph:
    return replace(graph, nodes={name: _node(rng, node) for name, node in graph.nodes.items()})


def _node(rng: random.Random, node: Node) -> Node:
    if node.step is None or rng.random() < 0.3:
        return node
    key = BAD if rng.random() < 0.02 else rng.choice([None, None, KEY])
    (name,) = rng.choices(NAMES, _WEIGHTS)
    return replace(node, step=replace(node.step, throttle=Throttle(name, key)))
