"""The dead-letter queue: the sweeper publishes the resume queue's messages again, a person sends back what remains.

resume ──5 tries──▶ dead ──sweeper──▶ resume, later each time, a bounded number of times; what remains is for a person
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from stepwell.aws.batches import Batch, Delivery
from stepwell.aws.calls import Retry
from stepwell.aws.protocols import SqsClient
from stepwell.aws.sqs_queue import BATCH_ENTRIES
from stepwell.definition.graph import Json
from stepwell.errors import EngineFault, NewerFormat, UserError
from stepwell.runtime.calls.dead import Letter, sent_back
from stepwell.runtime.ports import Queue
from stepwell.runtime.stores.jsontext import decode

if TYPE_CHECKING:
    from stepwell.aws.wiring import Deployed  # which imports this module

LOOK_SECONDS = 30  # while a person looks; they are visible again at once after that
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


class AwsDeadQueue:
    """The DeadQueue port on SQS, which shows a message only to who receives it."""

    def __init__(self, url: str, client: Callable[[], SqsClient], queue: Queue, retry: Retry | None = None) -> None:
        """`queue`: where messages are sent back to."""
        self._url, self._client, self._queue, self._retry = url, client, queue, retry or Retry()

    async def letters(self, limit: int) -> Sequence[Letter]:
        found = self._receive(limit)
        self._show_again(found.values())
        return [_letter(one) for one in list(found.values())[:limit]]

    async def send_back(self, ids: frozenset[str] | None) -> Sequence[str]:
        found = self._receive(None)
        sent: list[str] = []
        try:
            for name in [name for name in found if ids is None or name in ids]:
                if await self._send_back(found[name]):
                    del found[name]
                    sent.append(name)
        finally:
            self._show_again(found.values())
        return sent

    async def _send_back(self, message: Mapping[str, Any]) -> bool:
        try:
            lane, body = sent_back(_letter(message).body or {})
        except (EngineFault, NewerFormat):
            return False
        await self._queue.send(lane, body)
        place = {"QueueUrl": self._url, "ReceiptHandle": message["ReceiptHandle"]}
        self._retry.call("DeleteMessage", lambda: self._client().delete_message(**place))
        return True

    def _receive(self, limit: int | None) -> dict[str, Any]:
        """Messages by id, hidden from others for a while."""
        found: dict[str, Any] = {}
        while limit is None or len(found) < limit:
            answer = self._retry.call("ReceiveMessage", lambda: self._client().receive_message(
                QueueUrl=self._url, MaxNumberOfMessages=BATCH_ENTRIES, VisibilityTimeout=LOOK_SECONDS,
                WaitTimeSeconds=0, MessageSystemAttributeNames=["All"]))  # fmt: skip
            page = {one["MessageId"]: one for one in answer.get("Messages", ())}
            if not page.keys() - found.keys():
                return found
            found |= page
        return found

    def _show_again(self, messages: Iterable[Mapping[str, Any]]) -> None:
        for message in messages:
            place = {"QueueUrl": self._url, "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 0}
            self._retry.call("ChangeMessageVisibility", partial(self._client().change_message_visibility, **place))


def _letter(message: Mapping[str, Any]) -> Letter:
    attributes = message.get("Attributes", {})
    source = str(attributes.get("DeadLetterQueueSourceArn", "")).rpartition(":")[2]
    sent_ms, count = int(attributes.get("SentTimestamp", 0)), int(attributes.get("ApproximateReceiveCount", 1))
    return Letter(message["MessageId"], source, _body(message["Body"]), sent_ms, count)


def _body(text: str) -> Mapping[str, Json] | None:
    try:
        found = decode(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def open_dead_letters(aws: Deployed) -> DeadLetters:
    """Raises UserError if the environment does not name the queue."""
    if not aws.deployment.dead_queue:
        raise UserError("STEPWELL_DEAD_QUEUE is not set", code="bad_setting", hint="the stack sets it: deploy again")
    return DeadLetters(aws.deployment.dead_queue, aws.clients.sqs)
