"""One event against one wait: sent just before it is registered, while it is, or just after. Nothing else happens.

So small a program is done in a millisecond, and its few races are met in every order there is.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

from stepwell.definition.graph import END, Graph, Node, Rule, Step, Wait
from stepwell.engine.records import Kind, Record
from tests.sim.programs import KEY, Program

if TYPE_CHECKING:
    from tests.sim.world import World

WHEN = ("before", "while", "after")
LAST_CALL = "pending_events"  # of who registers a wait

WAITS = "n1"  # the node that waits for the event


def make_race(rng: random.Random) -> Program:
    """A step, a wait for an event without a time limit, a step."""
    nodes = {
        "n0": Node("n0", step=Step("python:sim.n0"), rules=(Rule("n0.next", "next", to="n1"),)),
        "n1": Node("n1", wait=Wait("event", event="a", key=KEY), rules=(Rule("n1.next", "next", to="n2"),)),
        "n2": Node("n2", step=Step("python:sim.n2"), rules=(Rule("n2.next", "next", to=END),)),
    }
    return Program(Graph("sim", "sha256:sim", "timeline", "n0", nodes, {}), {}, {}, frozenset(), (), (),
                   race=rng.choice(WHEN))  # fmt: skip


def laws_of_races(world: World, logs: dict[str, list[Record]]) -> Iterator[str]:
    """Tells what is broken."""
    if not world.program.race or not world.tempted:  # or the step before failed
        return
    if any(record.kind is Kind.ENDED for log in logs.values() for record in log):
        return  # so many workers died, one after the other, that the run was given up
    over = [record for log in logs.values() for record in log if record.kind is Kind.RESUMED and record.node == WAITS]
    if [one.resumption.kind for one in over if one.resumption] != ["event"]:  # the steps' nodes wait for code at most
        yield f"law 4: an event sent {world.program.race} its wait was registered ended it {len(over)} times"
