"""Notices to an EventBridge bus, ten in a request. One may come twice: its `id` is the same, so it can be told."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from stepwell.aws.calls import BUSY, Retry
from stepwell.aws.protocols import EventsClient
from stepwell.runtime.notify.telling import Notice, notice_json, without_data
from stepwell.runtime.stores.jsontext import encode

SOURCE = "stepwell"
BATCH_EVENTS = 10
# Of one request, and so of one event. EventBridge takes 256 KiB, and counts an envelope of its own.
REQUEST_BYTES = 250_000

_logger = logging.getLogger("stepwell.stream")


@dataclass(frozen=True, slots=True)
class Ready:
    """A notice as it is sent. `position` is that of the change that it is of."""

    position: int
    event: Mapping[str, Any]

    @property
    def size_bytes(self) -> int:
        """As EventBridge counts: the time is 14."""
        texts = ("Source", "DetailType", "Detail")
        return 14 + sum(len(self.event[name].encode()) for name in texts)


# What went well within a run: most of all events, and each costs as much as a write.
ROUTINE = frozenset({"step.completed", "action.completed", "branch.completed", "branch.cancelled"})


class Bus:
    """The bus of a deployment. `events`: what it is told: all, runs (all but ROUTINE), none."""

    def __init__(
        self, name: str, client: Callable[[], EventsClient], retry: Retry | None = None, events: str = "all"
    ) -> None:
        self._name, self._client, self._retry, self._events = name, client, retry or Retry(), events

    def wants(self, notice: Notice) -> bool:
        return self._events == "all" or (self._events == "runs" and notice.entry.type not in ROUTINE)

    def ready(self, position: int, notice: Notice) -> Ready:
        """The notice, without its data where that would make it too large."""
        made = self._event(position, notice)
        return made if made.size_bytes <= REQUEST_BYTES else self._event(position, without_data(notice))

    def put(self, batch: Iterable[Ready]) -> None:
        """Sends a batch; what was refused for now is sent again. Raises PortError when some of it was not taken.

        An event that EventBridge will never take is logged and left out.
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
    """As many as one request takes."""
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
