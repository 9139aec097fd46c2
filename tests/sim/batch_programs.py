"""Random workflows whose tokens gather records: chains of small steps, with whatever closes a batch in between."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

from stepwell.definition.graph import END, Graph, Node, Retry, Rule, Step, Wait
from stepwell.engine.records import Pause
from stepwell.engine.stored.token_batches import BATCH
from tests.sim.programs import ERROR, KEY, Program
from tests.sim.undo_programs import with_compensations

TAKES_MS = (0, 0, 0, 20, 100, 600)
_BACK = {"pause": "unpause", "stop": "resume"}
_CALLS = (("cancel", 0), ("cancel", 1), ("terminate", 0), ("pause", 0), ("stop", 0))


def with_batches(program: Program) -> Program:
    """The same workflow, and those that it calls, with several steps in one append."""
    graph = replace(program.graph, durability=BATCH)
    return replace(program, graph=graph, callees=tuple(with_batches(one) for one in program.callees))


def make_batched(rng: random.Random) -> Program:
    """A chain of two to sixteen nodes, most of them plain steps; sometimes they take time, or are undone."""
    flaky: dict[str, int] = {}
    directives: dict[str, Pause] = {}
    names = [f"n{number}" for number in range(rng.choice([2, 4, 7, 12, 16]))]
    is_plain = rng.random() < 0.2
    nodes = {name: _node(0.0 if is_plain else rng.random(), rng, name, flaky, directives) for name in names}
    for name, following in pairwise([*names, END]):
        again = Rule(f"{name}.branch[0]", "branch", None, to=names[0], max_uses=1)
        caught = Rule(f"{name}.diverge[0]", "diverge", ERROR, to=names[0], max_uses=1)
        odd = ((again,) if rng.random() < 0.06 else ()) + ((caught,) if rng.random() < 0.1 else ())
        nodes[name] = replace(nodes[name], rules=(*odd, Rule(f"{name}.next", "next", to=following)), max_visits=4)
    graph = Graph("sim", "sha256:sim", "timeline", names[0], nodes, {}, durability=BATCH)
    calls = tuple(rng.choice(_CALLS) for _ in range(rng.choice([0, 0, 0, 1, 2])))
    calls += tuple((_BACK[operation], 60) for operation, _ in calls if operation in _BACK)
    program = Program(graph, flaky, directives, frozenset(), (("a", "e0", 1),), calls)
    if rng.random() < 0.3:
        program = with_batches(with_compensations(program, rng))
    return replace(program, takes_ms=TAKES_MS) if rng.random() < 0.4 else program


def _node(kind: float, rng: random.Random, name: str, flaky: dict[str, int], directives: dict[str, Pause]) -> Node:
    run = f"python:sim.{name}"
    if kind < 0.7:
        return Node(name, step=Step(run))
    if kind < 0.76:
        return Node(name, step=Step(run, at_most_once=True))
    if kind < 0.82:
        flaky[name] = rng.randint(1, 2)
        return Node(
            name, step=Step(run, retry=Retry(2, "constant", 1_000, 60_000, on=frozenset({"step", "transient"})))
        )
    if kind < 0.87:
        return Node(name, wait=Wait("event", event="a", key=KEY, timeout_ms=60_000, on_timeout="continue"))
    if kind < 0.92:
        directives[name] = Pause("sleep", timeout_ms=1_000, result={"carried": 1}, then=rng.choice(["next", "again"]))
        return Node(name, step=Step(run))
    return Node(name)
