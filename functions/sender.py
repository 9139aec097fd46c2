"""The sender handler: delivers outgoing webhooks, and alone waits for slow endpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepwell.aws.batches import batch_of
from stepwell.aws.packed import package_root
from stepwell.aws.sending import open_office

if TYPE_CHECKING:
    from stepwell.aws.entry import Context  # imports the whole engine

office = open_office(package_root())


@office.observing.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    batch = batch_of(event)
    batch.each(office.take, context.get_remaining_time_in_millis)
    office.observing.count("FailedDeliveries", len(batch.failed))
    return batch.answer()
