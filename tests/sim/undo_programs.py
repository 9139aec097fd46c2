"""Compensations for random workflows: which steps have one, what leads to it, and how each of them fares."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from stepwell.definition.formats.dag import start_node
from stepwell.definition.graph import FanIn, Graph, Node, Retry, Rule, Step
from tests.sim.dag_programs import known_to
from tests.sim.fork_programs import items
from tests.sim.programs import BAD, Program, Simple, Undoing

EVERYTHING = Simple(
    "all there is",
    lambda names: {name: names[name] for name in ("state", "result", "error", "branch", "run", "now")},
    frozenset({"state", "result", "branch", "run", "now"}),
)
RESULT = Simple("result", lambda names: {"input": None, "output": names["result"]}, frozenset({"result"}))
RETRIED = frozenset({"step", "worker_lost"})


def with_compensations(program: Program, rng: random.Random) -> Program:
    """The same workflow; of some, what completed is undone when they fail, are cancelled or run out of time.

    In the place of others comes a small one, made to be undone.
    """
    kind = rng.random()
    if kind > 0.35:
        return program
    if kind < 0.15:
        return make_saga(rng)
    maker = _Maker(rng)
    nodes = {name: maker.node(node, program.is_dag) for name, node in program.graph.nodes.items()}
    graph = replace(
        program.graph,
        nodes=nodes,
        failure_policy="compensate" if rng.random() < 0.6 else "fail",
        compensate_on=frozenset(reason for reason in ("timeout", "cancel") if rng.random() < 0.5),
        timeout_ms=program.graph.timeout_ms or rng.choice([None, None, None, 1, 20_000, 5_000_000]),
    )
    broken = frozenset(name for name, node in nodes.items() if node.step and rng.random() < 0.2)
    undoing = Undoing(maker.flaky, maker.named("failing"), maker.named("deadly"), maker.named("waiting"), broken)
    return replace(program, graph=graph, undoing=undoing, calls=(*program.calls, *_calls(rng)))


def _calls(rng: random.Random) -> tuple[tuple[str, int], ...]:
    """Also a second call, which finds the run being undone, or ended."""
    calls = [("cancel", rng.choice([0, 0, 1, 30, 5_000])) for _ in range(2) if rng.random() < 0.3]
    return (*calls, *[("terminate", rng.choice([0, 1, 10, 5_000]))] * (rng.random() < 0.12))


@dataclass
class _Maker:
    """What is being put together."""

    rng: random.Random
    flaky: dict[str, int] = field(default_factory=dict)
    ways: dict[str, set[str]] = field(default_factory=dict)  # of failing -> nodes

    def named(self, way: str) -> frozenset[str]:
        return frozenset(self.ways.get(way, ()))

    def node(self, node: Node, is_dag: bool) -> Node:
        rng, step = self.rng, node.step
        if step is None:
            return node
        if rng.random() < 0.2:
            step = replace(step, on_failure="compensate")
        if step.input is None and not is_dag and rng.random() < 0.3:
            step = replace(step, input=EVERYTHING)
        return replace(node, step=step, compensate=self._compensation(node.name) if rng.random() < 0.75 else None)

    def _compensation(self, name: str) -> Step:
        rng, retry, kind = self.rng, None, self.rng.random()
        if kind < 0.2:
            self.flaky[name] = rng.randint(1, 3)
        elif kind < 0.31:
            way = rng.choice(["failing", "failing", "failing", "deadly", "waiting"])
            self.ways.setdefault(way, set()).add(name)
        if rng.random() < (0.8 if name in self.flaky else 0.2):
            backoff, jitter = rng.choice(["constant", "exponential"]), rng.choice(["none", "full"])
            initial_ms = rng.choice([0, 1_000, 2_000_000])
            retry = Retry(rng.randint(1, 3), backoff, initial_ms, 4_000_000, jitter, RETRIED)
        once = rng.random() < 0.1
        given = rng.choice([None, None, None, RESULT]) if rng.random() > 0.02 else BAD
        return Step(f"python:sim.un{name}", retry=retry, at_most_once=once, input=given)


# -- small ones, made to be undone


def make_saga(rng: random.Random) -> Program:
    """Few steps that all have a compensation, and a last one that fails: so that its few races are met often."""
    steps = {name: _saga_step(name) for name in ("s0", "b0", "b1", "s1")}
    last = {"s2": Node("s2", step=Step("python:sim.s2"))}
    retry = Retry(2, "constant", rng.choice([0, 1_000]), 1_000, "none", RETRIED)
    if rng.random() < 0.5:
        name = rng.choice(list(steps))
        compensate = Step(f"python:sim.un{name}", retry=retry if rng.random() < 0.7 else None)
        steps[name] = replace(steps[name], compensate=compensate)
        way = {"flaky": {name: 1}} if rng.random() < 0.7 else {"failing": frozenset({name})}
    else:
        way = {}
    undoing = Undoing(broken=frozenset({"s2"}), **way)
    graph = _saga_dag(rng, steps | last) if rng.random() < 0.3 else _saga_fork(rng, steps | last)
    calls = (("cancel", 0),) * (rng.random() < 0.1) + (("terminate", 0),) * (rng.random() < 0.1)
    given = {"key": "k", "over": list(range(rng.randint(1, 4)))}
    page = rng.choice([0, 0, 1, 2])
    return Program(graph, {}, {}, frozenset(), (), calls, input=given, page=page, undoing=undoing)


def _saga_step(name: str) -> Node:
    return Node(name, step=Step(f"python:sim.{name}"), compensate=Step(f"python:sim.un{name}"))


def _saga_graph(nodes: dict[str, Node], start: str, dag: dict[str, tuple[str, ...]]) -> Graph:
    return Graph("sim", "sha256:sim", "steps" if dag else "nodes", start, nodes | (start_node(dag) if dag else {}), {},
                 failure_policy="compensate", compensate_on=frozenset({"cancel"}))  # fmt: skip


def _saga_fork(rng: random.Random, nodes: dict[str, Node]) -> Graph:
    """s0, a branch for each item, s1 after them, and s2."""
    over = Rule("s0.next", "next", to="b0", foreach=items("over"), max_concurrency=rng.choice([None, 1, 1, 2]))
    rules = {"s0": over, "b0": _to("b0", rng.choice(["b1", "met"])), "b1": _to("b1", "met"), "s1": _to("s1", "s2")}
    given = EVERYTHING if rng.random() < 0.3 else None
    made = {
        name: replace(node, step=replace(node.step, input=given), rules=(rules[name],) if name in rules else ())
        for name, node in nodes.items()
        if node.step
    }
    early = rng.choice([FanIn("all"), FanIn("all"), FanIn("any", on_early_complete=rng.choice(["cancel", "abandon"]))])
    met = Node("met", fan_in=early, rules=(_to("met", "s1"),))
    return _saga_graph({**made, "s0": replace(made["s0"], join="met"), "met": met}, "s0", {})


def _to(name: str, following: str) -> Rule:
    return Rule(f"{name}.next", "next", to=following)


def _saga_dag(rng: random.Random, nodes: dict[str, Node]) -> Graph:
    """One after another and beside each other, written down in any order; s2 needs them all."""
    needs = {"s0": (), "b0": ("s0",), "b1": rng.choice([(), ("s0",), ("b0",)]), "s1": rng.choice([(), ("b0", "b1")])}
    dag = {**needs, "s2": tuple(needs)}
    written = rng.sample(list(dag), len(dag))
    made = {name: replace(nodes[name], step=Step(f"python:sim.{name}", input=known_to(name))) for name in written}
    return _saga_graph(made, "", {name: dag[name] for name in written})
