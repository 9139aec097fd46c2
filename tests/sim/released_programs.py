"""Random families of runs under a limit that give back their permits while they wait."""

from __future__ import annotations

import random
from dataclasses import replace

from stepwell.definition.graph import Concurrency, Node, Step, Wait
from stepwell.engine.limits.share_records import RELEASE
from tests.sim import lock_programs as parts
from tests.sim.limit_programs import contending
from tests.sim.programs import KEY, Program, Undoing
from tests.sim.undo_programs import RESULT


def make_released(rng: random.Random) -> Program:
    """A run that starts three to five others at once, which wait somewhere; some have locks, some are undone."""
    return contending(rng, _leaf, 6)


def _leaf(rng: random.Random, name: str) -> Program:
    nodes, more = parts._chain(rng, rng.randint(2, 4))
    for one in rng.sample(list(nodes), rng.randint(1, 2)):
        nodes[one] = _waiting(rng, nodes[one])
        more.pop(one, None)
    undone = rng.random() < 0.3
    if undone:
        nodes = {one: _undone(node) for one, node in nodes.items()}
    if rng.random() < 0.15:
        locked = rng.choice(list(nodes))
        nodes[locked] = replace(nodes[locked], lock=parts._name(rng))
    on_limit = rng.choice(["queue", "queue", "queue", "cancel_newest", "cancel_oldest"])
    limit = Concurrency(rng.choice([1, 1, 2]), rng.choice([None, KEY]), on_limit, RELEASE)
    timeout_ms = rng.choice([None, None, None, 2_000, 60_000])
    graph = replace(parts._graph(name, nodes), concurrency=limit, timeout_ms=timeout_ms)
    if undone:
        graph = replace(graph, compensate_on=frozenset({"timeout", "cancel"}), failure_policy="compensate")
    program = parts._program(rng, graph, more)
    return replace(program, undoing=Undoing()) if undone else program


def _waiting(rng: random.Random, node: Node) -> Node:
    """A wait in the node's place: until an event comes, or its time is up; or a nap."""
    kind = rng.random()
    if kind < 0.3:
        return Node(node.name, wait=Wait("sleep", timeout_ms=rng.choice([10, 1_000, 1_000, 60_000])), rules=node.rules)
    limit_ms = rng.choice([10, 1_000, 60_000])
    on_timeout = rng.choice(["continue", "continue", "retry", "fail"])
    name = rng.choice(["a", "b"])
    wait = Wait("event", event=name, key=KEY, timeout_ms=limit_ms, on_timeout=on_timeout, max_retries=1)
    return Node(node.name, wait=wait, rules=node.rules)


def _undone(node: Node) -> Node:
    if node.step is None:
        return node
    return replace(node, compensate=Step(f"python:sim.un{node.name}", input=RESULT))
