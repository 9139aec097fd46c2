"""The messages of an SQS event, one after the other: what failed is told by its id, and no other suffers for it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from stepwell.definition.graph import Json
from stepwell.errors import EngineFault, PortError
from stepwell.runtime.stores.jsontext import decode

_logger = logging.getLogger("stepwell.queues")


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery of a message. `count`: which one it is, from 1; the last few tell that its handler dies of it."""

    id: str
    receipt: str = field(repr=False)
    count: int
    queue_arn: str
    body: str = field(repr=False)

    def message(self) -> Mapping[str, Json]:
        """Raises EngineFault `broken_message` for what is no JSON object. Its content is not told: it may be secret."""
        try:
            found = decode(self.body)
        except ValueError:
            raise EngineFault("a message that is not JSON", code="broken_message") from None
        if not isinstance(found, dict):
            raise EngineFault("a message that is no JSON object", code="broken_message")
        return found


@dataclass(slots=True)
class Batch:
    """The deliveries of one event, and those of them that failed."""

    deliveries: tuple[Delivery, ...]
    failed: list[Delivery] = field(default_factory=list)

    def each(self, take: Callable[[Delivery], None], left_ms: Callable[[], int]) -> None:
        """Whatever a delivery's handler raises is logged; the others of the batch are handled all the same.

        `left_ms`: how long the invocation may go on. What there is no time for comes again.
        """
        for delivery in self.deliveries:
            try:
                if left_ms() <= 0:
                    raise PortError("this invocation has no time left")
                take(delivery)
            except Exception:  # the outermost: the message comes again, or goes to the dead letters
                _logger.exception("delivery %d of message %s failed", delivery.count, delivery.id)
                self.failed.append(delivery)

    def answer(self) -> dict[str, Json]:
        """What Lambda is told: the messages to keep. It deletes the others."""
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
