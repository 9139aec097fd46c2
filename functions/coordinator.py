"""The coordinator handler: the resume queue (events, timers, firings) and the work queues' dead-letter queues."""

from __future__ import annotations

from typing import Any

from stepwell.aws.batches import Delivery, batch_of
from stepwell.aws.entry import Context, TimeLeft, open_entry
from stepwell.aws.observing import ids_of
from stepwell.aws.packed import package_root
from stepwell.aws.tries import Tries
from stepwell.runtime.dispatch import bury, dispatch
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Lane

entry = open_entry(package_root())
tries = Tries(entry.parts.ports.notes)


@entry.observing.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    batch = batch_of(event)
    time = TimeLeft(context)
    batch.each(lambda delivery: _take(delivery, time), time.left_ms)
    entry.observing.count("FailedDeliveries", len(batch.failed))
    return batch.answer()


def _take(delivery: Delivery, time: TimeLeft) -> None:
    body = delivery.message()
    with entry.observing.about(**ids_of(body)):
        if delivery.queue_arn != entry.deployment.resume.arn and run_now(bury(entry.parts, body)):
            tries.forget(delivery)
            entry.observing.count("DeadLetters")
            return
        with entry.putting_off(Lane.RESUME, delivery):
            run_now(dispatch(entry.parts, Lane.RESUME, body, time))
    counts = entry.parts.triggers.counts
    while counts:
        entry.observing.count(*counts.popitem())
