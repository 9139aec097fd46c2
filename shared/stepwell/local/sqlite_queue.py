"""Queue and timers on SQLite, and their receiving side: a message is a row with the time when it is due, `due_ms`.

    send ── due_ms ──▶ receive ── due_ms := end of the lease ──▶ delete
                          ▲              │
                          └── lease over, or released

A timer is a message that is due later; its name is stored separately, so that setting it again changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence

from stepwell.definition.graph import Json
from stepwell.local.database import Database, Row
from stepwell.memory.inbox import ALL_LANES, TIMER_NAME_KEPT_MS, Delivery
from stepwell.runtime.ports import Clock, Lane
from stepwell.runtime.stores.jsontext import decode, encode

SEND = "INSERT INTO messages (lane, due_ms, message) VALUES (?, ?, ?)"
NAME_TIMER = "INSERT INTO timers (name, at_ms) VALUES (?, ?) ON CONFLICT DO NOTHING"
# Of each lane by itself: of several at once, SQLite would sort all that is due.
OLDEST_DUE = """SELECT * FROM (SELECT due_ms, seq, message, deliveries, lane FROM messages
    WHERE lane = ? AND due_ms <= ? ORDER BY due_ms, seq LIMIT 1)"""
LEASE = """UPDATE messages SET due_ms = ?, deliveries = deliveries + 1, receipt = ?
    WHERE seq = ? AND deliveries = ? AND due_ms <= ?"""
DELETE = "DELETE FROM messages WHERE seq = ? AND receipt = ?"
EXTEND = "UPDATE messages SET due_ms = ? WHERE seq = ? AND receipt = ?"
RELEASE = "UPDATE messages SET due_ms = ?, receipt = '' WHERE seq = ? AND receipt = ?"
FORGIVE = "UPDATE messages SET deliveries = max(1, deliveries - 1) WHERE seq = ? AND receipt = ?"
RECLAIM = "UPDATE messages SET due_ms = 0, receipt = '' WHERE receipt <> ''"
NEXT_DUE = "SELECT min(due_ms) AS due_ms FROM messages WHERE lane = ?"
PENDING = "SELECT count(*) FROM messages"
PURGE_NAMES = "DELETE FROM timers WHERE at_ms <= ?"


class SqliteQueue:
    """The Queue and Timers ports and the Inbox on a Database, for any number of threads and processes.

    Only sends are durable, and of those only what no message brings again. A power cut may undo a write of the
    receiving side until the next durable commit; the message is then delivered again.
    """

    def __init__(self, database: Database, clock: Clock, name: str = "") -> None:
        """`name`: tells it from other queues in the same file."""
        self._suffix = f":{name}" if name else ""
        self._db = database
        self._clock = clock
        self._receiving = threading.Lock()  # of the threads of this process; they would all try to lease the oldest

    async def send(self, lane: Lane, message: Mapping[str, Json], at_ms: int = 0) -> None:
        # `at once` counts from now: as 0 it would be older than every timer that is due, and go before it for ever.
        values = (self._name_of(lane), at_ms or self._clock.now_ms(), encode(message))
        self._db.change(SEND, values, lazily=self._db.comes_again)

    async def send_all(self, lane: Lane, messages: Sequence[Mapping[str, Json]]) -> None:
        now_ms = self._clock.now_ms()
        with self._db.transaction(lazily=self._db.comes_again) as execute:
            for message in messages:
                execute(SEND, (self._name_of(lane), now_ms, encode(message)))

    async def set(self, name: str, lane: Lane, message: Mapping[str, Json], at_ms: int) -> None:
        text = encode(message)
        with self._db.transaction(lazily=self._db.comes_again) as execute:
            if execute(NAME_TIMER, (name, at_ms)).rowcount:
                execute(SEND, (self._name_of(lane), at_ms, text))

    def receive(self, lanes: Collection[Lane], now_ms: int, lease_ms: int) -> Delivery | None:
        with self._receiving:
            while True:
                due = [one for lane in lanes for one in (self._name_of(lane), now_ms)]
                found = self._db.rows(of_each(OLDEST_DUE, lanes), due)
                if not found:
                    return None
                delivery = self._lease(min(found), now_ms, lease_ms)
                if delivery is not None:
                    return delivery  # otherwise another process was faster: try again

    def _lease(self, found: Row, now_ms: int, lease_ms: int) -> Delivery | None:
        _, seq, text, deliveries, lane = found
        receipt = f"{seq}.{deliveries + 1}"
        if not self._db.change(LEASE, (now_ms + lease_ms, receipt, seq, deliveries, now_ms), lazily=True):
            return None
        return Delivery(str(seq), Lane(lane.removesuffix(self._suffix)), decode(text), deliveries + 1, receipt)

    def delete(self, delivery: Delivery) -> None:
        self._db.change(DELETE, (int(delivery.id), delivery.receipt), lazily=True)

    def extend(self, delivery: Delivery, now_ms: int, lease_ms: int) -> bool:
        return self._db.change(EXTEND, (now_ms + lease_ms, int(delivery.id), delivery.receipt), lazily=True) == 1

    def release(self, delivery: Delivery, at_ms: int) -> None:
        self._db.change(RELEASE, (at_ms, int(delivery.id), delivery.receipt), lazily=True)

    def forgive(self, delivery: Delivery) -> None:
        self._db.change(FORGIVE, (int(delivery.id), delivery.receipt))

    def next_due_ms(self, lanes: Collection[Lane] = ALL_LANES) -> int | None:
        names = [self._name_of(lane) for lane in lanes]
        times = [time_ms for (time_ms,) in self._db.rows(of_each(NEXT_DUE, lanes), names)]
        return min((time_ms for time_ms in times if time_ms is not None), default=None)

    def pending(self) -> int:
        return int(self._db.rows(PENDING)[0][0])

    def reclaim(self) -> int:
        return self._db.change(RECLAIM, ())

    def purge(self, now_ms: int) -> int:
        return self._db.change(PURGE_NAMES, (now_ms - TIMER_NAME_KEPT_MS,))

    def _name_of(self, lane: Lane) -> str:
        return lane.value + self._suffix


def of_each(sql: str, lanes: Collection[Lane]) -> str:
    """One statement for so many lanes."""
    return " UNION ALL ".join([sql] * len(lanes))
