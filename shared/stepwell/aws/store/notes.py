"""Definitions, and notes by kind and name. A kind is a partition, because there are few of each."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from stepwell.aws.store import keys
from stepwell.aws.store.items import text
from stepwell.aws.store.table import OnTable

_NEW = "attribute_not_exists(pk)"


class Notes(OnTable):
    """The Notes port."""

    async def put_definition(self, version: str, body: str) -> None:
        """Read first: every cold start asks, and a refused put of a large item costs as much as a put."""
        where = keys.definition_key(version)
        if self._table.get(where, keys.PARTITION) is None:
            self._table.put_new({**where, **await self._table.pack("body", body)})

    async def get_definition(self, version: str) -> str | None:
        item = self._table.get(keys.definition_key(version))
        return None if item is None else await self._table.unpack("body", item)

    async def put_note(self, kind: str, name: str, body: str, before: str | None, *, replaces: bool = False) -> bool:
        item = {**keys.note_key(kind, name), "name": text(name), "body": text(body)}
        if before is None:
            there = self._table.put_new(item, _NEW)
        else:
            bound = {":before": text(before)}
            condition = "body = :before" if replaces else f"{_NEW} OR body = :before"
            there = self._table.put_new(item, condition, ExpressionAttributeValues=bound)
        return there is None or there == item

    async def get_note(self, kind: str, name: str) -> str | None:
        item = self._table.get(keys.note_key(kind, name))
        return None if item is None else str(item["body"]["S"])

    async def notes(self, kind: str, limit: int | None = None) -> Mapping[str, str]:
        asked = {} if limit is None else {"Limit": limit}
        items = islice(self._table.query("pk = :pk", {":pk": keys.notes_partition(kind)}, **asked), limit)
        return dict(sorted((str(item["name"]["S"]), str(item["body"]["S"])) for item in items))

    async def drop_note(self, kind: str, name: str, before: str | None = None, *, once: bool = False) -> bool:
        if before is not None:
            condition = "body = :before" if once else f"{_NEW} OR body = :before"
            return self._table.delete_if(keys.note_key(kind, name), condition, {":before": text(before)})
        where = keys.note_key(kind, name)
        return self._table.get(where, keys.PARTITION) is not None and self._table.delete_there(where)
