"""Random durable programs whose callers ask for updates and queries: twice, early, late, invalid."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.sim.asked_code import TROUBLE
from tests.sim.fn_values import Statement
from tests.sim.programs import TOPICS, Program
from tests.sim.task_programs import DEEPEST, TaskMaker, make_world

_WHEN_S = (0, 0, 0, 1, 2, 5, 30, 60, 5_000)


def make_asked(rng: random.Random, *, kids: bool = False) -> Program:
    """The world of a durable program, around a body that waits for what its callers change."""
    world, maker = make_world(rng, kids=kids), _Maker(rng, kids)
    body = [maker.until(), *(maker.statement(DEEPEST) for _ in range(rng.randint(1, 2))), maker.until()]
    rng.shuffle(body)
    deploys = tuple(one for one in world.deploys if one[0] != "patch")
    given = {**world.input, "body": body, "pays": maker.sequence(0) if rng.random() < 0.6 else None}
    return replace(world, input=given, deploys=deploys, asks=tuple(_asks(rng)), has_tasks=True)


def _asks(rng: random.Random) -> list[Mapping[str, Any]]:
    """Each caller repeats its call where it died, some ask for one update twice, and all hear what became of it."""
    asks: list[Mapping[str, Any]] = []
    for number in range(rng.randint(1, 6)):
        n = rng.choice([1, 2, 3, 3, TROUBLE, -1])
        name = rng.choice(["add", "add", "pay", "pay", "gone"]) if rng.random() < 0.9 else "add"
        given = {"n": n} if rng.random() < 0.9 else {"m": n}
        ask = {"name": name, "input": given, "id": f"u{number}"}
        asks += [{**ask, "type": "update", "after_s": rng.choice(_WHEN_S)} for _ in range(rng.choice([1, 1, 2]))]
        asks += [{**ask, "type": "answer", "after_s": rng.choice(_WHEN_S)} for _ in range(2)]
    query = {"type": "query", "name": "items", "input": None, "id": ""}
    asks += [{**query, "after_s": rng.choice(_WHEN_S)} for _ in range(rng.randint(0, 6))]
    if rng.random() < 0.3:
        signal = {"type": "signal", "input": {"n": 2, "document": "d"}}
        whens = [0, *rng.choices(_WHEN_S, k=rng.randint(0, 2))]  # the first that comes starts the run
        asks += [{**signal, "name": rng.choice(TOPICS), "id": f"g{number}", "after_s": after_s}
                 for number, after_s in enumerate(whens)]  # fmt: skip
    return asks


class _Maker(TaskMaker):
    """Statements with tasks, and conditions among them."""

    def statement(self, depth: int) -> Statement:
        kind = self.rng.random()
        if kind < 0.15:  # alone, where no handler awaits: updates come amid the wait
            seconds = self.rng.choice([2, 40, 100])
            event = {"do": "event", "name": self.rng.choice(TOPICS), "key": "k", "seconds": seconds}
            return self.rng.choice([event, {"do": "sleep", "seconds": seconds}])
        return self.until() if kind < 0.35 else super().statement(depth)

    def until(self) -> Statement:
        return {"do": "until", "count": self.rng.choice([1, 1, 2, 3]), "seconds": self.rng.choice([1, 10, 60, 4_000])}
