"""The queue of notifications to endpoints, and the dead-letter queue of failed ones.

A retry is a new message with a delay. An invisible message would count among the 120,000 in-flight messages of a queue,
and an endpoint that is down would block all others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

from stepwell.aws.calls import Retry
from stepwell.aws.protocols import SqsClient
from stepwell.aws.sqs_queue import BATCH_ENTRIES, DELAY_SECONDS
from stepwell.limits import SECOND_MS
from stepwell.runtime.notify.endpoints import Endpoint, Notification, notification_json
from stepwell.runtime.ports import Clock
from stepwell.runtime.stores.jsontext import encode
from stepwell.values import dataclass


class NotificationQueue:
    """A queue of deliveries, grouped by endpoint, so that SQS prefers the others while one endpoint is slow."""

    def __init__(self, url: str, client: Callable[[], SqsClient], clock: Clock, retry: Retry | None = None) -> None:
        self._url, self._client, self._clock, self._retry = url, client, clock, retry or Retry()

    def post(self, notification: Notification) -> None:
        """Sends a delivery for its time, or in 15 minutes if sooner. Raises PortError."""
        self._retry.call("SendMessage", lambda: self._client().send_message(
            QueueUrl=self._url, **self._entry(notification)))  # fmt: skip

    def post_all(self, notifications: Sequence[Notification]) -> None:
        """Sends at most ten. Raises PortError if some may not have been accepted."""
        entries = [
            {"Id": str(number), **self._entry(notification)} for number, notification in enumerate(notifications)
        ]
        self._retry.until_all("SendMessageBatch", self._send, entries)

    def _send(self, entries: Sequence[dict[str, object]]) -> tuple[None, Sequence[dict[str, object]]]:
        answer = self._retry.call("SendMessageBatch", partial(
            self._client().send_message_batch, QueueUrl=self._url, Entries=entries))  # fmt: skip
        failed = {one["Id"] for one in answer.get("Failed", ())}
        return None, [entry for entry in entries if entry["Id"] in failed]

    def _entry(self, notification: Notification) -> dict[str, object]:
        seconds = max(-(-(notification.at_ms - self._clock.now_ms()) // SECOND_MS), 0)
        return {
            "MessageBody": encode(notification_json(notification)),
            "DelaySeconds": min(seconds, DELAY_SECONDS),
            "MessageGroupId": notification.endpoint,
        }


@dataclass(frozen=True, slots=True)
class Outgoing:
    """The endpoints of a deployment, and the queue of their deliveries."""

    endpoints: Collection[Endpoint]
    queue: NotificationQueue


def tens(notifications: Sequence[tuple[int, Notification]]) -> Iterator[Sequence[tuple[int, Notification]]]:
    """Splits deliveries into requests of ten, because ten of the largest fit."""
    for at in range(0, len(notifications), BATCH_ENTRIES):
        yield notifications[at : at + BATCH_ENTRIES]
