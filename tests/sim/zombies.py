"""Workers that outlive their leases: a message comes again while its first worker is still at it, which then dies.

    first    takes the message ────── held up ────────────── appends? ── dies, and nothing comes again
    second            └─ the lease runs out: takes it ── hands over ── done, the message is deleted
    third                                                      └─ another message: works on

Were the first to win the slot that the third is working for, the third would drop, and nobody would go on. A worker
looks at its lease right before it appends; here the look and the append are one. What can come between them is for
the sweeper.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING
from unittest import mock

from stepwell.definition.graph import END, Graph, Node, Rule, Step
from tests.sim.leases import Leased
from tests.sim.programs import Program

if TYPE_CHECKING:
    from tests.sim.actors import Actor, Envelope
    from tests.sim.world import World

_APPENDS = ("append", "consume", "watch")  # stops between the look at the lease and the record


def make_held(rng: random.Random) -> Program:
    """A chain of steps that take as long as each other: who is held up in one ends it amid another's."""
    names = [f"n{number}" for number in range(rng.randint(3, 6))]
    nodes = {
        name: Node(name, step=Step(f"python:sim.{name}"), rules=(Rule(f"{name}.next", "next", to=following),))
        for name, following in pairwise([*names, END])
    }
    graph = Graph("sim", "sha256:sim", "timeline", names[0], nodes, {})
    return Program(graph, {}, {}, frozenset(), (), (), takes_ms=(1_000,))


def make_zombies(world: World, *, are_held: bool = False) -> None:
    """Leases run out often, work is handed over often, and those whose lease ran out often die."""
    chances = world.chances
    chances.double, chances.hands_over, chances.zombies = 0.5, True, 0.1
    if are_held:  # a single delivery too many, and whoever lost its lease dies once it has appended
        chances.double, chances.no_time, chances.zombies = 0.3, 0.5, 0.5
        chances.crash = chances.error = chances.tempt = 0
        chances.dies_late = True


def is_appending(world: World, envelope: Envelope) -> bool:
    """Whether somebody who still holds the message has just looked at the lease."""
    return bool(world.chances.zombies) and any(
        actor.envelope is envelope and not actor.is_zombie and actor.at.startswith(_APPENDS) and "done" not in actor.at
        for actor in world.actors
    )


def make_zombie(world: World, envelope: Envelope) -> None:
    """Whoever works on the message has lost it to its next delivery."""
    for actor in world.actors if world.chances.zombies else ():
        if actor.envelope is envelope and envelope.kind != "client":
            actor.is_zombie = True
            world.say(f"{actor.name}: has lost its lease")


def chance_of_death(world: World, actor: Actor) -> float:
    chances = world.chances
    if chances.dies_late and not (actor.at.startswith("append") and "done" in actor.at):
        return 0
    return max(chances.crash, chances.zombies) if actor.is_zombie else chances.crash


@contextmanager
def lease_not_asked() -> Iterator[None]:
    """A worker appends without a look at its lease."""
    with mock.patch.object(Leased, "holds", return_value=True):
        yield


OF_LEASES = (lease_not_asked,)
