"""The leases of a world: how long whoever is at work has its message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sim.actors import Actor

if TYPE_CHECKING:
    from tests.sim.world import World


class Leased:
    """The budget of an actor: its lease, and now and then too little time for another step."""

    def __init__(self, world: World, actor: Actor | None) -> None:
        self._world, self._actor = world, actor

    def left_ms(self) -> int | None:
        chances = self._world.chances
        return 0 if chances.hands_over and self._world.rng.random() <= chances.no_time else None

    def whole_ms(self) -> int | None:
        return None

    def holds(self) -> bool:
        return self._actor is None or not self._actor.is_zombie

    def is_first(self) -> bool:
        return self._actor is None or self._actor.envelope.deliveries == 1
