"""The queues on SQS, with message delays for times up to 15 minutes away."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from stepwell.aws.calls import Retry
from stepwell.aws.protocols import SqsClient
from stepwell.aws.queues import Queues
from stepwell.definition.graph import Json
from stepwell.errors import EngineFault, InvalidInput
from stepwell.limits import SECOND_MS
from stepwell.runtime.ports import Clock, Lane
from stepwell.runtime.stores.jsontext import encode

DELAY_SECONDS = 900  # the maximum of SQS
_STEP_BACK_SECONDS = 60  # of a clock, between two looks at it
MESSAGE_BYTES = 1_048_576
BATCH_ENTRIES = 10


class SqsQueue:
    """The Queue port. A lost answer may duplicate a message, like any redelivery."""

    def __init__(
        self, queues: Queues, client: Callable[[], SqsClient], clock: Clock, retry: Retry | None = None
    ) -> None:
        self._queues, self._client, self._clock, self._retry = queues, client, clock, retry or Retry()

    async def send(self, lane: Lane, message: Mapping[str, Json], at_ms: int = 0) -> None:
        body = encode(message)
        if len(body) * 4 > MESSAGE_BYTES and len(body.encode()) > MESSAGE_BYTES:
            raise InvalidInput(f"a message of more than {MESSAGE_BYTES} bytes", code="message_too_large")
        url = self._queues.of(lane, message).url
        self._retry.call("SendMessage", lambda: self._client().send_message(
            QueueUrl=url, MessageBody=body, DelaySeconds=self._delay_seconds(at_ms)))  # fmt: skip

    async def send_all(self, lane: Lane, messages: Sequence[Mapping[str, Json]]) -> None:
        """Sends in batches of ten, and retries the unsent rest."""
        by_queue: dict[str, list[str]] = {}
        for message in messages:
            by_queue.setdefault(self._queues.of(lane, message).url, []).append(encode(message))
        for url, bodies in by_queue.items():
            for at in range(0, len(bodies), BATCH_ENTRIES):
                entries = [{"Id": str(number), "MessageBody": body}
                           for number, body in enumerate(bodies[at : at + BATCH_ENTRIES])]  # fmt: skip
                self._retry.until_all("SendMessageBatch", partial(self._send_batch, url), entries)

    def _send_batch(self, url: str, entries: Sequence[Mapping[str, str]]) -> tuple[None, Sequence[Mapping[str, str]]]:
        answer = self._retry.call("SendMessageBatch", lambda: self._client().send_message_batch(
            QueueUrl=url, Entries=entries))  # fmt: skip
        failed = {one["Id"] for one in answer.get("Failed", ())}
        return None, [entry for entry in entries if entry["Id"] in failed]

    def _delay_seconds(self, at_ms: int) -> int:
        """Returns whole seconds, rounded up so that no message is early, unless the clock has stepped back since."""
        seconds = max(-(-(at_ms - self._clock.now_ms()) // SECOND_MS), 0)
        if seconds > DELAY_SECONDS + _STEP_BACK_SECONDS:
            raise EngineFault(f"a message {seconds} s away needs a timer, not a queue", code="too_far_for_a_queue")
        return min(seconds, DELAY_SECONDS)
