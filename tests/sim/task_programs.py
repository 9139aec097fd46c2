"""Random durable programs with tasks: gathers, groups, races, limits, pools, and tasks that are left behind."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

from stepwell.definition.graph import Limit, RateLimit
from tests.sim.fn_programs import Durable, make_durable
from tests.sim.fn_values import Statement
from tests.sim.programs import TOPICS, Program

DEEPEST = 2


def make_world(rng: random.Random, *, kids: bool = False) -> Durable:
    """The world of a durable program. `kids`: one that starts other runs; else it starts none."""
    world = make_durable(rng)
    while not isinstance(world, Durable) or bool(world.callees) != kids:
        world = make_durable(rng)
    return world


def make_tasks(rng: random.Random, *, kids: bool = False) -> Program:
    """The world of a durable program, around another body."""
    world, maker = make_world(rng, kids=kids), TaskMaker(rng, kids)
    body = [maker.statement(DEEPEST) for _ in range(rng.randint(1, 3))]
    deploys = tuple(one for one in world.deploys if one[0] != "patch")
    return replace(world, input={**world.input, "body": body}, deploys=deploys, has_tasks=True)


def make_permitted(rng: random.Random) -> Program:
    """A function most of whose tasks' steps want permits of the same two limits."""
    limits = {"x": Limit(1, None), "y": Limit(rng.choice([1, 2]), rng.choice([None, RateLimit(1, 5_000, 2)]))}
    world, maker = make_world(rng), TaskMaker(rng, limits=tuple(limits))
    body = [maker.statement(DEEPEST) for _ in range(rng.randint(1, 3))]
    deploys = tuple(one for one in world.deploys if one[0] != "patch")
    program = replace(world, input={**world.input, "body": body}, deploys=deploys, has_tasks=True)
    return replace(program, limits=limits)


@dataclass
class TaskMaker:
    rng: random.Random
    kids: bool = False  # there are workflows to start runs of
    limits: tuple[str, ...] = ()  # of which its steps want permits
    said: int = 0

    def sequence(self, depth: int) -> list[Statement]:
        return [self.statement(depth) for _ in range(self.rng.choice([1, 1, 2, 3]))]

    def legs(self, depth: int) -> list[list[Statement]]:
        return [self.sequence(depth) for _ in range(self.rng.randint(1, 3))]

    def statement(self, depth: int) -> Statement:
        rng = self.rng
        if not depth or rng.random() < 0.35:
            return self.operation()
        kind = rng.choice([*(["begin", "join"] if depth == DEEPEST else []),
                           "gather", "group", "race", "limit", "pool", "finally", "try", "every", "any"])  # fmt: skip
        below = depth - 1
        match kind:
            case "gather" | "group":
                return {"do": kind, "of": self.legs(below)}
            case "every" | "any":
                bounds = {"most": rng.choice([0, 1, 2]), "fails": rng.choice([0, 1])} if kind == "every" else {}
                return {"do": kind, "of": self.legs(below), **bounds}
            case "race":
                return {"do": kind, "of": self.legs(below), "cancels": rng.random() < 0.6}
            case "limit":
                return {"do": kind, "seconds": rng.choice([0, 3, 40]), "body": self.sequence(below)}
            case "begin":
                return {"do": kind, "body": self.sequence(below)}
            case "pool":
                of = [self.operation() for _ in range(rng.randint(1, 5))]
                return {"do": kind, "of": of, "workers": rng.randint(1, 3)}
            case "finally" | "try":
                then = {"after": [self.step()]} if kind == "finally" else {"else": [self.operation()]}
                return {"do": kind, "body": self.sequence(below), **then}
        return {"do": "join"}

    def operation(self) -> Statement:
        if self.kids and self.rng.random() < 0.25:
            return self.child()
        rng, kind = self.rng, self.rng.random()
        if self.limits and kind < 0.7:
            of = self.step() if kind < 0.5 else self.call()
            return {"do": "under", "limit": rng.choice(self.limits), "of": of}
        if kind < 0.4:
            return self.step()
        if kind < 0.55:
            return self.call()
        if kind < 0.7:
            return {"do": "nap", "seconds": rng.choice([0, 1, 7, 50])}
        if kind < 0.78:
            return {"do": "sleep", "seconds": rng.choice([2, 11])}
        if kind < 0.88:
            return {"do": "event", "name": rng.choice(TOPICS), "key": "k", "seconds": rng.choice([5, 100])}
        return {"do": rng.choice(["set", "get"]), "name": "x"} if kind < 0.94 else {"do": rng.choice(["now", "draw"])}

    def child(self) -> Statement:
        given = {"body": [self.step(), self.rng.choice([self.step(), {"do": "sleep", "seconds": 30}])]}
        name, seconds = self.rng.choice(["kid0", "kid1"]), self.rng.choice([1, 60, 3_600])
        return {"do": "child", "workflow": name, "given": given, "seconds": seconds}

    def call(self) -> Statement:
        self.said += 1
        made: dict[str, Any] = {"do": "call", "say": self.said, "name": self.rng.choice(["c0", "c1"])}
        return {**made, "once": True, "name": "oc"} if self.rng.random() < 0.2 else made

    def step(self) -> Statement:
        self.said += 1
        made: dict[str, Any] = {"do": "step", "say": self.said, "name": self.rng.choice(["s0", "s1"])}
        kind = self.rng.random()
        if kind < 0.15:
            return {**made, "name": "r0", "fails": 1, "retries": 2, "pause": self.rng.choice([0, 4])}
        if kind < 0.25:
            return {**made, "name": "s1", "fails": 9}
        return {**made, "name": "o0", "once": True} if kind < 0.33 else made
