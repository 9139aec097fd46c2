"""Handles the messages of an SQS event one by one, and reports failures by id without affecting the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import field

from stepwell.definition.graph import Json
from stepwell.errors import EngineFault, PortError
from stepwell.runtime.stores.jsontext import decode
from stepwell.values import dataclass

_logger = logging.getLogger("stepwell.queues")


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery of a message. `count` is its number from 1; a high number means that its handler dies."""

    id: str
    receipt: str = field(repr=False)
    count: int
    queue_arn: str
    body: str = field(repr=False)

    def message(self) -> Mapping[str, Json]:
        """Parses the body. Raises EngineFault `broken_message`, without the content, if it is not a JSON object."""
        try:
            found = decode(self.body)
        except ValueError:
            raise EngineFault("a message that is not JSON", code="broken_message") from None
        if not isinstance(found, dict):
            raise EngineFault("a message that is not a JSON object", code="broken_message")
        return found


@dataclass(slots=True)
class Batch:
    """The deliveries of one event, and the failed ones."""

    deliveries: tuple[Delivery, ...]
    failed: list[Delivery] = field(default_factory=list)

    def each(self, take: Callable[[Delivery], None], left_ms: Callable[[], int]) -> None:
        """Handles all deliveries; an exception is logged and does not stop the others.

        `left_ms` is the remaining time of the invocation. Deliveries beyond it are delivered again.
        """
        for delivery in self.deliveries:
            try:
                if left_ms() <= 0:
                    raise PortError("this invocation has no time left")
                take(delivery)
            except Exception:  # the last resort: SQS delivers the message again, or to the dead-letter queue
                _logger.exception("delivery %d of message %s failed", delivery.count, delivery.id)
                self.failed.append(delivery)

    def answer(self) -> dict[str, Json]:
        """Returns the failed messages for Lambda, which deletes the others."""
        return {"batchItemFailures": [{"itemIdentifier": delivery.id} for delivery in self.failed]}


def batch_of(event: Mapping[str, Json]) -> Batch:
    return Batch(tuple(_delivery(record) for record in event["Records"]))


def _delivery(record: Mapping[str, Json]) -> Delivery:
    return Delivery(
        record["messageId"],
        record["receiptHandle"],
        int(record["attributes"]["ApproximateReceiveCount"]),
        record["eventSourceARN"],
        record["body"],
    )
