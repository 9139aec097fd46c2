"""Random workflows that fork: branches over lists and rules, forks in forks, and every way in which branches meet."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from stepwell.definition.graph import END, FanIn, Graph, Node, Rule, Step
from stepwell.engine.records import Pause
from tests.sim.dag_programs import make_dag
from tests.sim.programs import (
    ERROR,
    TOPICS,
    Program,
    Simple,
    make_calls,
    make_rules,
    make_step,
    make_timeline,
    make_wait,
)

NEVER = Simple("never", lambda _: False)
IS_ODD = Simple("odd", lambda names: (names["branch"] or {"index": 1})["index"] % 2 == 1, frozenset({"branch"}))
PAGES, CHUNKS = (0, 0, 2, 3, 5), (0, 0, 1, 2, 3)
DEEPEST = 2


def make_program(rng: random.Random) -> Program:
    """A random workflow: some are DAGs, half of them fork."""
    kind = rng.random()
    if kind < 0.15:
        return make_dag(rng)
    if kind < 0.5:
        return make_timeline(rng)
    kind = rng.random()
    if kind < 0.5:
        return _small(rng)
    return _wide(rng) if kind < 0.51 else _any(rng)


def items(name: str) -> Simple:
    return Simple(f"items.{name}", lambda names: names["input"][name], frozenset({"input"}))


def _small(rng: random.Random) -> Program:
    """One fork over a short list, each branch one node: few calls, so that its few races are met often."""
    maker = _Maker(rng)
    branch = maker.step("n1") if rng.random() < 0.7 else Node("n1", wait=make_wait(rng), rules=_next("n1", "n2"))
    strides = rng.choice([None, None, 1, 2])
    over = Rule("n0.next", "next", to="n1", foreach=maker.over("n0", rng.randint(1, 4)), max_concurrency=strides)
    maker.nodes = {
        "n0": Node("n0", rules=(over,), join="n2"),
        "n1": replace(branch, rules=_next("n1", "n2")),
        "n2": Node("n2", fan_in=_fan_in(rng), rules=_next("n2", "n3")),
        "n3": Node("n3", step=Step("python:sim.n3"), rules=_next("n3", END)),
    }
    calls = tuple(("cancel", 1) for _ in range(2) if rng.random() < 0.2)
    return maker.program("n0", calls, events=rng.randint(0, 2))


def _wide(rng: random.Random) -> Program:
    """More branches than a page holds, with pages and chunks as they are."""
    maker = _Maker(rng)
    strides = rng.choice([None, 40])
    over = Rule("n0.next", "next", to="n1", foreach=maker.over("n0", rng.randint(101, 120)), max_concurrency=strides)
    maker.nodes = {
        "n0": Node("n0", rules=(over,), join="n2"),
        "n1": Node("n1", step=Step("python:sim.n1"), rules=_next("n1", "n2")),
        "n2": Node("n2", fan_in=_fan_in(rng), rules=_next("n2", END)),
    }
    return replace(maker.program("n0", (("cancel", 0),) * (rng.random() < 0.2)), page=0, chunk=0)


def _any(rng: random.Random) -> Program:
    """A chain with forks in it, and forks in their branches."""
    maker = _Maker(rng)
    start = maker.chain("n", END, 0)
    idle = rng.random() < 0.1
    calls = (*make_calls(rng), *((("begin", rng.choice([0, 20])),) if idle else ()))
    timeout_ms = rng.choice([None, None, None, 30_000, 7_200_000])
    return replace(maker.program(start, calls, timeout_ms=timeout_ms, events=rng.randint(0, 6)), idle=idle)


def _next(name: str, following: str) -> tuple[Rule, ...]:
    return (Rule(f"{name}.next", "next", to=following),)


def _fan_in(rng: random.Random) -> FanIn:
    policy = rng.choice(["all", "all", "any", "m_of_n"])
    return FanIn(
        policy,
        need=rng.randint(1, 4) if policy == "m_of_n" else 0,
        merge=rng.choice(["append", "merge_object", "keyed_by_branch", "last_wins"]),
        target=rng.choice(["", "met"]),
        on_early_complete=rng.choice(["cancel", "cancel", "abandon"]),
        tolerate_count=rng.choice([None, None, 1, 2]),
        tolerate_percent=rng.choice([None, None, 34, 50.0]),
        on_branch_failure=rng.choice(["fail", "fail", "collect"]),
    )


@dataclass
class _Maker:
    """What is being put together."""

    rng: random.Random
    nodes: dict[str, Node] = field(default_factory=dict)
    flaky: dict[str, int] = field(default_factory=dict)
    directives: dict[str, Pause] = field(default_factory=dict)
    blocked: set[str] = field(default_factory=set)
    failing: dict[str, tuple[int, int]] = field(default_factory=dict)
    input: dict[str, Any] = field(default_factory=lambda: {"key": "k"})

    def program(
        self, start: str, calls: tuple[tuple[str, int], ...], *, timeout_ms: int | None = None, events: int = 0
    ) -> Program:
        rng = self.rng
        graph = Graph("sim", "sha256:sim", "nodes", start, self.nodes, {}, timeout_ms=timeout_ms)
        topics = (*TOPICS, "MESSAGE_RECEIVED")
        sent = tuple((rng.choice(topics), f"e{number}", rng.randint(0, 3)) for number in range(events))
        return Program(
            graph,
            self.flaky,
            self.directives,
            frozenset(self.blocked),
            sent,
            calls,
            input=self.input,
            failing=self.failing,
            page=rng.choice(PAGES),
            chunk=rng.choice(CHUNKS),
        )

    def over(self, name: str, width: int) -> Simple:
        """A collection in the input, mostly a list."""
        numbers = list(range(width))
        self.input[name] = {str(number): number for number in numbers} if self.rng.random() < 0.1 else numbers
        return items(name)

    def chain(self, prefix: str, following: str, depth: int) -> str:
        """Nodes one after the other; returns the first one's name. Those in the run's own chain fork most often."""
        rng = self.rng
        names = [f"{prefix}{index}" for index in range(rng.randint(1, 3 if depth == 0 else 2))]
        forks = {rng.randrange(len(names))} if depth == 0 else set()
        for index, name in enumerate(names):
            on = names[index + 1] if index + 1 < len(names) else following
            if index in forks or (depth < DEEPEST and rng.random() < 0.15):
                self.fork(name, on, depth)
            elif rng.random() < 0.7:
                self.nodes[name] = replace(self.step(name), rules=make_rules(rng, names, index, on), max_visits=4)
            elif rng.random() < 0.7:
                self.nodes[name] = Node(
                    name, wait=make_wait(rng), rules=make_rules(rng, names, index, on), max_visits=4
                )
            else:
                self.nodes[name] = Node(name, rules=_next(name, on), max_visits=4)
        return names[0]

    def step(self, name: str) -> Node:
        rng = self.rng
        if rng.random() < 0.2:
            every = rng.randint(1, 4)
            self.failing[name] = every, rng.randrange(every)
        return Node(name, step=make_step(rng, name, self.flaky, self.directives, self.blocked))

    def fork(self, name: str, following: str, depth: int) -> None:
        """A node that forks, its branches, and mostly the node where they meet."""
        rng = self.rng
        join = f"{name}j" if rng.random() < 0.8 else ""
        kind = rng.random()
        node = self.step(name) if kind < 0.4 else Node(name, wait=make_wait(rng) if kind > 0.9 else None)
        self.nodes[name] = self.forking(node, join, depth)
        if not join:
            return
        fan_in, end = _fan_in(rng), make_rules(rng, [name, name], 1, following)
        met = self.step(join) if rng.random() < 0.4 else Node(join)
        if rng.random() < 0.12 and depth < DEEPEST:
            self.nodes[join] = replace(self.forking(met, "", depth), fan_in=fan_in)
        else:
            self.nodes[join] = replace(met, rules=end, fan_in=fan_in, max_visits=4)

    def forking(self, node: Node, join: str, depth: int) -> Node:
        rng = self.rng
        fan_out = rng.choice(["all", "first_match"])
        before = tuple(self._on_error(node.name))
        rules = tuple(self._branch_rules(node.name, join, depth, fan_out))
        return replace(node, rules=(*before, *rules), fan_out=fan_out, join=join, max_visits=4)

    def _on_error(self, name: str) -> Iterator[Rule]:
        if self.rng.random() < 0.2:
            yield Rule(f"{name}.diverge[0]", "diverge", ERROR, to=name, max_uses=1)
        if self.rng.random() < 0.3:
            yield Rule(f"{name}.diverge[1]", "diverge", ERROR, max_uses=2)  # continue

    def _branch_rules(self, name: str, join: str, depth: int, fan_out: str) -> Iterator[Rule]:
        """One for each kind of branch: over a list, or a single one."""
        rng = self.rng
        for number in range(rng.randint(1, 3) if fan_out == "all" else 1):
            rule_id = f"{name}.transition[{number}]"
            to = self.chain(f"{name}{'abc'[number]}", join or END, depth + 1)
            to = rng.choice([join, END]) if join and rng.random() < 0.08 else to
            over = None
            if fan_out != "all" or rng.random() < 0.4:
                most = 8 if depth == 0 else 3
                over = self.over(
                    rule_id, rng.choice([0, 1, 2, 3, rng.randint(1, most), rng.randint(1, most + 4 - depth)])
                )
            when = rng.choice([None, None, None, NEVER, IS_ODD]) if fan_out == "all" else None
            item_name, strides = rng.choice([None, "thing"]), rng.choice([None, None, 1, 2, 3])
            yield Rule(rule_id, "transition", when, to=to, foreach=over, item_name=item_name, max_concurrency=strides)
