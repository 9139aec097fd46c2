"""The dead-letter queue: the sweeper publishes the resume queue's messages again, a person sends back what remains.

resume ──5 tries──▶ dead ──sweeper──▶ resume, later each time, a bounded number of times; what remains is for a person
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from stepwell.aws.batches import Batch, Delivery
from stepwell.aws.calls import Retry
from stepwell.aws.failures import code_of
from stepwell.aws.protocols import SqsClient
from stepwell.aws.sqs_queue import BATCH_ENTRIES
from stepwell.definition.graph import Json
from stepwell.errors import EngineFault, InvalidInput, NewerFormat, PortError, UserError
from stepwell.limits import DELIVERIES
from stepwell.runtime.calls.dead import Letter, sent_back
from stepwell.runtime.ports import Queue
from stepwell.runtime.stores.jsontext import decode

if TYPE_CHECKING:
    from stepwell.aws.wiring import Deployed  # which imports this module

_logger = logging.getLogger("stepwell.queues")

Message: TypeAlias = Mapping[str, Any]  # as SQS tells it

LOOK_SECONDS = 30  # while a person looks; they are visible again at once after that
ASKED_SECONDS = 1  # while a person looks: only a receive that waits asks all servers of a queue
TAKEN_AT_ONCE = 500  # by a call for all: each takes two requests, and API Gateway waits for half a minute
HIDDEN_SECONDS = 60  # while a batch is worked on; what stays in the queue is visible again before the next sweep
# What SQS says of a message that is visible again, or was taken by another.
_IN_VIEW = ("MessageNotInflight", "InvalidParameterValue", "ReceiptHandleIsInvalid")


class DeadLetters:
    """Passes the queue's messages to a handler, and deletes those that it takes."""

    def __init__(self, url: str, client: Callable[[], SqsClient]) -> None:
        self._url, self._client, self._retry = url, client, Retry()

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
        return await self._take(ids, self._send_back)

    async def delete(self, ids: frozenset[str]) -> Sequence[str]:
        return await self._take(ids, self._delete)

    async def _take(self, ids: frozenset[str] | None, act: Callable[[Message], Awaitable[bool]]) -> Sequence[str]:
        """Passes these messages, or some hundreds of all, to `act`. Returns the ids of those that it took out."""
        found = self._receive(TAKEN_AT_ONCE) if ids is None else self._receive(None, ids)
        taken: list[str] = []
        try:
            for name in [name for name in found if ids is None or name in ids]:
                if await act(found[name]):
                    del found[name]
                    taken.append(name)
        finally:
            self._show_again(found.values())
        return taken

    async def _send_back(self, message: Message) -> bool:
        try:
            lane, body = sent_back(_letter(message).body or {})
        except (EngineFault, NewerFormat):
            return False
        await self._queue.send(lane, body)
        return await self._delete(message)

    async def _delete(self, message: Message) -> bool:
        place = {"QueueUrl": self._url, "ReceiptHandle": message["ReceiptHandle"]}
        self._retry.call("DeleteMessage", lambda: self._client().delete_message(**place))
        return True

    def _receive(self, limit: int | None, wanted: frozenset[str] = frozenset()) -> dict[str, Any]:
        """Messages by id, hidden from others for a while: up to a limit, or until those that are wanted are there."""
        found: dict[str, Any] = {}
        while len(found) < limit if limit is not None else bool(wanted - found.keys()):
            answer = self._retry.call("ReceiveMessage", lambda: self._client().receive_message(
                QueueUrl=self._url, MaxNumberOfMessages=BATCH_ENTRIES, VisibilityTimeout=LOOK_SECONDS,
                WaitTimeSeconds=ASKED_SECONDS, MessageSystemAttributeNames=["All"]))  # fmt: skip
            page = {one["MessageId"]: one for one in answer.get("Messages", ())}
            if not page.keys() - found.keys():
                return found
            found |= page
        return found

    def _show_again(self, messages: Iterable[Message]) -> None:
        """Makes messages visible now, before they are by themselves."""
        for message in messages:
            place = {"QueueUrl": self._url, "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 0}
            try:
                self._retry.call("ChangeMessageVisibility", partial(self._client().change_message_visibility, **place))
            except (InvalidInput, PortError) as error:
                if not code_of(error.__cause__).endswith(_IN_VIEW):
                    _logger.warning("dead letters stay hidden for up to %d s: %s", LOOK_SECONDS, error)
                    return


def _letter(message: Message) -> Letter:
    """A message from SQS. Its count also has who looked at it here, and the deliveries to its handler are as many
    as its queue allows."""
    attributes = message.get("Attributes", {})
    source = str(attributes.get("DeadLetterQueueSourceArn", "")).rpartition(":")[2]
    deliveries = min(int(attributes.get("ApproximateReceiveCount", 1)), DELIVERIES) if source else 0
    return Letter(
        message["MessageId"], source, _body(message["Body"]), int(attributes.get("SentTimestamp", 0)), deliveries
    )


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
