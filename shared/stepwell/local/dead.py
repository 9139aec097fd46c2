"""Dead letters of this machine: messages that failed so often that they come again only once in a while."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.errors import EngineFault, NewerFormat
from stepwell.limits import DELIVERIES
from stepwell.local.database import Database
from stepwell.runtime.calls.dead import Letter, sent_back
from stepwell.runtime.ports import Clock
from stepwell.runtime.stores.jsontext import decode, encode

_LETTERS = "SELECT seq, lane, message, deliveries, due_ms FROM messages WHERE deliveries >= ? ORDER BY seq LIMIT ?"
_SEND_BACK = "UPDATE messages SET due_ms = ?, deliveries = 0, receipt = '', message = ? WHERE seq = ?"
_DELETE = "DELETE FROM messages WHERE seq = ?"
_ALL = -1


class SqliteDeadQueue:
    """The DeadQueue port on the queue's own file: a message is sent back where it lies."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._db, self._clock = database, clock

    async def letters(self, limit: int) -> Sequence[Letter]:
        rows = self._db.rows(_LETTERS, (DELIVERIES, limit))
        return [Letter(str(seq), lane, decode(text), 0, deliveries, due_ms)
                for seq, lane, text, deliveries, due_ms in rows]  # fmt: skip

    async def send_back(self, ids: frozenset[str] | None) -> Sequence[str]:
        sent: list[str] = []
        for one in await self._named(ids):
            try:
                _, body = sent_back(one.body or {})
            except (EngineFault, NewerFormat):
                continue
            self._db.change(_SEND_BACK, (self._clock.now_ms(), encode(body), int(one.id)))
            sent.append(one.id)
        return sent

    async def delete(self, ids: frozenset[str]) -> Sequence[str]:
        found = await self._named(ids)
        for one in found:
            self._db.change(_DELETE, (int(one.id),))
        return [one.id for one in found]

    async def _named(self, ids: frozenset[str] | None) -> Sequence[Letter]:
        return [one for one in await self.letters(_ALL) if ids is None or one.id in ids]
