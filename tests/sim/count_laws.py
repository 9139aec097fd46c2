"""Law of counts: where nobody dies and nothing comes twice, a run's messages are as many as its records ask for.

A wake is sent once for the record that it is for. It is sent again after a death or a lost answer, by a worker that
hands over or whose clock is behind, and to whoever stands in a line. A call or an event may wake what another one has
moved at the same time: copies of one approval, or a publisher that found the other's event and took it. From then on
two workers may be at one token, and both send what they come to: nothing is counted any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.sim.world import World


def count_wake(world: World, message: Mapping[str, Any]) -> None:
    """Counts a wake that is sent. Where a call or an event sends what somebody else has sent, counts nothing more."""
    if not (world.counts_wakes and message.get("type") == "wake" and _is_calm(world)):
        return
    wake, sender = str(sorted(message.items())), _from_outside(world)
    if world.wakers[wake] - {sender}:
        world.counts_wakes = False
        world.wakes.clear()
        return
    world.wakes[wake] += 1
    world.wakers[wake].add(sender)


def _from_outside(world: World) -> str:
    """Which call or event is at work; "" for a worker or a timer."""
    actor = world.current
    if actor is None or (actor.envelope.kind != "client" and actor.envelope.body.get("type") != "publish"):
        return ""
    return actor.name


def laws_of_counts(world: World) -> Iterator[str]:
    """Once the last message is gone. Tells what is broken."""
    if not world.seen.crashes:
        for wake, count in world.wakes.items():
            if count > 1:
                yield f"messages: nobody died, and this wake was sent {count} times: {wake}"


def _is_calm(world: World) -> bool:
    """Whether each message comes once, clocks agree, each call is answered, and the run waits for no other."""
    chances, program = world.chances, world.main
    is_odd = chances.double or chances.error or chances.early or chances.skew_ms or chances.hands_over or chances.tempt
    return not (is_odd or program.callees or program.asks or program.limits or program.deploys or program.graph.replays)
