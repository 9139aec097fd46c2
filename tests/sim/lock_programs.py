"""Random families of runs that want the same few locks: for a whole run, or for a step."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from stepwell.definition.formats.dag import start_node
from stepwell.definition.graph import END, Call, Child, FanIn, Graph, Node, Retry, Rule, Step, Wait
from tests.sim.child_programs import Family
from tests.sim.dag_programs import known_to
from tests.sim.fork_programs import items
from tests.sim.programs import BAD, KEY, TOPICS, Program, Simple

NAMES = ("x", "y")
_GIVEN = {"key": "k", "list": [0, 1]}


def make_locked(rng: random.Random) -> Program:
    """A run that starts two or three others at once, all of which want a lock."""
    kids = [_leaf(rng, f"kid{index}") for index in range(rng.randint(1, 2))]
    names = [kid.graph.name for kid in kids]
    called = tuple(Child(f"c{index}", rng.choice(names)) for index in range(rng.choice([2, 2, 3])))
    call = Call(called, timeout_ms=rng.choice([None, None, 5_000, 3_600_000]), parent_close="cancel",
                failed_child=rng.choice(["propagate", "return"]),
                siblings=rng.choice(["cancel", "finish"]))  # fmt: skip
    own = _name(rng) if rng.random() < 0.1 else None  # what its children want: they wait until its time is up
    call = replace(call, timeout_ms=5_000) if own else call
    nodes = {"n0": Node("n0", call=call, rules=_next("n0", END))}
    graph = Graph("sim", "sha256:sim", "timeline", "n0", nodes, {}, lock=own)
    events = tuple((rng.choice(TOPICS), f"e{number}", 1) for number in range(rng.randint(0, 3)))
    calls = [("cancel", rng.choice([0, 1, 30]))] * (rng.random() < 0.2)
    calls += [(f"{word} child", rng.choice([0, 0, 1, 30])) for word in ("cancel", "terminate") if rng.random() < 0.3]
    return Family(graph, {}, {}, frozenset(), events, tuple(calls), input=_GIVEN, callees=tuple(kids),
                  page=rng.choice([0, 0, 2]))  # fmt: skip


def _leaf(rng: random.Random, name: str) -> Program:
    kind = rng.random()
    if kind < 0.4:
        return _of_run(rng, name)
    return _of_steps(rng, name) if kind < 0.65 else _of_branches(rng, name) if kind < 0.85 else _of_dag(rng, name)


def _of_run(rng: random.Random, name: str) -> Program:
    """A run that holds its locks from before its first step to its end, however it ends."""
    nodes, more = _chain(rng, 2)
    lock = _several(rng) if rng.random() < 0.5 else _name(rng)
    timeout_ms = rng.choice([None, None, 2_000, 60_000])
    return _program(rng, replace(_graph(name, nodes), lock=lock, timeout_ms=timeout_ms), more)


def _of_steps(rng: random.Random, name: str) -> Program:
    nodes, more = _chain(rng, rng.randint(1, 3))
    locked = rng.sample(list(nodes), rng.randint(1, len(nodes)))
    nodes |= {one: replace(nodes[one], lock=_several(rng) if rng.random() < 0.3 else _name(rng)) for one in locked}
    return _program(rng, _graph(name, nodes), more)


def _of_branches(rng: random.Random, name: str) -> Program:
    """Branches that do the same thing, one of them at a time."""
    over = Rule("f.next", "next", to="n0", foreach=items("list"), max_concurrency=rng.choice([None, None, 2]))
    fan_in = FanIn(rng.choice(["all", "all", "any"]), on_branch_failure=rng.choice(["fail", "collect"]),
                   on_early_complete=rng.choice(["cancel", "cancel", "abandon"]))  # fmt: skip
    one, more = _node(rng, "n0")
    nodes = {
        "f": Node("f", rules=(over,), join="j"),
        "n0": replace(one, lock=_name(rng), rules=_next("n0", "j")),
        "j": Node("j", fan_in=fan_in, rules=_next("j", END)),
    }
    return _program(rng, Graph(name, f"sha256:{name}", "nodes", "f", nodes, {}), more)


def _of_dag(rng: random.Random, name: str) -> Program:
    """Steps that may begin at once, some of which exclude each other."""
    names = ["n0", "n1", "n2"]
    nodes: dict[str, Node] = {}
    more: dict[str, Any] = {}
    for one in names:
        node, own = _node(rng, one)
        known = node.step and replace(node.step, input=known_to(one))
        nodes[one], more = replace(node, step=known, lock=_name(rng) if rng.random() < 0.7 else None), more | own
    needs = {one: tuple(rng.sample(names[:at], min(at, rng.randint(0, 1)))) for at, one in enumerate(names)}
    return _program(rng, Graph(name, f"sha256:{name}", "steps", "", nodes | start_node(needs), {}), more)


# -- parts


def _chain(rng: random.Random, count: int) -> tuple[dict[str, Node], dict[str, Any]]:
    nodes: dict[str, Node] = {}
    more: dict[str, Any] = {}
    for index in range(count):
        nodes[f"n{index}"], own = _node(rng, f"n{index}")
        more |= own
    for name, following in pairwise([*nodes, END]):
        again = Rule(f"{name}.branch[0]", "branch", None, to=name, max_uses=1)
        rules = (again,) if rng.random() < 0.15 else ()
        nodes[name] = replace(nodes[name], rules=(*rules, *_next(name, following)))
    return nodes, more


def _node(rng: random.Random, name: str) -> tuple[Node, dict[str, Any]]:
    """Mostly a step that does what it is told; else one that fails in some runs, or is tried again, or a wait."""
    kind = rng.random()
    if kind < 0.2:
        limit_ms = rng.choice([1_000, 60_000])
        return Node(name, wait=Wait("event", event="a", key=KEY, timeout_ms=limit_ms, on_timeout="continue")), {}
    if kind < 0.35:
        return Node(name, step=Step(f"python:sim.{name}")), {name: "unlucky"}
    if kind < 0.5:
        retry = Retry(2, "constant", 1_000, 60_000, on=frozenset({"step", "transient"}))
        return Node(name, step=Step(f"python:sim.{name}", retry=retry)), {name: "flaky"}
    return Node(name, step=Step(f"python:sim.{name}", at_most_once=rng.random() < 0.1)), {}


def _graph(name: str, nodes: dict[str, Node]) -> Graph:
    return Graph(name, f"sha256:{name}", "timeline", "n0", nodes, {})


def _program(rng: random.Random, graph: Graph, more: dict[str, str]) -> Program:
    flaky = {name: rng.randint(1, 3) for name, kind in more.items() if kind == "flaky"}
    unlucky = {name: (2, rng.randrange(2)) for name, kind in more.items() if kind == "unlucky"}
    return Family(graph, flaky, {}, frozenset(), (), (), unlucky=unlucky)


def _name(rng: random.Random) -> Simple:
    if rng.random() < 0.03:
        return BAD
    return _of([rng.choice(NAMES)])


def _several(rng: random.Random) -> Simple:
    """In any order."""
    return _of(rng.sample(NAMES, 2))


def _of(names: Sequence[str]) -> Simple:
    return Simple("lock", lambda _: list(names))


def _next(name: str, following: str) -> tuple[Rule, ...]:
    return (Rule(f"{name}.next", "next", to=following),)
