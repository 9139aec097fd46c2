"""Random durable programs of runs that share a table, which their transactions change, and a few locks."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.sim.fn_programs import Durable
from tests.sim.fn_values import Statement
from tests.sim.programs import Program
from tests.sim.task_programs import DEEPEST, TaskMaker, make_world

_NAMES = ("x", "y")
_LEAVE_OPEN = {"begin", "join", "race"}  # beside what these leave under way, there is no lock


def make_shared(rng: random.Random) -> Program:
    """A function that transacts and locks; half of them start two others at once, which do the same."""
    has_kids = rng.random() < 0.5
    world, maker = make_world(rng, kids=has_kids), _Maker(rng)
    body = [maker.statement(1 if has_kids else DEEPEST), maker.section()]
    if has_kids:
        body.insert(0, {"do": "gather", "of": [[maker.kid("kid0")], [maker.kid(rng.choice(["kid0", "kid1"]))]]})
    deploys = tuple(one for one in world.deploys if one[0] != "patch")
    callees = tuple(replace(one, has_tasks=True) for one in world.callees if isinstance(one, Durable))
    return replace(world, input={**world.input, "body": body}, deploys=deploys, callees=callees, has_tasks=True)


class _Maker(TaskMaker):
    """Statements with transactions, and sections under a lock, in which nothing waits for the outside world."""

    def statement(self, depth: int) -> Statement:
        while (made := super().statement(depth))["do"] in _LEAVE_OPEN:
            """Another one, then."""
        return made

    def operation(self) -> Statement:
        return self.transact() if self.rng.random() < 0.4 else super().operation()

    def transact(self) -> Statement:
        return {"do": "transact", "name": self.rng.choice(["put", "put", "take"])}

    def section(self) -> Statement:
        """One under a lock, or tasks that take their turns."""
        if self.rng.random() < 0.5:
            return self.locked()
        legs = [[self.brief() if self.rng.random() < 0.4 else self.locked()] for _ in range(self.rng.randint(2, 3))]
        return {"do": "gather", "of": legs}

    def locked(self) -> Statement:
        body = [self.brief() for _ in range(self.rng.randint(1, 2))]
        if self.rng.random() < 0.25:
            body = [{"do": "gather", "of": [[one] for one in (*body, self.brief())]}]
        return {"do": "lock", "name": self.rng.choice(_NAMES), "body": body}

    def brief(self) -> Statement:
        return self.rng.choice([self.step, self.call, self.transact, self.transact])()

    def kid(self, name: str) -> Statement:
        body = [self.section(), self.transact()]
        return {"do": "child", "workflow": name, "given": {"body": body}, "seconds": 3_600}
