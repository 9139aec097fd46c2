"""Logs, snapshots, joins and definitions: the parts of the store that are written once or only grow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from stepwell.aws import keys
from stepwell.aws.calls import Refused
from stepwell.aws.items import EXPIRES, number
from stepwell.aws.protocols import Item
from stepwell.aws.table import OnTable, numbers
from stepwell.errors import EngineFault
from stepwell.runtime.ports import Loaded, Saved

_PAGE_RECORDS = 1_000  # read at once if a limit is given
_LAST_SLOT = 10**10 - 1
_REPORT = (
    "@"  # attributes of a wide fork's root join, `@7` for page 7; short, so that a hundred fit into one write unit
)


class Logs(OnTable):
    """The log, with one conditional put per record; a refusal has the record that won."""

    async def append(self, run_id: str, token: str, slot: int, body: str) -> str | None:
        there = self._table.put_new(await self._record(run_id, token, slot, body))
        return None if there is None else await self._table.unpack("body", there)

    async def _record(self, run_id: str, token: str, slot: int, body: str) -> Item:
        packed = await self._table.pack("body", body)
        return {**keys.record_key(run_id, token, slot), **packed, **self._table.until()}

    async def load(self, run_id: str, token: str) -> Loaded:
        # Two reads need no transaction, because a log only grows: the records continue from the snapshot read first.
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
        """Returns the body of a record's item from the table's stream."""
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

    async def report(self, run_id: str, join: str, page: int, value: int) -> Mapping[int, int]:
        names = {"#page": f"{_REPORT}{page}", "#expires": EXPIRES}
        try:
            item = self._table.update(
                keys.join_key(run_id, join),
                UpdateExpression="SET #page = :value, #expires = if_not_exists(#expires, :expires)",
                ConditionExpression="attribute_not_exists(#page) OR #page < :value",
                ExpressionAttributeNames=names,
                ExpressionAttributeValues={**numbers(value=value), ":expires": self._table.until()[EXPIRES]},
            )
        except Refused as refused:  # it already has this value or a greater one
            item = refused.item or {}
        return {int(name[len(_REPORT) :]): int(one["N"]) for name, one in item.items() if name.startswith(_REPORT)}

    async def read_logs(self, run_id: str, tokens: Sequence[str]) -> Mapping[str, Sequence[Saved]]:
        """Reads a page with one query of its partition."""
        if not tokens:
            return {}
        partitions = {keys.token_partition(run_id, token) for token in tokens}
        if len(partitions) != 1:
            raise EngineFault(f"{tokens[0]} … {tokens[-1]} do not share a page")
        wanted = {keys.part(token): token for token in tokens}
        found: dict[str, list[Saved]] = {}
        for item in self._table.query("pk = :pk AND begins_with(sk, :log)", {":pk": partitions.pop(), ":log": "LOG#"}):
            sort = item["sk"]["S"]
            token = wanted.get(keys.token_of(sort))
            if token is not None:
                found.setdefault(token, []).append(Saved(keys.slot_of(sort), await self._table.unpack("body", item)))
        return found

    async def put_definition(self, version: str, body: str) -> None:
        """Stores a definition after reading it, because a refused put of a large item costs as much as a put."""
        where = keys.definition_key(version)
        if self._table.get(where, keys.PARTITION) is None:
            self._table.put_new({**where, **await self._table.pack("body", body)})

    async def get_definition(self, version: str) -> str | None:
        item = self._table.get(keys.definition_key(version))
        return None if item is None else await self._table.unpack("body", item)

    def erase(self, run_id: str) -> int:
        """Deletes an ended run's items after its header is gone. Returns their number.

        It costs one write unit per kilobyte. Call it when TTL has removed the header, after `erase_fork` for its forks.
        """
        return self._erase(keys.run_partition(run_id))

    def erase_fork(self, run_id: str, fork: str, page_count: int) -> int:
        """Deletes the branches and joins of a fork. Returns the number of items."""
        self._table.delete(keys.join_key(run_id, fork))
        return sum(self._erase(keys.page_partition(run_id, fork, page)) for page in range(page_count))

    def _erase(self, partition: str) -> int:
        names = {"#pk": keys.PARTITION, "#sk": keys.SORT}
        left = self._table.query(
            "pk = :pk", {":pk": partition}, ProjectionExpression="#pk, #sk", ExpressionAttributeNames=names
        )
        return self._table.delete_many(left)
