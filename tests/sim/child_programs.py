"""Random workflows that start others: one run, its children and theirs, and every way in which they are waited for."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any
from zlib import crc32

from stepwell.definition.formats.dag import start_node
from stepwell.definition.graph import END, Call, Child, FanIn, Graph, Node, Retry, Rule, Step, Wait
from stepwell.engine.records import Pause
from tests.sim.dag_programs import known_to
from tests.sim.fork_programs import items
from tests.sim.programs import KEY, TOPICS, Program, Simple, make_step, make_timeline, make_wait

DEEPEST = 3  # runs above a run, in these schedules
NOWHERE = "nowhere"  # a workflow that is not there
_GIVEN: Mapping[str, Any] = {"key": "k", "list": [0, 1]}
GIVEN = Simple("given", lambda _: dict(_GIVEN))


@dataclass(frozen=True)
class Family(Program):
    """A workflow whose runs fare differently, so that a child that is tried again can succeed."""

    unlucky: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # node -> runs (every, from) where it fails

    def _fails(self, call: Any) -> bool:
        every, first = self.unlucky.get(call.node, (0, 0))
        return bool(every) and crc32(call.run_id.encode()) % every == first


def make_family(rng: random.Random) -> Program:
    """A run, the workflows that it starts, and those that they start."""
    grands = tuple(make_leaf(rng, f"grand{index}") for index in range(rng.choice([0, 0, 1])))
    below = tuple(one.graph.name for one in grands)
    kids = []
    for index in range(rng.randint(1, 2)):
        name = f"kid{index}"
        inner = below + ((name,) if rng.random() < 0.08 else ())  # one that calls itself comes to no end but one
        kids.append(_Maker(rng, name, inner).any() if inner and rng.random() < 0.6 else make_leaf(rng, name))
    maker = _Maker(rng, "sim", tuple(one.graph.name for one in kids))
    kind = rng.random()
    made = maker.small() if kind < 0.4 else maker.any()
    events = tuple((rng.choice(TOPICS), f"e{number}", rng.randint(0, 3)) for number in range(rng.randint(0, 2)))
    page = rng.choice([0, 0, 1, 2])
    return replace(made, callees=(*kids, *grands), events=events, calls=_calls(rng), page=page)


def _calls(rng: random.Random) -> tuple[tuple[str, int], ...]:
    calls = [("cancel", rng.choice([0, 1, 1, 30, 5_000]))] * (rng.random() < 0.4)
    calls += [("terminate", rng.choice([0, 10, 10]))] * (rng.random() < 0.08)
    for operation, chance in (("cancel child", 0.25), ("terminate child", 0.08), ("approve child", 0.35)):
        calls += [(operation, rng.choice([0, 1, 30, 4_000]))] * (rng.random() < chance)
    return tuple(calls)


def _next(name: str, following: str) -> tuple[Rule, ...]:
    return (Rule(f"{name}.next", "next", to=following),)


def make_leaf(rng: random.Random, name: str) -> Program:
    """A workflow that starts no other: mostly a step or two, or a wait."""
    maker = _Maker(rng, name, ())
    kind = rng.random()
    if kind < 0.15:
        made = make_timeline(rng)
        graph = replace(made.graph, name=name, version=f"sha256:{name}")
        return Family(graph, made.flaky, made.directives, made.blocked, (), ())
    maker.nodes["n0"] = maker.step("n0")
    if kind < 0.45:
        limit_ms = rng.choice([None, 1_000, 60_000, 7_200_000])
        kinds = Wait(rng.choice(["approval", "event"]), event="a", key=KEY, timeout_ms=limit_ms, on_timeout="continue")
        maker.nodes["n0"] = Node("n0", wait=kinds)
    if kind < 0.6:
        maker.nodes["n1"] = maker.step("n1")
    return maker.chained()


@dataclass
class _Maker:
    """A workflow that is being put together, and the others that it starts."""

    rng: random.Random
    name: str
    callees: tuple[str, ...]
    nodes: dict[str, Node] = field(default_factory=dict)
    flaky: dict[str, int] = field(default_factory=dict)
    directives: dict[str, Pause] = field(default_factory=dict)
    unlucky: dict[str, tuple[int, int]] = field(default_factory=dict)

    # -- nodes

    def step(self, name: str) -> Node:
        """Mostly one that does what it is told; some fail, in some runs or in all."""
        rng = self.rng
        if rng.random() < 0.3:
            every = rng.choice([1, 2, 2, 3])
            self.unlucky[name] = every, rng.randrange(every)
        if rng.random() < 0.2:
            return Node(name, step=make_step(rng, name, self.flaky, self.directives, set()))
        return Node(name, step=Step(f"python:sim.{name}", on_failure=rng.choice(["abort", "abort", "skip"])))

    def call(self, name: str) -> Node:
        """Children that are waited for, a run that nobody waits for, or children that a step asks for."""
        rng, kind = self.rng, self.rng.random()
        if kind < 0.1:
            return Node(name, step=Step(f"workflow:{self.workflow()}", input=GIVEN))
        if kind < 0.2:
            asked = [{"name": f"c{at}", "workflow": self.workflow(), "input": None} for at in range(rng.randint(1, 2))]
            limit_ms, then = rng.choice([None, 1_000, 60_000]), rng.choice(["next", "again"])
            self.directives[name] = Pause("children", data=asked, timeout_ms=limit_ms, result={"mine": 1}, then=then)
            return Node(name, step=Step(f"python:sim.{name}"))
        single = rng.random() < 0.4
        count = 1 if single else rng.choice([1, 2, 2, 3])
        given = rng.choice([None, GIVEN])
        retry = Retry(rng.randint(1, 2), "constant", rng.choice([0, 0, 1_000]), 1_000, "none", frozenset({"step"}))
        return Node(name, call=Call(
            tuple(Child(f"c{index}", self.workflow(), given) for index in range(count)),
            single=single,
            timeout_ms=rng.choice([None, None, 1_000, 60_000, 3_600_000]),
            retry=retry if rng.random() < 0.35 else None,
            on_failure=rng.choice(["abort", "skip"]),
            failed_child=rng.choice(["propagate", "propagate", "isolate", "return"]),
            siblings=rng.choice(["cancel", "cancel", "finish"]),
            parent_close=rng.choice(["cancel", "cancel", "cancel", "abandon"]),
        ))  # fmt: skip

    def workflow(self) -> str:
        return NOWHERE if self.rng.random() < 0.03 else self.rng.choice(self.callees)

    # -- workflows

    def any(self) -> Program:
        kind = self.rng.random()
        if kind < 0.25:
            return self.forked()
        return self.dag() if kind < 0.45 else self.chain()

    def small(self) -> Program:
        """A node with children and a step: few calls, so that its few races are met often."""
        self.nodes = {"n0": self.call("n0"), "n1": Node("n1", step=Step("python:sim.n1"))}
        return self.chained()

    def chain(self) -> Program:
        """Two to four nodes one after the other, two of which call."""
        rng = self.rng
        names = [f"n{index}" for index in range(rng.randint(2, 4))]
        calls = set(rng.sample(names, 2))
        for name in names:
            waits = rng.random() < 0.2
            plain = Node(name, wait=make_wait(rng)) if waits else self.step(name)
            self.nodes[name] = self.call(name) if name in calls else plain
        return self.chained(timeout_ms=rng.choice([None, None, None, 30_000]))

    def forked(self) -> Program:
        """Branches with children in each."""
        rng = self.rng
        over = Rule("n0.next", "next", to="n1", foreach=items("list"), max_concurrency=rng.choice([None, None, 1]))
        policy = rng.choice(["all", "all", "any"])
        fan_in = FanIn(policy, on_early_complete=rng.choice(["cancel", "cancel", "abandon"]),
                       on_branch_failure=rng.choice(["fail", "collect"]))  # fmt: skip
        self.nodes = {
            "n0": Node("n0", rules=(over,), join="n2"),
            "n1": replace(self.call("n1"), rules=_next("n1", "n2")),
            "n2": Node("n2", fan_in=fan_in, rules=_next("n2", "n3")),
            "n3": Node("n3", step=Step("python:sim.n3"), rules=_next("n3", END)),
        }
        return self.program(Graph(self.name, f"sha256:{self.name}", "nodes", "n0", self.nodes, {}))

    def dag(self) -> Program:
        """Three or four steps that depend on those before them; some are children."""
        rng = self.rng
        names = [f"n{index}" for index in range(rng.randint(3, 4))]
        calls = set(rng.sample(names, 2))
        for name in names:
            node = self.call(name) if name in calls else self.step(name)
            known = node.step and not node.step.run.startswith("workflow:") and replace(node.step, input=known_to(name))
            self.nodes[name] = replace(node, step=known or node.step)
        needs = {name: tuple(rng.sample(names[:at], min(at, rng.randint(0, 2)))) for at, name in enumerate(names)}
        return self.program(Graph(self.name, f"sha256:{self.name}", "steps", "", self.nodes | start_node(needs), {}))

    def chained(self, timeout_ms: int | None = None) -> Program:
        names = [*self.nodes, END]
        for name, following in pairwise(names):
            self.nodes[name] = replace(self.nodes[name], rules=_next(name, following))
        version = f"sha256:{self.name}"
        return self.program(Graph(self.name, version, "timeline", "n0", self.nodes, {}, timeout_ms=timeout_ms))

    def program(self, graph: Graph) -> Program:
        return Family(graph, self.flaky, self.directives, frozenset(), (), (), input=_GIVEN, unlucky=self.unlucky)
