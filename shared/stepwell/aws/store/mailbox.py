"""The mailbox: events and waits meet in one partition per topic.

An event's key is its id, so one conditional put detects a duplicate, and one strongly consistent query returns the
pending events. A consumed event stays, marked, until it expires, so the query reads it too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from stepwell import limits
from stepwell.aws.protocols import Item
from stepwell.aws.store import keys
from stepwell.aws.store.items import EXPIRES, event_item, event_of, text, ttl, waiter_item, waiter_key, waiter_of
from stepwell.aws.store.table import OnTable, Table, numbers
from stepwell.engine.records import Topic
from stepwell.engine.waits import branch_of, branch_topic, run_topic
from stepwell.runtime.ports import Event, Waiter
from stepwell.runtime.stores.answers import if_readable, too_many_pending
from stepwell.runtime.stores.blobs import for_time
from stepwell.runtime.stores.jsontext import encode

_EVENTS = "pk = :pk AND begins_with(sk, :kind)"
_NEW = "attribute_not_exists(pk)"
_EVENTS_AFTER = "pk = :pk AND sk BETWEEN :after AND :end"
_PENDING = "attribute_not_exists(consumed_by) AND expires_ms > :now_ms"
_TOPICS_REMEMBERED = 1_000
_TAKER, _BLOB = "consumed_by", "payload_blob"
_SALT_BYTES, _BLANKS = 16, " \t\r\n"


class Mailbox(OnTable):
    """The Mailbox port. Events are consumed at most once, in the transaction that appends `resumed`."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._room: dict[Topic, int] = {}

    async def put_event(self, event: Event, most: int = limits.EVENT_PENDING) -> bool:
        """Stores an event. It counts pending events again only after using up the last counted room."""
        owner = for_time(event.expires_ms - event.at_ms)
        packed = await self._table.pack("payload", encode(event.payload), owner, salt=_salt_of(event))
        item = {**event_item(event), **packed}
        room = self._room.pop(event.topic, 0) or most - self._count_pending(event.topic, event.at_ms)
        if room <= 0:
            if self._table.get(keys.event_key(event.topic, event.id), keys.PARTITION) is not None:
                return False
            raise too_many_pending(event.topic, most)
        is_new = self._table.put_new(item) is None
        if len(self._room) >= _TOPICS_REMEMBERED:
            self._room.clear()
        self._room[event.topic] = room - 1 if is_new else room
        return is_new

    def _count_pending(self, topic: Topic, now_ms: int) -> int:
        return self._table.count(
            _EVENTS,
            {":pk": keys.box_partition(topic), ":kind": "E#"},
            FilterExpression=_PENDING,
            numbers=numbers(now_ms=now_ms),
        )

    async def get_event(self, topic: Topic, event_id: str) -> Event | None:
        item = self._table.get(keys.event_key(topic, event_id))
        return None if item is None else event_of(topic, item, await self._table.unpack("payload", item))

    async def pending_events(self, topic: Topic, now_ms: int, after: str = "") -> Sequence[Event]:
        items = self._table.query(
            _EVENTS_AFTER if after else _EVENTS,
            {":pk": keys.box_partition(topic), **(keys.events_after(after) if after else {":kind": "E#"})},
            FilterExpression=_PENDING,
            numbers=numbers(now_ms=now_ms),
        )
        events: list[Event] = []
        for item in items:
            with if_readable(topic, item["id"]["S"]):
                events.append(event_of(topic, item, await self._table.unpack("payload", item)))
        return sorted(events, key=lambda event: (event.at_ms, event.id))

    async def put_waiter(self, waiter: Waiter) -> None:
        self._table.put_new({**waiter_item(waiter), **self._table.until()})

    async def waiters(self, topic: Topic) -> Sequence[Waiter]:
        items = self._table.query(_EVENTS, {":pk": keys.box_partition(topic), ":kind": "W#"})
        waiters = [waiter_of(topic, item) for item in items]
        return sorted(waiters, key=lambda one: (one.since_ms, one.run_id, one.token, one.slot, one.arm))

    async def count_waiters(self, topic: Topic, most: int) -> int:
        return self._table.count(_EVENTS, {":pk": keys.box_partition(topic), ":kind": "W#"}, most)

    async def forget_waiter(self, waiter: Waiter) -> None:
        self._table.delete(waiter_key(waiter))

    async def note_topic(self, event: Event, run_id: str) -> None:
        item = keys.key(keys.run_partition(run_id), keys.sent_sort(event.topic.name, branch_of(event.topic)))
        self._table.put_new({**item, EXPIRES: ttl(event.expires_ms)}, f"{_NEW} OR {EXPIRES} < :expires",
                            ExpressionAttributeValues={":expires": ttl(event.expires_ms)})  # fmt: skip

    async def topics_to(self, run_id: str) -> Sequence[Topic]:
        found = self._table.query(_EVENTS, {":pk": keys.run_partition(run_id), ":kind": keys.SENT})
        sent = (keys.unsent(item[keys.SORT]["S"]) for item in found)
        return [branch_topic(name, run_id, branch) if branch else run_topic(name, run_id) for name, branch in sent]

    async def erase_topic(self, topic: Topic) -> None:
        for item in list(self._table.query("pk = :pk", {":pk": keys.box_partition(topic)})):
            await self._drop(item)

    async def erase_event(self, topic: Topic, event_id: str, run_id: str = "") -> None:
        item = self._table.get(keys.event_key(topic, event_id), keys.PARTITION, keys.SORT, _TAKER, _BLOB)
        if item is not None and (not run_id or item.get(_TAKER, text(""))["S"].startswith(f"{run_id}|")):
            await self._drop(item)

    async def _drop(self, item: Item) -> None:
        """Deletes an event or a wait; first its blob, which no other event has (see `_salt_of`)."""
        if _BLOB in item:
            await self._table.drop_blob(item[_BLOB]["S"])
        self._table.delete({name: item[name] for name in (keys.PARTITION, keys.SORT)})


def _salt_of(event: Event) -> str:
    """Blanks after the payload, which JSON ignores: as a blob, no other event shares it, so it goes with its event."""
    digest = hashlib.sha256(f"{event.topic}|{event.id}".encode(errors="surrogatepass")).digest()[:_SALT_BYTES]
    return "".join(_BLANKS[byte >> shift & 3] for byte in digest for shift in (0, 2, 4, 6))
