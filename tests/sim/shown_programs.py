"""One fork whose branches wait, go on and end in every order: what its run's header says is looked at each time."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

from stepwell.definition.graph import END, FanIn, Graph, Node, Rule, Wait
from stepwell.engine.records import Pause
from tests.sim.programs import KEY, Program, Simple, make_step

FEW = Simple("few", lambda names: names["input"]["few"], frozenset({"input"}))
ITEMS = Simple("items", lambda names: names["input"]["items"], frozenset({"input"}))


def make_shown(rng: random.Random) -> Program:
    """A wait and a step in each of a few branches, in one page or several."""
    flaky: dict[str, int] = {}
    directives: dict[str, Pause] = {}
    over = Rule("n0.next", "next", to="n1", foreach=ITEMS)
    policy = rng.choice(["all", "all", "any"])
    nodes = {
        "n1": Node("n1", wait=_wait(rng), rules=(Rule("n1.next", "next", to="n2"),)),
        "n2": Node(
            "n2", step=make_step(rng, "n2", flaky, directives, set()), rules=(Rule("n2.next", "next", to="n3"),)
        ),
        "n3": Node("n3", fan_in=FanIn(policy, on_early_complete="abandon"), rules=(Rule("n3.next", "next", to="n4"),)),
        "n4": Node("n4", wait=_wait(rng), rules=(Rule("n4.next", "next", to=END),)),
    }
    sent = tuple(("a", f"e{number}", rng.randint(0, 3)) for number in range(rng.randint(0, 4)))
    items, page, chunk = list(range(rng.randint(1, 5))), rng.choice([0, 0, 2]), rng.choice([0, 1, 2])
    bounds = rng.choice([(None,), (None,), (None,), (1,), (2,), (3,), (2, None)])
    rules = tuple(
        replace(over, id=f"n0.next{number or ''}", max_concurrency=bound) for number, bound in enumerate(bounds)
    )
    nodes["n0"] = Node("n0", rules=rules, join="n3", fan_out="all")
    if rng.random() < 0.25:
        nodes |= _with_forks_inside(nodes, rng)
    graph = Graph("sim", "sha256:sim", "nodes", "n0", nodes, {})
    given = {"key": "k", "items": items, "few": items[:2]}
    return Program(graph, flaky, directives, frozenset(), sent, (), input=given, page=page, chunk=chunk)


def _with_forks_inside(nodes: Mapping[str, Node], rng: random.Random) -> dict[str, Node]:
    """Each branch forks in its turn; beside them, branches that only wait."""
    inside = Rule("n5.next", "next", to="n1", foreach=FEW)
    plain = Rule("n0.plain", "next", to="n7", foreach=FEW)
    first = replace(nodes["n0"], rules=tuple(replace(rule, to="n5") for rule in nodes["n0"].rules))
    return {
        "n0": replace(first, rules=(*first.rules, plain)) if rng.random() < 0.5 else first,
        "n2": replace(nodes["n2"], rules=(Rule("n2.next", "next", to="n6"),)),
        "n5": Node("n5", rules=(inside,), join="n6"),
        "n6": Node("n6", fan_in=FanIn("all"), rules=(Rule("n6.next", "next", to="n3"),)),
        "n7": Node("n7", wait=_wait(rng), rules=(Rule("n7.next", "next", to="n3"),)),
    }


def _wait(rng: random.Random) -> Wait:
    if rng.random() < 0.2:
        return Wait("sleep", timeout_ms=rng.choice([1_000, 60_000]))
    return Wait("event", event="a", key=KEY, timeout_ms=rng.choice([None, 60_000, 3_600_000]), on_timeout="continue")
