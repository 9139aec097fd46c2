"""Logs, snapshots, joins and definitions: the parts of the store that are written once, or only grow."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from stepwell.aws import keys
from stepwell.aws.items import EXPIRES, number
from stepwell.aws.protocols import Item
from stepwell.aws.table import OnTable, numbers
from stepwell.runtime.ports import Loaded, Saved

_PAGE_RECORDS = 1_000  # asked for at once where a limit is given
_LAST_SLOT = 10**10 - 1


class Logs(OnTable):
    """One conditional put per record; the refusal carries the record that won."""

    async def append(self, run_id: str, token: str, slot: int, body: str) -> str | None:
        there = self._table.put_new(await self._record(run_id, token, slot, body))
        return None if there is None else await self._table.unpack("body", there)

    async def _record(self, run_id: str, token: str, slot: int, body: str) -> Item:
        packed = await self._table.pack("body", body)
        return {**keys.record_key(run_id, token, slot), **packed, **self._table.until()}

    async def load(self, run_id: str, token: str) -> Loaded:
        # Two reads need no transaction: a log only grows, so the records always go on from the snapshot read first.
        found = self._table.get(keys.snapshot_key(run_id, token))
        snapshot = None
        if found is not None:
            snapshot = Saved(int(found["slot"]["N"]), await self._table.unpack("body", found))
        return Loaded(snapshot, await self.read_log(run_id, token, snapshot.slot if snapshot else -1))

    async def read_log(self, run_id: str, token: str, after: int = -1, limit: int | None = None) -> Sequence[Saved]:
        if (limit is not None and limit <= 0) or after >= _LAST_SLOT:
            return []
        items = self._table.query(
            "pk = :pk AND sk BETWEEN :first AND :last",
            {
                ":pk": keys.token_partition(run_id, token),
                ":first": keys.log_sort(token, after + 1),
                ":last": keys.log_sort(token, _LAST_SLOT),
            },
            **({} if limit is None else {"Limit": min(limit, _PAGE_RECORDS)}),
        )
        return [
            Saved(keys.slot_of(item["sk"]["S"]), await self._table.unpack("body", item))
            for item in islice(items, limit)
        ]

    async def body_of(self, item: Item) -> str:
        """The body of a record's item, as the table's stream has it."""
        return await self._table.unpack("body", item)

    async def save_snapshot(self, run_id: str, token: str, slot: int, body: str) -> None:
        packed = await self._table.pack("body", body)
        item = {**keys.snapshot_key(run_id, token), "slot": number(slot), **packed, **self._table.until()}
        self._table.put_new(
            item,
            "attribute_not_exists(pk) OR #slot < :slot",
            ExpressionAttributeNames={"#slot": "slot"},
            ExpressionAttributeValues=numbers(slot=slot),
        )

    async def arrive(self, run_id: str, join: str, member: str) -> frozenset[str]:
        joined = self._table.update(
            keys.join_key(run_id, join),
            UpdateExpression="ADD #members :member SET #expires = if_not_exists(#expires, :expires)",
            ExpressionAttributeNames={"#members": "members", "#expires": EXPIRES},
            ExpressionAttributeValues={":member": {"SS": [member]}, ":expires": self._table.until()[EXPIRES]},
        )
        return frozenset(joined["members"]["SS"])

    async def put_definition(self, version: str, body: str) -> None:
        """Read first: every cold start asks, and a refused put of a large item costs as much as a put."""
        where = keys.definition_key(version)
        if self._table.get(where, keys.PARTITION) is None:
            self._table.put_new({**where, **await self._table.pack("body", body)})

    async def get_definition(self, version: str) -> str | None:
        item = self._table.get(keys.definition_key(version))
        return None if item is None else await self._table.unpack("body", item)

    def erase(self, run_id: str) -> int:
        """Deletes what an ended run left beside its header, once the header is gone. Returns how many items.

        One write unit for each kilobyte: call it when the header's TTL has removed it, which costs nothing.
        """
        names = {"#pk": keys.PARTITION, "#sk": keys.SORT}
        left = self._table.query(
            "pk = :pk",
            {":pk": keys.run_partition(run_id)},
            ProjectionExpression="#pk, #sk",
            ExpressionAttributeNames=names,
        )
        return self._table.delete_many(left)
