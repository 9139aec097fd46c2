"""Sends notices to an EventBridge bus, ten per request. A duplicate has the same `id`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from stepwell.aws.calls import BUSY, Retry
from stepwell.aws.protocols import EventsClient
from stepwell.runtime.notify.telling import Notice, notice_json, without_data
from stepwell.runtime.stores.jsontext import encode
from stepwell.values import dataclass

SOURCE = "stepwell"
BATCH_EVENTS = 10
# The limit of one request, and so of one event: EventBridge's 256 KiB, less its own envelope.
REQUEST_BYTES = 250_000

_logger = logging.getLogger("stepwell.stream")


@dataclass(frozen=True, slots=True)
class Ready:
    """A notice ready to send. `position` is the position of its change."""

    position: int
    event: Mapping[str, Any]

    @property
    def size_bytes(self) -> int:
        """The size as EventBridge counts it, with 14 for the time."""
        texts = ("Source", "DetailType", "Detail")
        return 14 + sum(len(self.event[name].encode()) for name in texts)


# Successes within a run: the most frequent events, each of which costs as much as a write.
ROUTINE = frozenset({"step.completed", "action.completed", "branch.completed", "branch.cancelled"})


class Bus:
    """The bus of a deployment. `events` selects what it gets: all, runs (all but ROUTINE), none."""

    def __init__(
        self, name: str, client: Callable[[], EventsClient], retry: Retry | None = None, events: str = "all"
    ) -> None:
        self._name, self._client, self._retry, self._events = name, client, retry or Retry(), events

    def wants(self, notice: Notice) -> bool:
        return self._events == "all" or (self._events == "runs" and notice.entry.type not in ROUTINE)

    def ready(self, position: int, notice: Notice) -> Ready:
        """Prepares a notice, without its data if it would be too large."""
        made = self._event(position, notice)
        return made if made.size_bytes <= REQUEST_BYTES else self._event(position, without_data(notice))

    def put(self, batch: Iterable[Ready]) -> None:
        """Sends a batch and retries refused entries. Raises PortError if some were not accepted.

        An event that EventBridge can never accept is logged and skipped.
        """
        self._retry.until_all("PutEvents", self._send, [one.event for one in batch])

    def _send(self, events: list[Mapping[str, Any]]) -> tuple[None, list[Mapping[str, Any]]]:
        answer = self._retry.call("PutEvents", lambda: self._client().put_events(Entries=events))
        again = []
        for event, result in zip(events, answer["Entries"], strict=True):
            code = result.get("ErrorCode")
            if code in BUSY or (code or "").startswith("Internal"):
                again.append(event)
            elif code:
                _logger.error("an event %s was refused: %s %s", event["DetailType"], code, result.get("ErrorMessage"))
        return None, again

    def _event(self, position: int, notice: Notice) -> Ready:
        event = {
            "EventBusName": self._name,
            "Source": SOURCE,
            "DetailType": notice.entry.type,
            "Time": datetime.fromtimestamp(notice.entry.at_ms / 1_000, UTC),
            "Detail": encode(notice_json(notice)),
        }
        return Ready(position, event)


def batches(events: Iterable[Ready]) -> Iterator[list[Ready]]:
    """Splits entries into requests."""
    batch: list[Ready] = []
    size_bytes = 0
    for event in events:
        more = event.size_bytes
        if batch and (len(batch) == BATCH_EVENTS or size_bytes + more > REQUEST_BYTES):
            yield batch
            batch, size_bytes = [], 0
        batch.append(event)
        size_bytes += more
    if batch:
        yield batch
