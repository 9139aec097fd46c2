"""The one table: its shape, and the calls on it that the store is made of."""

from __future__ import annotations

import base64
import time
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from stepwell import limits
from stepwell.aws.calls import Refused, Retry
from stepwell.aws.protocols import Answer, DynamoClient, Item
from stepwell.aws.store import keys
from stepwell.aws.store.items import EXPIRES, number, text, ttl, units_of_bytes
from stepwell.definition.durations import LONGEST_MS
from stepwell.errors import PortError
from stepwell.runtime.ports import Blobs

# CreateTable's parameters, for tests and as the statement that the template is compared with. TTL is on `expires`.
SHAPE: Mapping[str, Any] = {
    "BillingMode": "PAY_PER_REQUEST",
    "AttributeDefinitions": [
        {"AttributeName": name, "AttributeType": "S"}
        for name in (keys.PARTITION, keys.SORT, "workflow", "state", "at", "due_in", "due")
    ],
    "KeySchema": [
        {"AttributeName": keys.PARTITION, "KeyType": "HASH"},
        {"AttributeName": keys.SORT, "KeyType": "RANGE"},
    ],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": keys.BY_WORKFLOW,  # every run; written once. One workflow takes 1,000 starts a second
            "KeySchema": [
                {"AttributeName": "workflow", "KeyType": "HASH"},
                {"AttributeName": "at", "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "KEYS_ONLY"},
        },
        {
            "IndexName": keys.BY_STATE,  # live runs, and those that ended otherwise than completed
            "KeySchema": [
                {"AttributeName": "state", "KeyType": "HASH"},
                {"AttributeName": "at", "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["workflow"]},
        },
        {
            "IndexName": keys.BY_DUE,  # runs that the sweeper watches, by due time
            "KeySchema": [
                {"AttributeName": "due_in", "KeyType": "HASH"},
                {"AttributeName": "due", "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "KEYS_ONLY"},
        },
    ],
}

COMPRESSED_BYTES = 700  # a shorter text is in one write unit with the rest of its item
BATCH_GET_KEYS = 100
BATCH_WRITE_KEYS = 25
# What belongs to a run carries a TTL from the day it is written, because it is never written again. Its run may still
# need it then, so the TTL is as long as a run's own time limit may be. An ended run is deleted with its header long
# before, by `erase`; the TTL is for what nobody came to erase.
RECORDS_KEPT_MS = LONGEST_MS


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class Table:
    """Puts, gets and queries, retried, with large texts under claim check."""

    def __init__(
        self,
        name: str,
        client: Callable[[], DynamoClient],
        blobs: Blobs,
        *,
        retry: Retry | None = None,
        claim_bytes: int = limits.ITEM_BYTES,
        compresses: bool = False,
        now_ms: Callable[[], int] = _now_ms,
    ) -> None:
        self.name, self.retry = name, retry or Retry()
        self._client, self._blobs = client, blobs
        self._claim_bytes, self._now_ms = claim_bytes, now_ms
        self._compresses = compresses

    # -- large texts

    async def pack(self, name: str, value: str, owner: str = "", salt: str = "") -> Item:
        """Stores the text as an attribute, or as a claim check of a blob of this owner, which ends with the salt.

        Where this table compresses, a text is an attribute in binary if that takes fewer write units. The same text is
        always the same attribute, so that whoever lost the answer to its write knows it again.
        """
        if len(value) * 4 <= COMPRESSED_BYTES:  # no encoding of it is longer
            return {name: text(value)}
        data = value.encode(errors="surrogatepass")
        if len(data) > self._claim_bytes:
            return {f"{name}_blob": text(await self._blobs.put(data + salt.encode(), owner))}
        if self._compresses and len(data) > COMPRESSED_BYTES:
            fewer = zlib.compress(data)
            if units_of_bytes(len(fewer)) < units_of_bytes(len(data)):
                return {f"{name}_zip": {"B": fewer}}
        return {name: text(value)}

    async def unpack(self, name: str, item: Item) -> str:
        """The inverse of `pack`, whether this table compresses or not. The stream's items have binary as base64."""
        if name in item:
            return str(item[name]["S"])
        if (packed := item.get(f"{name}_zip")) is not None:
            data = packed["B"]
            return zlib.decompress(base64.b64decode(data) if isinstance(data, str) else data).decode(
                errors="surrogatepass"
            )
        return (await self._blobs.get(item[f"{name}_blob"]["S"])).decode(errors="surrogatepass")

    def until(self) -> Item:
        """The TTL of what is written once and belongs to a run."""
        return {EXPIRES: ttl(self._now_ms() + RECORDS_KEPT_MS)}

    async def drop_blob(self, reference: str) -> None:
        """Deletes the blob of a claim check."""
        await self._blobs.remove(reference)

    # -- items

    def get(self, where: Item, *names: str) -> Item | None:
        """The item, or those of its attributes that are named."""
        narrow: dict[str, Any] = {}
        if names:
            narrow["ProjectionExpression"] = ", ".join(f"#{name}" for name in names)
            narrow["ExpressionAttributeNames"] = {f"#{name}": name for name in names}
        answer = self.retry.call(
            "GetItem",
            lambda: self._client().get_item(TableName=self.name, Key=where, ConsistentRead=True, **narrow),
        )
        return answer.get("Item") or None

    def put_new(self, item: Item, condition: str = "attribute_not_exists(pk)", **bound: Any) -> Item | None:
        """None when this call wrote the item, even if its answer was lost; else what is there, empty for nothing."""
        try:
            self.retry.call("PutItem", lambda: self._client().put_item(
                TableName=self.name, Item=item, ConditionExpression=condition,
                ReturnValuesOnConditionCheckFailure="ALL_OLD", **bound))  # fmt: skip
        except Refused as refused:
            if refused.item is None and "attribute_not_exists" in condition:
                raise PortError("PutItem: refused, but nothing is there") from refused
            return None if refused.unsure and refused.item == item else refused.item or {}
        return None

    def update(self, where: Item, **request: Any) -> Item:
        """The item as it is now. Raises Refused when the condition does not hold."""
        answer = self.retry.call("UpdateItem", lambda: self._client().update_item(
            TableName=self.name, Key=where, ReturnValues="ALL_NEW",
            ReturnValuesOnConditionCheckFailure="ALL_OLD", **request))  # fmt: skip
        updated: Item = answer["Attributes"]
        return updated

    def delete(self, where: Item) -> None:
        self.retry.call("DeleteItem", lambda: self._client().delete_item(TableName=self.name, Key=where))

    def delete_there(self, where: Item) -> bool:
        """Whether this call deleted an item: of several at once, one did. True as well where its answer was lost."""
        try:
            self.retry.call("DeleteItem", lambda: self._client().delete_item(
                TableName=self.name, Key=where, ConditionExpression="attribute_exists(pk)"))  # fmt: skip
        except Refused as refused:
            return refused.unsure
        return True

    def delete_if(self, where: Item, condition: str, bound: Item) -> bool:
        """Whether the condition held. Where an answer was lost, only one holds that holds where nothing is."""
        try:
            self.retry.call("DeleteItem", lambda: self._client().delete_item(
                TableName=self.name, Key=where, ConditionExpression=condition,
                ExpressionAttributeValues=bound))  # fmt: skip
        except Refused:
            return False
        return True

    def transact(self, *actions: Mapping[str, Mapping[str, Any]]) -> None:
        """All or nothing. Its token makes a repeated call after a lost answer the same call. Raises Cancelled."""
        named = [{kind: {"TableName": self.name, **action} for kind, action in one.items()} for one in actions]
        once = uuid.uuid4().hex
        self.retry.call(
            "TransactWriteItems",
            lambda: self._client().transact_write_items(TransactItems=named, ClientRequestToken=once),
        )

    # -- many items

    def query(self, condition: str, values: Mapping[str, str], **request: Any) -> Iterator[Item]:
        """Items in key order, page by page as they are asked for. Strongly consistent, except on an index.

        `values` are the texts bound in the expressions, `numbers` the numbers.
        """
        for page in self._pages(condition, values, ConsistentRead="IndexName" not in request, **request):
            yield from page["Items"]

    def _pages(
        self, condition: str, values: Mapping[str, str], *, numbers: Item | None = None, **request: Any
    ) -> Iterator[Answer]:
        asked = {
            "TableName": self.name,
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": {**{name: text(value) for name, value in values.items()}, **(numbers or {})},
            **request,
        }
        while True:
            page = self.retry.call("Query", lambda: self._client().query(**asked))
            yield page
            if "LastEvaluatedKey" not in page:
                return
            asked["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def count(self, condition: str, values: Mapping[str, str], most: int = 0, **request: Any) -> int:
        """How many items a query would give, eventually consistent. Of more than `most` it reads no more than those."""
        asked = request | ({"Limit": most} if most else {})
        pages = self._pages(condition, values, Select="COUNT", ConsistentRead=False, **asked)
        count = 0
        for page in pages:
            count += int(page["Count"])
            if 0 < most <= count:
                return most
        return count

    def get_many(self, places: Iterable[Item], *, consistent: bool = False) -> list[Item]:
        """The items that are there, in no order; for lists eventually consistent."""
        found: list[Item] = []
        for batch in _batches(places, BATCH_GET_KEYS):
            answers = self.retry.until_all(
                "BatchGetItem", self._get_batch, {self.name: {"Keys": batch, "ConsistentRead": consistent}}
            )
            found.extend(item for items in answers for item in items)
        return found

    def _get_batch(self, requests: Any) -> tuple[list[Item], Any]:
        answer = self.retry.call("BatchGetItem", lambda: self._client().batch_get_item(RequestItems=requests))
        return answer["Responses"].get(self.name, []), answer.get("UnprocessedKeys")

    def delete_many(self, places: Iterable[Item]) -> int:
        """Deletes the items. Returns how many were asked for."""
        total = 0
        for batch in _batches(places, BATCH_WRITE_KEYS):
            requests = {self.name: [{"DeleteRequest": {"Key": where}} for where in batch]}
            self.retry.until_all("BatchWriteItem", self._write_batch, requests)
            total += len(batch)
        return total

    def _write_batch(self, requests: Any) -> tuple[None, Any]:
        answer = self.retry.call("BatchWriteItem", lambda: self._client().batch_write_item(RequestItems=requests))
        return None, answer.get("UnprocessedItems")


class OnTable:
    """A part of the store: it has the table and nothing else."""

    def __init__(self, table: Table) -> None:
        self._table = table


def numbers(**values: int) -> dict[str, dict[str, str]]:
    """Numbers bound in an expression, by name."""
    return {f":{name}": number(value) for name, value in values.items()}


def _batches(items: Iterable[Item], size: int) -> Iterator[Sequence[Item]]:
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
