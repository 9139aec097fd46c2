"""The queue of letters to the endpoints of webhooks, and the one where those lie that no endpoint took.

A letter that is to be tried again later is sent anew, with a delay. Kept invisible, it would count among the 120,000
messages that SQS has in flight for one queue, and an endpoint that is down would shut out all others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from stepwell.aws.calls import Retry
from stepwell.aws.protocols import SqsClient
from stepwell.aws.sqs_queue import BATCH_ENTRIES, DELAY_SECONDS
from stepwell.limits import SECOND_MS
from stepwell.runtime.notify.endpoints import Endpoint, Letter, letter_json
from stepwell.runtime.ports import Clock
from stepwell.runtime.stores.jsontext import encode


class LetterQueue:
    """A queue of letters. Those of one endpoint are a group: while it is slow, SQS hands out the others first."""

    def __init__(self, url: str, client: Callable[[], SqsClient], clock: Clock, retry: Retry | None = None) -> None:
        self._url, self._client, self._clock, self._retry = url, client, clock, retry or Retry()

    def post(self, letter: Letter) -> None:
        """To come at its time, or in 15 minutes, whichever is sooner. Raises PortError."""
        self._retry.call("SendMessage", lambda: self._client().send_message(
            QueueUrl=self._url, **self._entry(letter)))  # fmt: skip

    def post_all(self, letters: Sequence[Letter]) -> None:
        """At most ten. Raises PortError when some of them may not have been taken."""
        entries = [{"Id": str(number), **self._entry(letter)} for number, letter in enumerate(letters)]
        self._retry.until_all("SendMessageBatch", self._send, entries)

    def _send(self, entries: Sequence[dict[str, object]]) -> tuple[None, Sequence[dict[str, object]]]:
        answer = self._retry.call("SendMessageBatch", partial(
            self._client().send_message_batch, QueueUrl=self._url, Entries=entries))  # fmt: skip
        failed = {one["Id"] for one in answer.get("Failed", ())}
        return None, [entry for entry in entries if entry["Id"] in failed]

    def _entry(self, letter: Letter) -> dict[str, object]:
        seconds = max(-(-(letter.at_ms - self._clock.now_ms()) // SECOND_MS), 0)
        return {
            "MessageBody": encode(letter_json(letter)),
            "DelaySeconds": min(seconds, DELAY_SECONDS),
            "MessageGroupId": letter.endpoint,
        }


@dataclass(frozen=True, slots=True)
class Outgoing:
    """The endpoints of a deployment, and the queue of what they are to be sent."""

    endpoints: Collection[Endpoint]
    queue: LetterQueue


def tens(letters: Sequence[tuple[int, Letter]]) -> Iterator[Sequence[tuple[int, Letter]]]:
    """As many as one request takes: by their number, because ten of the largest are less than its size."""
    for at in range(0, len(letters), BATCH_ENTRIES):
        yield letters[at : at + BATCH_ENTRIES]
