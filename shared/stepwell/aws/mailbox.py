"""The mailbox: events and waits meet in one partition per topic.

An event's key is its id, so one conditional put detects a duplicate, and one strongly consistent query returns the
pending events. A consumed event stays, marked, until it expires, so the query reads it too.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepwell import limits
from stepwell.aws import keys
from stepwell.aws.items import event_item, event_of, waiter_item, waiter_key, waiter_of
from stepwell.aws.table import OnTable, Table, numbers
from stepwell.engine.records import Topic
from stepwell.runtime.ports import Event, Waiter
from stepwell.runtime.stores.answers import too_many_pending
from stepwell.runtime.stores.blobs import for_time
from stepwell.runtime.stores.jsontext import encode

_EVENTS = "pk = :pk AND begins_with(sk, :kind)"
_EVENTS_AFTER = "pk = :pk AND sk BETWEEN :after AND :end"
_PENDING = "attribute_not_exists(consumed_by) AND expires_ms > :now_ms"
_TOPICS_REMEMBERED = 1_000


class Mailbox(OnTable):
    """The Mailbox port. Events are consumed at most once, in the transaction that appends `resumed`."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._room: dict[Topic, int] = {}

    async def put_event(self, event: Event, most: int = limits.EVENT_PENDING) -> bool:
        """Stores an event. It counts pending events again only after using up the last counted room."""
        owner = for_time(event.expires_ms - event.at_ms)
        item = {**event_item(event), **await self._table.pack("payload", encode(event.payload), owner)}
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
        events = [event_of(topic, item, await self._table.unpack("payload", item)) for item in items]
        return sorted(events, key=lambda event: (event.at_ms, event.id))

    async def put_waiter(self, waiter: Waiter) -> None:
        self._table.put_new({**waiter_item(waiter), **self._table.until()})

    async def waiters(self, topic: Topic) -> Sequence[Waiter]:
        items = self._table.query(_EVENTS, {":pk": keys.box_partition(topic), ":kind": "W#"})
        waiters = [waiter_of(topic, item) for item in items]
        return sorted(waiters, key=lambda one: (one.since_ms, one.run_id, one.token, one.slot, one.arm))

    async def forget_waiter(self, waiter: Waiter) -> None:
        self._table.delete(waiter_key(waiter))
