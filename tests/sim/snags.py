"""Whoever makes some call is held up there, for a while, and dies often once it has made it.

    actor    reads ── held up at the call ───────────────── makes it ── dies
    others              all that is due, and more ──┘

What such an actor has read is old when it acts on it, and what should follow is left to others. Each schedule names the
calls, so that it takes no luck that a stall, a death and what happens meanwhile meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepwell.engine.records import Topic
from stepwell.limits import DAY_MS
from stepwell.runtime.log.messages import Publish, to_json
from stepwell.runtime.ports import Event, Lane
from tests.sim.actors import Envelope
from tests.sim.called_programs import break_code
from tests.sim.deploying import deploy, remove_limits

if TYPE_CHECKING:
    from tests.sim.actors import Actor
    from tests.sim.world import World

HELD = "held"  # in the place of a phase: the call comes once somebody is held up
HELD_MS = (1, 1_500, 5_000, 10_000, 100_000)
_MOST = 12  # times: those who die and come again would be held up for ever
_DEPLOYS = frozenset({"patch", "reload"})


@dataclass(frozen=True)
class Snag:
    """Who is held up: by the type of the message, or what the client asks for; at which call to a port."""

    who: str
    call: str
    dies: str = ""  # behind which call; "": not for this
    dies_before: bool = False  # before that call, as if amid the work that led to it
    lets: int = 0  # how many go past it first
    most: int = _MOST  # how many are held up then
    chance: float = 1.0
    held_ms: tuple[int, ...] = HELD_MS

    def meets(self, actor: Actor, call: str) -> bool:
        return self.call == call and self.who == str(actor.envelope.body["type"])


def make_snags(world: World) -> None:
    """Nobody dies or sees an error elsewhere. Messages come twice where copies matter, and leases run out in a race."""
    chances = world.chances
    chances.crash = chances.error = 0
    if world.program.forks and world.program.graph.events:  # many wait for one event
        chances.hands_over, chances.no_time = True, 0.5
    if world.program.race:
        chances.double, chances.zombies = 0.5, 0.01
    elif world.program.graph.replays:
        chances.double = max(chances.double, 0.2)
    elif world.program.callees:  # one message each: others that are held up are many enough
        chances.double = min(chances.double, 0.05)


def hold_up(world: World, call: str, about: object = "") -> None:
    """Before a call to a port. `about`: what it is about, the id of its run for most calls."""
    actor = world.current
    for place, snag in enumerate(world.main.snags if actor else ()):
        if actor is None or not snag.meets(actor, call) or world.rng.random() >= snag.chance:
            continue
        world.snagged[place] += 1
        if not snag.lets < world.snagged[place] <= snag.lets + snag.most:
            continue
        world.stalled += 1
        actor.until_ms = world.now_ms + world.rng.choice(snag.held_ms)
        world.busy_until_ms = max(world.busy_until_ms, actor.until_ms)
        actor.doom = (snag.dies, not snag.dies_before) if snag.dies else None
        body = actor.envelope.body
        _meanwhile(world, str(body.get("run_id", body.get("run", about))))
        return


def _meanwhile(world: World, run_id: str) -> None:
    """What comes as soon as somebody is held up: two calls, events or deploys. `of_any`: not about this run."""
    for ask in [one for one in world.awaited if one["phase"] == HELD][:2]:
        world.awaited.remove(ask)
        if ask["type"] == "break":
            break_code(world)
        elif ask["type"] == "unlimit":
            remove_limits(world)
        elif ask["type"] in _DEPLOYS:
            deploy(world, ask["type"])
        elif ask["type"] == "event":
            _publish(world, ask["topic"])
        else:
            is_of_it = ask["type"].endswith(" child") and "of_any" not in ask
            body = {**ask, "run": run_id} if is_of_it else ask
            world.post(Envelope("client", body, world.now_ms + 1_000 * ask["after_s"]))


def _publish(world: World, topic: Topic) -> None:
    world.tempted += 1
    event = Event(topic, f"h{world.tempted}", {"n": world.tempted}, world.now_ms, world.now_ms + DAY_MS)
    world.post(Envelope(str(Lane.RESUME), to_json(Publish(event)), world.now_ms))


def is_doomed(actor: Actor) -> bool:
    """Whether the actor dies at this stop."""
    if actor.doom is None:
        return False
    call, is_behind = actor.doom
    return actor.at.startswith(call) and actor.at.endswith(" done") is is_behind
