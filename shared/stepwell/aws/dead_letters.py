"""The dead-letter queue, of which the sweeper publishes the resume queue's messages again.

resume ──5 tries──▶ dead ──sweeper──▶ resume, later each time, a bounded number of times; what remains is for a person
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from stepwell.aws.batches import Batch, Delivery
from stepwell.aws.calls import Retry
from stepwell.aws.protocols import SqsClient
from stepwell.aws.sqs_queue import BATCH_ENTRIES
from stepwell.aws.wiring import Deployed
from stepwell.errors import UserError

HIDDEN_SECONDS = 60  # while a batch is worked on; what stays in the queue is visible again before the next sweep


class DeadLetters:
    """Passes the queue's messages to a handler, and deletes those that it takes."""

    def __init__(self, url: str, client: Callable[[], SqsClient], retry: Retry | None = None) -> None:
        self._url, self._client, self._retry = url, client, retry or Retry()

    def each(self, take: Callable[[Delivery], bool], left_ms: Callable[[], int]) -> int:
        """Returns the number of messages that were taken. A failure leaves its message in the queue.

        It does not wait: a message that SQS does not find at once is left to the next sweep. Raises PortError.
        """
        taken: list[Delivery] = []
        while left_ms() > 0 and (batch := self._receive()).deliveries:
            batch.each(partial(self._pass, take, taken), left_ms)
        return len(taken)

    def _pass(self, take: Callable[[Delivery], bool], taken: list[Delivery], delivery: Delivery) -> None:
        if not take(delivery):
            return
        taken.append(delivery)
        self._retry.call("DeleteMessage", partial(
            self._client().delete_message, QueueUrl=self._url, ReceiptHandle=delivery.receipt))  # fmt: skip

    def _receive(self) -> Batch:
        answer = self._retry.call("ReceiveMessage", partial(
            self._client().receive_message, QueueUrl=self._url, MaxNumberOfMessages=BATCH_ENTRIES,
            VisibilityTimeout=HIDDEN_SECONDS, WaitTimeSeconds=0))  # fmt: skip
        found = answer.get("Messages", ())
        return Batch(tuple(Delivery(one["MessageId"], one["ReceiptHandle"], 1, "", one["Body"]) for one in found))


def open_dead_letters(aws: Deployed) -> DeadLetters:
    """Raises UserError if the environment does not name the queue."""
    if not aws.deployment.dead_queue:
        raise UserError("STEPWELL_DEAD_QUEUE is not set", code="bad_setting", hint="the stack sets it: deploy again")
    return DeadLetters(aws.deployment.dead_queue, aws.clients.sqs)
