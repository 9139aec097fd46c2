"""Logs, snapshots, joins and definitions: the parts of the store that are written once or only grow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from stepwell.aws import keys
from stepwell.aws.calls import Refused
from stepwell.aws.items import EXPIRES, number, text
from stepwell.aws.protocols import Item
from stepwell.aws.table import OnTable, numbers
from stepwell.runtime.log.logbook import claim_of
from stepwell.runtime.ports import Loaded, Saved
from stepwell.runtime.stores.blobs import of_run

_PAGE_RECORDS = 1_000  # read at once if a limit is given
_LAST_SLOT = 10**10 - 1
_BLOB = "body_blob"
CLAIMS = (_BLOB, "input_blob")  # attributes that refer to blobs of the run
_REPORT = "@"  # attributes of a wide fork's root join, `@7` for page 7; a hundred must fit into one write unit


class Logs(OnTable):
    """The log, with one conditional put per record; a refusal has the record that won."""

    async def append(self, run_id: str, token: str, slot: int, body: str) -> str | None:
        there = self._table.put_new(await self._record(run_id, token, slot, body))
        return None if there is None else await self._table.unpack("body", there)

    async def _record(self, run_id: str, token: str, slot: int, body: str) -> Item:
        packed = await self._packed(run_id, body)
        return {**keys.record_key(run_id, token, slot), **packed, **self._table.until()}

    async def _packed(self, run_id: str, body: str) -> Item:
        """Packs a body. A body that is already a claim check becomes the item's too, so that `erase` finds it."""
        reference = claim_of(body)
        return {_BLOB: text(reference)} if reference else await self._table.pack("body", body, of_run(run_id))

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
        packed = await self._packed(run_id, body)
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
        """Queries each partition. A page is in one partition, unless its fork's record has an older page size."""
        wanted = {keys.part(token): token for token in tokens}
        found: dict[str, list[Saved]] = {}
        for partition in dict.fromkeys(keys.token_partition(run_id, token) for token in tokens):
            for item in self._table.query("pk = :pk AND begins_with(sk, :log)", {":pk": partition, ":log": "LOG#"}):
                sort, token = item["sk"]["S"], wanted.get(keys.token_of(item["sk"]["S"]))
                if token is not None:
                    saved = Saved(keys.slot_of(sort), await self._table.unpack("body", item))
                    found.setdefault(token, []).append(saved)
        return found

    async def put_definition(self, version: str, body: str) -> None:
        """Stores a definition after reading it, because a refused put of a large item costs as much as a put."""
        where = keys.definition_key(version)
        if self._table.get(where, keys.PARTITION) is None:
            self._table.put_new({**where, **await self._table.pack("body", body)})

    async def get_definition(self, version: str) -> str | None:
        item = self._table.get(keys.definition_key(version))
        return None if item is None else await self._table.unpack("body", item)

    def erase(self, run_id: str, claims: list[str] | None = None) -> int:
        """Deletes an ended run's items after its header is gone. Returns their number.

        It costs one write unit per kilobyte. Call it when TTL has removed the header, after `erase_fork` for its forks.
        `claims` collects the references to blobs that the items held.
        """
        return self._erase(keys.run_partition(run_id), claims)

    def erase_fork(self, run_id: str, fork: str, width: int, pages: int, claims: list[str] | None = None) -> int:
        """Deletes the branches and joins of a fork. Returns the number of items."""
        self._table.delete(keys.join_key(run_id, fork))
        numbers = range(max(keys.partitions_of(width), pages))
        return sum(self._erase(keys.page_partition(run_id, fork, number), claims) for number in numbers)

    def _erase(self, partition: str, claims: list[str] | None) -> int:
        attributes = (keys.PARTITION, keys.SORT, *CLAIMS)
        names = {f"#{name}": name for name in attributes}
        left = self._table.query(
            "pk = :pk", {":pk": partition}, ProjectionExpression=", ".join(names), ExpressionAttributeNames=names
        )
        return self._table.delete_many(_places(left, [] if claims is None else claims))


def _places(items: Iterable[Item], claims: list[str]) -> Iterator[Item]:
    for item in items:
        claims.extend(item[name]["S"] for name in CLAIMS if name in item)
        yield {name: item[name] for name in (keys.PARTITION, keys.SORT)}
