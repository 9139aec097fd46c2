"""Incoming webhook deliveries, kept for a time for the sources that ask for it, so that they can be replayed.

A delivery is kept as an event under a topic that nobody can wait for: its id detects a retry, its body may be a claim
check, there are only so many of them and each expires, all as in any mailbox. A source has a topic for each day, so
that a full day leaves room for the next one. One delivery may have these entries in a day:

     done/ID     it became an event or a run
     not/ID      it was refused, or is none that the source takes; a retry of it may be done
     again-N/ID  its replay number N, as it is listed

Each delivery has another topic that counts its replays.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum

from stepwell.definition.graph import Json
from stepwell.engine.records import Topic
from stepwell.limits import DAY_MS, DELIVERIES_KEPT, DELIVERY_BYTES, DELIVERY_KEPT_MAX_MS
from stepwell.runtime.ports import Event, Ports
from stepwell.runtime.stores.blobs import for_time
from stepwell.values import dataclass

TOPIC = "stepwell.deliveries"  # a reserved name that no caller can send, so no wait is ever offered one


class Outcome(StrEnum):
    """The outcome of a delivery when it arrived."""

    PUBLISHED = "published"
    STARTED = "started"
    IGNORED = "ignored"  # by the source's `match`
    REFUSED = "refused"

    @property
    def done(self) -> bool:
        return self in {Outcome.PUBLISHED, Outcome.STARTED}


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery as it arrived, without its proof of who sent it."""

    source: str
    id: str
    at_ms: int
    outcome: Outcome
    expires_ms: int
    made: str = ""  # the id of the event or of the run
    detail: str = ""  # the event's name or the run's workflow; or why it was refused
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)
    blob: str = ""  # the reference of the body, if it is not here
    size_bytes: int = 0  # of the body
    replay: int = 0  # the number of the replay; 0: the delivery itself


@dataclass(frozen=True, slots=True)
class Listed:
    """A delivery, without its body if that is large, and its replays, oldest first."""

    came: Delivery
    replays: tuple[Delivery, ...] = ()

    @property
    def place(self) -> tuple[int, str]:
        """Returns its sort key in lists."""
        return self.came.at_ms, f"{self.came.source}/{self.came.id}"


class Deliveries:
    """Keeps, lists and finds deliveries."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def keep(self, delivery: Delivery) -> None:
        """Keeps a delivery, once for each id and day. Raises Conflict `too_many_pending` on a day that is full."""
        if len(delivery.body) > DELIVERY_BYTES:
            owner = for_time(delivery.expires_ms - delivery.at_ms)
            delivery = replace(delivery, blob=await self._ports.blobs.put(delivery.body, owner), body=b"")
        topic = day_topic(delivery.source, delivery.at_ms)
        event = Event(topic, _entry_id(delivery), _to_json(delivery), delivery.at_ms, delivery.expires_ms)
        await self._ports.mailbox.put_event(event, DELIVERIES_KEPT)

    async def of_day(self, sources: Sequence[str], day_ms: int) -> list[Listed]:
        """Returns the deliveries of the day that has this time, newest first."""
        now_ms = self._ports.clock.now_ms()
        found: list[Listed] = []
        for source in sources:
            events = await self._ports.mailbox.pending_events(day_topic(source, day_ms), now_ms)
            found.extend(_listed(_from_json(source, event) for event in events))
        return sorted(found, key=lambda one: one.place, reverse=True)

    async def find(self, source: str, delivery_id: str, keep_ms: int = 0) -> Delivery | None:
        """Returns the delivery with its body: the one that became an event or a run; else the newest. None: not found.

        `keep_ms`: how far back to look; 0: as far as any is kept.
        """
        now_ms = self._ports.clock.now_ms()
        last: Event | None = None
        for day_ms in days(now_ms, now_ms - (keep_ms or DELIVERY_KEPT_MAX_MS)):
            topic = day_topic(source, day_ms)
            for kind in ("done", "not"):
                event = await self._ports.mailbox.get_event(topic, f"{kind}/{delivery_id}")
                if event is None or event.expires_ms <= now_ms:
                    continue
                if kind == "done":
                    return await self._whole(_from_json(source, event))
                last = last or event
        return await self._whole(_from_json(source, last)) if last else None

    async def _whole(self, delivery: Delivery) -> Delivery:
        body = await self._ports.blobs.get(delivery.blob) if delivery.blob else delivery.body
        return replace(delivery, body=body, blob="")

    async def replays(self, delivery: Delivery) -> int:
        """Returns how many replays a delivery has had."""
        now_ms = self._ports.clock.now_ms()
        return len(await self._ports.mailbox.pending_events(_replay_topic(delivery), now_ms))

    async def note(self, replay: Delivery) -> None:
        """Counts a replay, and lists it with its delivery, however full that day is."""
        now_ms = self._ports.clock.now_ms()  # it has to outlive its delivery: the same id may arrive once more
        count = Event(_replay_topic(replay), f"{replay.replay:03d}", None, now_ms, now_ms + DELIVERY_KEPT_MAX_MS)
        await self._ports.mailbox.put_event(count)
        topic = day_topic(replay.source, replay.at_ms)
        listed = Event(topic, _entry_id(replay), _to_json(replay), replay.at_ms, replay.expires_ms)
        await self._ports.mailbox.put_event(listed)


def day_topic(source: str, at_ms: int) -> Topic:
    """Returns the topic of a source's deliveries on the day of this time."""
    return Topic(TOPIC, f"!{source}@{at_ms // DAY_MS}")


