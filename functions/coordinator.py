"""The coordinator handler: the resume queue (events, timers, firings) and the work queues' dead-letter queues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stepwell.aws.batches import Delivery, batch_of
from stepwell.aws.entry import Context, TimeLeft, open_door
from stepwell.aws.observing import ids_of
from stepwell.runtime.dispatch import coordinate
from stepwell.runtime.driving import run_now
from stepwell.runtime.messages import DeadLetter, Wake, from_json
from stepwell.runtime.ports import Lane

door = open_door(Path(__file__).parent.parent)


@door.observing.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    batch = batch_of(event)
    batch.each(_take, TimeLeft(context).left_ms)
    door.observing.count("FailedDeliveries", len(batch.failed))
    return batch.answer()


def _take(delivery: Delivery) -> None:
    message = from_json(delivery.message())
    with door.observing.about(**ids_of(message)):
        if isinstance(message, Wake) and delivery.queue_arn != door.deployment.resume.arn:
            door.observing.count("DeadLetters")
            run_now(door.parts.coordinator.handle(DeadLetter(message)))
            return
        with door.putting_off(Lane.RESUME, delivery):
            run_now(coordinate(door.parts, message))
    counts = door.parts.triggers.counts
    while counts:
        door.observing.count(*counts.popitem())
