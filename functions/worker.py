"""The worker handler: advances runs by the wakes of its pool's queue, as far as one invocation allows.

Only workers have user code, so they also answer the API's queries. Several messages are handled one by one.
"""

from __future__ import annotations

from typing import Any

from stepwell.aws.batches import Delivery, batch_of
from stepwell.aws.calling import calls_of
from stepwell.aws.entry import Context, TimeLeft, open_worker
from stepwell.aws.lease import Leases
from stepwell.aws.observing import ids_of
from stepwell.aws.packed import package_root, read_packed
from stepwell.aws.queries import answer, is_query
from stepwell.aws.secrets import links_of
from stepwell.aws.tries import Tries
from stepwell.runtime.dispatch import dispatch_work
from stepwell.runtime.executor import FunctionSteps
from stepwell.runtime.loop.driving import run_apart
from stepwell.runtime.ports import Lane

ROOT = package_root()
folder, *paths = (ROOT / path for path in read_packed(ROOT).get("paths", ["workflows"]))

entry = open_worker(
    ROOT,
    lambda deployment, clients, clock: FunctionSteps(
        folder, clock, calls_of(deployment, clients, clock), links_of(deployment, clients, clock), paths=paths
    ),
)
leases = Leases(entry.deployment.work[entry.deployment.pool].url, entry.aws.clients.sqs)
tries = Tries(entry.parts.ports.notes)


@entry.observing.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    if is_query(event):
        return answer(entry.parts, event)
    batch, time = batch_of(event), TimeLeft(context)
    whole_ms = time.left_ms()
    batch.each(lambda delivery: _take(delivery, context, whole_ms), time.left_ms)
    for delivery in batch.failed:
        leases.release(delivery)
    entry.observing.count("FailedDeliveries", len(batch.failed))
    return batch.answer()


def _take(delivery: Delivery, context: Context, whole_ms: int) -> None:
    message = delivery.message()
    with (
        entry.observing.about(**ids_of(message)),
        entry.putting_off(Lane.WORK, delivery),
        leases.kept(delivery, context.get_remaining_time_in_millis) as lease,
        tries.counted(delivery) as number,
    ):
        budget = TimeLeft(context, lease, deliveries=delivery.count, began_with_ms=whole_ms)
        run_apart(dispatch_work(entry.parts, message, budget, number))
