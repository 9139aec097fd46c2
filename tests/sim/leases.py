"""The leases of a world: how long whoever is at work has its message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sim.actors import Actor

if TYPE_CHECKING:
    from tests.sim.world import World


class Leased:
    """The budget of an actor: its lease, and what is left of its invocation; or now and then no time for a step."""

    def __init__(self, world: World, actor: Actor | None) -> None:
        self._world, self._actor = world, actor

    def left_ms(self) -> int | None:
        chances, whole_ms = self._world.chances, self.whole_ms()
        if whole_ms is not None and self._actor is not None:
            return max(self._actor.since_ms + whole_ms - self._world.now_ms, 0)
        return 0 if chances.hands_over and self._world.rng.random() <= chances.no_time else None

    def whole_ms(self) -> int | None:
        backlog = self._world.main.backlog
        return backlog.invocation_ms if backlog else None

    def holds(self) -> bool:
        return self._actor is None or not self._actor.is_zombie

    def is_first(self) -> bool:
        """Elsewhere a copy that comes meanwhile counts as well, as where a lease has run out."""
        if self._actor is None:
            return True
        return (self._actor.delivery if self._world.main.backlog else self._actor.envelope.deliveries) == 1
