"""Random durable programs: steps, waits, combinators, children, state and new lives, put together as data."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from stepwell.definition.durable import durable_nodes
from stepwell.definition.graph import Durable as Function
from stepwell.definition.graph import EventSettings, Graph
from stepwell.engine.actions import Outcome
from stepwell.engine.records import Failure
from tests.sim.child_programs import make_leaf
from tests.sim.fn_code import Code, Workers
from tests.sim.fn_values import Statement
from tests.sim.programs import TOPICS, Program

DEEPEST = 2  # combinators within combinators
_LIMITS_S = (1, 60, 60, 3_600)
_CLEANUPS_MS = (1_000, 30_000, 600_000)


@dataclass(frozen=True)
class Durable(Program):
    """A workflow that is a durable function, and what its world does to its code."""

    kept: tuple[int, ...] = (1_000,)  # sessions, by worker
    drops: float = 0.0  # how often a worker begins anew before it is asked
    has_tasks: bool = False  # it is written with asyncio

    def outcome(self, call: Any, now_ms: int, seen: Any) -> Outcome:
        """By its input alone, as a deterministic step would be."""
        given = call.input
        if call.node.startswith("o"):
            key = f"{call.key}.{call.attempt}"
            seen.once[key] = seen.once.get(key, 0) + 1
        if call.attempt <= given.get("fails", 0):
            return Outcome(failure=Failure("Flaky", "step", "again", call.node, call.attempt), started_ms=now_ms)
        return Outcome(value=said(given) if given else None, started_ms=now_ms)


def has_tasks(program: Program) -> bool:
    """Whether it is written with asyncio."""
    return isinstance(program, Durable) and program.has_tasks


def workers_of(program: Program) -> Workers:
    """The processes of a world; of any program, for most never ask for one."""
    names = [one.graph.name for one in (program, *program.callees) if one.graph.replays]
    return Workers(Code(names), program.kept if isinstance(program, Durable) else (1,))


def said(given: Mapping[str, Any]) -> Any:
    """What a step returns in the end."""
    return {"say": given["say"], "given": given.get("given")}


def make_durable(rng: random.Random) -> Program:
    """A durable function, and those that it starts; now and then small, so that its few races are met often."""
    maker = _Maker(rng)
    kind = rng.random()
    body = maker.small() if kind < 0.3 else maker.sequence(rng.randint(1, 5), DEEPEST)
    is_cancelled = kind > 0.75
    if is_cancelled:
        body = [maker.step(), maker.guarded(DEEPEST), maker.step()]
    again = rng.choice([0, 0, 0, 1, 2])
    leaves = [make_leaf(rng, "graph0")] if "graph0" in maker.calls else []
    stays = rng.random() < 0.3
    settings = {topic: EventSettings(consume_on_read=False) for topic in TOPICS} if stays else {}
    cleanup_ms = rng.choice([0, *_CLEANUPS_MS])
    made, *kids = (durable(name, cleanup_ms) for name in ("sim", "kid0", "kid1"))
    callees = (
        [replace(one, graph=replace(one.graph, events=settings)) for one in (*kids, *leaves)] if maker.calls else []
    )
    return replace(
        made,
        graph=replace(made.graph, events=settings),
        input={"body": body, "again": again},
        callees=tuple(callees),
        events=tuple((rng.choice(TOPICS), f"e{number}", rng.randint(0, 3)) for number in range(rng.randint(0, 4))),
        calls=(*_calls(rng), *((("cancel", rng.choice([0, 1, 1, 1, 5, 30])),) if is_cancelled else ())),
        page=rng.choice([0, 0, 2]),
        chunk=rng.choice([0, 0, 1]),
        idle=False,
        kept=rng.choice([(1_000,), (1_000, 1_000), (0,), (1, 1_000), (1_000, 1_000, 2)]),
        drops=rng.choice([0, 0, 0.1, 0.4]),
        deploys=_deploys(rng),
    )


def durable(name: str, cleanup_ms: int) -> Durable:
    nodes = durable_nodes(name, Function(f"python:sim.{name}", cleanup_ms))
    graph = Graph(name, f"sha256:{name}", "function", name, nodes, {})
    return Durable(graph, {}, {}, frozenset(), (), ())


def _calls(rng: random.Random) -> tuple[tuple[str, int], ...]:
    calls = [("approve", rng.choice([0, 1, 60])) for _ in range(rng.randint(0, 3))]
    calls += [("reject", rng.choice([0, 60]))] * (rng.random() < 0.2)
    calls += [("cancel", rng.choice([0, 1, 30, 5_000]))] * (rng.random() < 0.2)
    calls += [("terminate", rng.choice([0, 10]))] * (rng.random() < 0.05)
    calls += [("approve child", rng.choice([0, 1, 30]))] * (rng.random() < 0.2)
    calls += [("cancel child", rng.choice([0, 1, 30]))] * (rng.random() < 0.1)
    return tuple(calls)


def _deploys(rng: random.Random) -> tuple[tuple[str, int], ...]:
    deploys = [("reload", rng.randint(0, 300)) for _ in range(rng.choice([0, 0, 1, 2]))]
    deploys += [("patch", rng.choice([0, 30, 60, 100, 200]))] * (rng.random() < 0.7)
    if rng.random() < 0.1:
        broken = rng.randint(0, 200)
        deploys += [("break", broken), ("mend", broken + rng.randint(1, 300))]
    return tuple(sorted(deploys, key=lambda one: one[1]))


@dataclass
class _Maker:
    """Statements, of names that come again and again."""

    rng: random.Random
    said: int = 0
    patches: int = 0
    calls: set[str] = field(default_factory=set)

    def small(self) -> list[Statement]:
        """One combinator between two steps."""
        return [self.step(), self.together(1), self.step()]

    def sequence(self, count: int, depth: int) -> list[Statement]:
        return [self.statement(depth) for _ in range(count)]

    def statement(self, depth: int) -> Statement:
        rng, kind = self.rng, self.rng.random()
        if kind < 0.25 and depth:
            return self.together(depth)
        if kind < 0.35 and depth:
            return {"do": "try", "body": self.sequence(rng.randint(1, 2), depth - 1),
                    "else": self.sequence(rng.randint(0, 1), 0)}  # fmt: skip
        if kind < 0.4 and depth:
            return self.guarded(depth)
        if kind < 0.47 and depth:
            self.patches += 1
            return {"do": "patched", "name": f"p{self.patches}", "new": self.sequence(rng.randint(1, 2), 0),
                    "old": self.sequence(rng.randint(0, 1), 0)}  # fmt: skip
        if kind < 0.6:
            return self.plain()
        return self.operation()

    def guarded(self, depth: int) -> Statement:
        """What cleans up behind its body: whatever comes of that, or where the run is cancelled, which it swallows."""
        rng = self.rng
        after = [rng.choice([self.step, self.nap, self.nap, self.operation])() for _ in range(rng.randint(0, 2))]
        within: list[Callable[[], Statement]] = [self.nap, self.wait, self.step, lambda: self.together(1)]
        within.append(lambda: self.statement(depth - 1))
        return {"do": rng.choice(["finally", "finally", "shield"]),
                "body": [rng.choice(within)() for _ in range(rng.randint(1, 3))],
                "after": [*after, self.step()]}  # fmt: skip

    def nap(self) -> Statement:
        return {"do": "sleep", "seconds": self.rng.choice([1, 5, 60])}

    def plain(self) -> Statement:
        """What leaves no record of its own."""
        kind = self.rng.choice(["set", "get", "draw", "now"])
        return {"do": kind, "name": self.rng.choice("xy")} if kind in {"set", "get"} else {"do": kind}

    def together(self, depth: int) -> Statement:
        rng, kind = self.rng, self.rng.choice(["all", "all", "first", "first", "map"])
        if kind == "map":
            items = list(range(rng.randint(1, 5)))
            return {"do": "map", "items": items, "most": rng.choice([0, 1, 2]), "name": rng.choice(["s0", "m0"])}
        below = max(depth - 1, 0)
        of = rng.choice([self.operation, self.wait, self.branch(below), self.branch(below)])
        return {"do": kind, "of": [of() for _ in range(rng.randint(1, 3))]}

    def branch(self, depth: int) -> Any:
        """An operation, or several."""

        def made() -> Statement:
            kind = self.rng.random()
            if kind < 0.4:
                return self.operation()
            if kind < 0.5:
                return self.together(depth - 1) if depth else self.wait()
            return self.wait() if kind < 0.7 else self.together(max(depth - 1, 0))

        return made

    def operation(self) -> Statement:
        kind = self.rng.random()
        if kind < 0.55:
            return self.step()
        return self.wait() if kind < 0.85 else self.child()

    def step(self) -> Statement:
        rng = self.rng
        self.said += 1
        kind, made = rng.random(), {"do": "step", "say": self.said}
        if kind < 0.15:
            return {**made, "name": "r0", "fails": rng.randint(0, 3), "retries": rng.randint(1, 2),
                    "pause": rng.choice([0, 2, 2_000])}  # fmt: skip
        if kind < 0.25:
            return {**made, "name": "o0", "once": True}
        if kind < 0.35:
            return {**made, "name": "s1", "fails": 9}
        return {**made, "name": rng.choice(["s0", "s1"])}

    def wait(self) -> Statement:
        rng = self.rng
        kind, seconds = rng.choice(["sleep", "event", "event", "approval"]), rng.choice(_LIMITS_S)
        if kind == "event":
            match = {"match": "event.n % 2 == 0"} if rng.random() < 0.2 else {}
            return {"do": "event", "name": rng.choice(TOPICS), "key": "k", "seconds": seconds, **match}
        return {"do": kind, "seconds": seconds}

    def child(self) -> Statement:
        rng = self.rng
        name = rng.choice(["kid0", "kid1", "graph0"])
        self.calls.add(name)
        given: Mapping[str, Any] = {"key": "k", "list": [0, 1]}
        if name != "graph0":
            given = {"body": self.sequence(rng.randint(1, 2), 0)}
        if rng.random() < 0.15:
            return {"do": "detached", "workflow": name, "given": given}
        return {"do": "child", "workflow": name, "given": given, "seconds": rng.choice([1, 60, 3_600])}