def days(last_ms: int, first_ms: int) -> Iterator[int]:
    """Yields a time in each day from the last one back to the first."""
    for day in range(last_ms // DAY_MS, max(first_ms, 0) // DAY_MS - 1, -1):
        yield day * DAY_MS


def _replay_topic(delivery: Delivery) -> Topic:
    return Topic(TOPIC, f"!{delivery.source}={delivery.id}")


def _entry_id(delivery: Delivery) -> str:
    kind = f"again-{delivery.replay:03d}" if delivery.replay else "done" if delivery.outcome.done else "not"
    return f"{kind}/{delivery.id}"


def _listed(entries: Iterable[Delivery]) -> Iterator[Listed]:
    """Yields the deliveries of one source and day, each with its replays."""
    by_id: dict[str, list[Delivery]] = defaultdict(list)
    for entry in entries:
        by_id[entry.id].append(entry)
    for together in by_id.values():
        received = [one for one in together if not one.replay]
        if received:
            replays = sorted((one for one in together if one.replay), key=lambda one: one.replay)
            yield Listed(max(received, key=lambda one: one.outcome.done), tuple(replays))


def _to_json(delivery: Delivery) -> Json:
    payload: dict[str, Json] = {
        "id": delivery.id,
        "outcome": delivery.outcome.value,
        "made": delivery.made,
        "detail": delivery.detail,
        "query": delivery.query,
        "headers": dict(delivery.headers),
        "size_bytes": delivery.size_bytes,
        "replay": delivery.replay,
    }
    if delivery.blob:
        return {**payload, "blob": delivery.blob}
    try:
        return {**payload, "body": delivery.body.decode()}
    except UnicodeDecodeError:
        return {**payload, "base64": base64.b64encode(delivery.body).decode()}


def _from_json(source: str, event: Event) -> Delivery:
    payload: Mapping[str, Json] = event.payload
    body = base64.b64decode(payload["base64"]) if "base64" in payload else payload.get("body", "").encode()
    names = ("id", "made", "detail", "query", "headers", "size_bytes", "replay")
    return Delivery(
        source=source,
        at_ms=event.at_ms,
        outcome=Outcome(payload["outcome"]),
        expires_ms=event.expires_ms,
        body=body,
        blob=payload.get("blob", ""),
        **{name: payload[name] for name in names},
    )
