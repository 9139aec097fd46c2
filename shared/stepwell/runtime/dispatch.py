"""From a queue's message to the part that handles it; and what becomes of one that kills its worker too often."""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.definition.graph import Json
from stepwell.limits import DELIVERIES
from stepwell.runtime.assembly import Assembly
from stepwell.runtime.messages import DeadLetter, Wake, from_json, to_json
from stepwell.runtime.ports import Lane
from stepwell.runtime.worker import Budget


async def dispatch(parts: Assembly, lane: Lane, body: Mapping[str, Json], budget: Budget) -> None:
    """Handles one message to its end. Whoever called deletes it then; if this raises, it is to come again."""
    message = from_json(body)
    if lane is Lane.WORK and isinstance(message, Wake):
        await parts.worker.handle(message, budget)
    else:
        await parts.coordinator.handle(message)


def is_exhausted(deliveries: int) -> bool:
    """Whether a message has come so often that its handler must be taken to die of it."""
    return deliveries > DELIVERIES


async def give_up(parts: Assembly, lane: Lane, body: Mapping[str, Json]) -> bool:
    """Turns a wake that killed its worker into a failure of its token. False: nothing can take its place."""
    message = from_json(body)
    if lane is not Lane.WORK or not isinstance(message, Wake):
        return False
    await parts.ports.queue.send(Lane.RESUME, to_json(DeadLetter(message)))
    return True
