"""Random families of runs whose steps want permits of the same few named limits."""

from __future__ import annotations

import random
from dataclasses import replace

from stepwell.definition.graph import END, FanIn, Graph, Limit, Node, RateLimit, Rule, Step, Throttle
from tests.sim.fork_programs import items, make_program
from tests.sim.limit_programs import make_limited
from tests.sim.lock_programs import make_locked
from tests.sim.programs import BAD, KEY, Program
from tests.sim.snags import HELD, Snag

NAMES = ("x", "y", "nowhere")
_WEIGHTS = (0.8, 0.18, 0.02)  # there is no limit of the last name


def make_throttled(rng: random.Random) -> Program:
    """A run, its branches and those that it starts, most of whose steps are throttled."""
    made = rng.choice([make_locked, make_limited, make_program, make_program])(rng)
    rates = [None, RateLimit(1, rng.choice([5_000, 30_000]), rng.choice([1, 1, 2]))]
    limits = {name: Limit(rng.choice([1, 1, 1, 2]), rng.choice(rates)) for name in NAMES[:2]}
    callees = tuple(replace(one, graph=_throttled(rng, one.graph)) for one in made.callees)
    return replace(made, graph=_throttled(rng, made.graph), callees=callees, limits=limits)


def make_disbanded(rng: random.Random) -> Program:
    """Branches whose steps stand in the line of a limit that is removed, while somebody asks it or gives it back."""
    step = Step("python:sim.n1", throttle=Throttle("x", rng.choice([None, KEY])), on_failure="skip")
    over = Rule("n0.next", "next", to="n1", foreach=items("n0"))
    fan_in = FanIn(on_branch_failure="collect")
    nodes = {
        "n0": Node("n0", rules=(over,), join="n2"),
        "n1": Node("n1", step=step, rules=(Rule("n1.next", "next", to="n2"),)),
        "n2": Node("n2", fan_in=fan_in, rules=(Rule("n2.next", "next", to="n3"),)),
        "n3": Node("n3", step=Step("python:sim.n3"), rules=(Rule("n3.next", "next", to=END),)),
    }
    call = rng.choice(("notes", "put_note", "put_note", "append"))
    snag = Snag("wake", call, rng.choice(("", call)), lets=rng.randint(3, 14), most=1, held_ms=(1, 500, 1_500))
    rate = rng.choice([None, None, RateLimit(1, 5_000, 1)])
    graph = Graph("sim", "sha256:sim", "nodes", "n0", nodes, {})
    given = {"key": "k", "n0": list(range(rng.randint(3, 5)))}
    asks = ({"type": "unlimit", "phase": HELD},)
    limits = {"x": Limit(rng.choice([1, 1, 2]), rate)}
    return Program(graph, {}, {}, frozenset(), (), (), input=given, limits=limits, takes_ms=(1_000,), asks=asks,
                   snags=(snag,))  # fmt: skip


def _throttled(rng: random.Random, graph: Graph) -> Graph:
    return replace(graph, nodes={name: _node(rng, node) for name, node in graph.nodes.items()})


def _node(rng: random.Random, node: Node) -> Node:
    if node.step is None or rng.random() < 0.3:
        return node
    key = BAD if rng.random() < 0.02 else rng.choice([None, None, KEY])
    (name,) = rng.choices(NAMES, _WEIGHTS)
    return replace(node, step=replace(node.step, throttle=Throttle(name, key)))
