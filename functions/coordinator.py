"""The coordinator handler: the resume queue (events, timers, firings) and the work queues' dead-letter queues."""

from __future__ import annotations

from typing import Any

from stepwell.aws.batches import Delivery, batch_of
from stepwell.aws.entry import Context, TimeLeft, open_door
from stepwell.aws.observing import ids_of
from stepwell.aws.packed import package_root
from stepwell.runtime.dispatch import bury, dispatch
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Lane

door = open_door(package_root())


@door.observing.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    batch = batch_of(event)
    batch.each(_take, TimeLeft(context).left_ms)
    door.observing.count("FailedDeliveries", len(batch.failed))
    return batch.answer()


def _take(delivery: Delivery) -> None:
    body = delivery.message()
    with door.observing.about(**ids_of(body)):
        if delivery.queue_arn != door.deployment.resume.arn and run_now(bury(door.parts, body)):
            door.observing.count("DeadLetters")
            return
        with door.putting_off(Lane.RESUME, delivery):
            run_now(dispatch(door.parts, Lane.RESUME, body, Unlimited()))
    counts = door.parts.triggers.counts
    while counts:
        door.observing.count(*counts.popitem())
