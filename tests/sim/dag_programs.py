"""Random DAGs: steps that depend on others, written down in any order, with every way in which a step can end."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from stepwell.definition.formats.dag import start_node
from stepwell.definition.graph import Graph, Node, Step
from stepwell.engine.records import Pause
from tests.sim.programs import TOPICS, Program, Simple, make_calls, make_step, make_wait

PAGES = (0, 0, 1, 2, 3)
NOT_WRITTEN = {"_branch", "_last_error"}  # in the state of a step, and of no step's making


def make_dag(rng: random.Random) -> Program:
    """A random DAG: half of them small and without waits, so that its few races are met often."""
    kind = rng.random()
    if kind < 0.15:
        return _growing(rng)
    return _small(rng) if kind < 0.5 else _any(rng)


def known_to(name: str) -> Simple:
    """A step's input: how those ended of which it knows, and the names that they have written."""

    def known(names: Mapping[str, Any]) -> dict[str, Any]:
        ended = {one: view["status"] for one, view in names["steps"].items() if one != name}
        return {"steps": ended, "state": sorted(set(names["state"]) - NOT_WRITTEN)}

    return Simple(f"known to {name}", known, frozenset({"steps", "state"}))


def _growing(rng: random.Random) -> Program:
    """After one step another can begin, and later one more, which stands before it in the definition."""
    maker = _Maker(rng, rng.randint(4, 5))
    for name in maker.names:
        maker.add(name, Node(name, step=Step(f"python:sim.{name}")))
    needs = {"n2": ("n0", "n1"), "n3": ("n0",), "n0": (), "n1": (), "n4": ("n3",)}
    return maker.program(dag={name: needs[name] for name in needs if name in maker.names})


def _small(rng: random.Random) -> Program:
    """Three to five steps that do what they are told, or fail, or are skipped."""
    maker = _Maker(rng, rng.randint(3, 5))
    for name in maker.names:
        maker.add(name, maker.plain(name))
    return maker.program(tuple(("cancel", 1) for _ in range(2) if rng.random() < 0.15))


def _any(rng: random.Random) -> Program:
    """Two to seven nodes of all kinds."""
    maker = _Maker(rng, rng.randint(2, 7))
    for name in maker.names:
        kind = rng.random()
        maker.add(name, maker.step(name) if kind < 0.75 else Node(name, wait=make_wait(rng) if kind < 0.92 else None))
    idle, start_after_ms = rng.random() < 0.1, rng.choice([0, 0, 0, 10_000])
    calls = (*make_calls(rng), *((("begin", rng.choice([0, 20])),) if idle else ()))
    timeout_ms = rng.choice([None, None, None, 30_000, 7_200_000])
    made = maker.program(calls, timeout_ms, rng.randint(0, 5))
    return replace(made, idle=idle, start_after_ms=start_after_ms)


@dataclass
class _Maker:
    """What is being put together."""

    rng: random.Random
    size: int
    nodes: dict[str, Node] = field(default_factory=dict)
    flaky: dict[str, int] = field(default_factory=dict)
    directives: dict[str, Pause] = field(default_factory=dict)
    blocked: set[str] = field(default_factory=set)
    failing: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Each may depend on those before it here; in the definition they stand in any order."""
        return [f"n{index}" for index in range(self.size)]

    def add(self, name: str, node: Node) -> None:
        step = node.step and replace(node.step, input=node.step.input or known_to(name))
        self.nodes[name] = replace(node, step=step)

    def step(self, name: str) -> Node:
        if self.rng.random() < 0.1:
            self.failing[name] = 1, 0
        return Node(name, step=make_step(self.rng, name, self.flaky, self.directives, self.blocked))

    def plain(self, name: str) -> Node:
        """A step that asks for no wait, and mostly ends at its first attempt."""
        kind = self.rng.random()
        if kind < 0.25:
            self.failing[name] = 1, 0
        step = make_step(self.rng, name, {}, {}, set())
        on_failure = "skip" if kind < 0.18 else "abort"
        return Node(name, step=replace(step, retry=None if kind < 0.9 else step.retry, on_failure=on_failure))

    def program(
        self,
        calls: tuple[tuple[str, int], ...] = (),
        timeout_ms: int | None = None,
        events: int = 0,
        dag: Mapping[str, tuple[str, ...]] | None = None,
    ) -> Program:
        rng = self.rng
        dag = dag or self._dag()
        nodes = {name: self.nodes[name] for name in dag} | start_node(dag)
        graph = Graph("sim", "sha256:sim", "steps", "", nodes, {}, timeout_ms=timeout_ms)
        topics = (*TOPICS, "MESSAGE_RECEIVED")
        sent = tuple((rng.choice(topics), f"e{number}", rng.randint(0, 3)) for number in range(events))
        blocked, page = frozenset(self.blocked), rng.choice(PAGES)
        return Program(graph, self.flaky, self.directives, blocked, sent, calls, failing=self.failing, page=page)

    def _dag(self) -> dict[str, tuple[str, ...]]:
        needs = {name: self._needs(at) for at, name in enumerate(self.names)}
        written = self.rng.sample(self.names, self.size) if self.rng.random() < 0.4 else self.names
        return {name: needs[name] for name in written}

    def _needs(self, at: int) -> tuple[str, ...]:
        """Mostly one or two of those before it; in any order."""
        count = min(at, self.rng.choice([0, 1, 1, 1, 2, 2, 3]))
        return tuple(self.rng.sample(self.names[:at], count))
