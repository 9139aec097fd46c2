"""Logs, snapshots and joins: what is written once, or only grows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from stepwell.aws.calls import CONDITION, Cancelled, Refused
from stepwell.aws.protocols import Item
from stepwell.aws.store import keys
from stepwell.aws.store.items import EXPIRES, number, text, ttl
from stepwell.aws.store.table import RECORDS_KEPT_MS, OnTable, numbers
from stepwell.aws.store.user_writes import action_of, not_held, reason_of
from stepwell.engine.durable.transact import Refusal
from stepwell.engine.records import ROOT, Topic
from stepwell.engine.stored.formats import MARK
from stepwell.errors import EngineFault, InvalidInput, PortError
from stepwell.limits import SECOND_MS
from stepwell.runtime.log.claims import claim_check, claim_of
from stepwell.runtime.ports import Appended, EventRef, EventTaken, Forks, Joined, Loaded, Marked, Saved, Writes
from stepwell.runtime.stores.blobs import of_run

_PAGE_RECORDS = 1_000  # read at once if a limit is given
_LAST_SLOT = 10**10 - 1
_BLOB = "body_blob"
CLAIMS = (_BLOB, "input_blob")  # attributes that refer to blobs of the run
_MARK, _RESTS = "mark", "rests"  # attributes of a mark's item
_MEMBERS, _ORDER = "members", "order"  # a set, or a list where their order counts
_REPORT = "@"  # attributes of a join's numbers, `@7` for place 7; those of a hundred pages must fit into one write unit


def _none(_: Item) -> bool:
    return False


class Logs(OnTable):
    """The Log port: one conditional put per record; the refusal carries the record that won."""

    async def append(
        self, run_id: str, token: str, slot: int, body: str, *, consumes: EventRef | None = None, also: Writes = ()
    ) -> Appended:
        own = next((number for number, write in enumerate(also) if write.table == self._table.name), None)
        if own is not None:
            return Refusal(own, "it is Stepwell's own table, where nobody else writes")
        record = await self._record(run_id, token, slot, body)
        if consumes is None and not also:
            there = self._table.put_new(record)
        else:
            mark = None if consumes is None else consumption(*consumes, f"{run_id}|{token}|{slot}")
            found = self._transact(record, mark, also)
            if isinstance(found, Refusal | EventTaken):
                return found
            there = found
        if there is not None and _MARK in there:
            return Marked()
        return None if there is None else await self._table.unpack("body", there)

    async def mark(self, run_id: str, token: str, slot: int) -> bool:
        place = keys.record_key(run_id, token, slot)
        there = self._table.put_new({**place, _MARK: {"BOOL": True}, "body": text(MARK), **self._table.until()})
        return there is None or _MARK in there

    async def rest(self, run_id: str, token: str, slot: int, told: str, before: str = "") -> bool:
        values = {_MARK: {"BOOL": True}, "body": text(MARK), _RESTS: text(told), **self._table.until()}
        bound = {f":{name}": value for name, value in values.items()}
        names = {f"#{name}": name for name in values}
        condition = f"#{_RESTS} = :before" if before else f"attribute_not_exists(pk) OR attribute_exists(#{_MARK})"
        try:
            self._table.update(
                keys.record_key(run_id, token, slot),
                UpdateExpression="SET " + ", ".join(f"#{name} = :{name}" for name in values),
                ConditionExpression=condition,
                ExpressionAttributeNames=names,
                ExpressionAttributeValues=bound | ({":before": text(before)} if before else {}),
            )
        except Refused as refused:
            return refused.item is not None and refused.item.get(_RESTS) == text(told)
        return True

    async def unmark(self, run_id: str, token: str, slot: int) -> None:
        self._table.delete_if(keys.record_key(run_id, token, slot), "body = :mark", {":mark": text(MARK)})

    async def is_blank(self, run_id: str, token: str) -> bool:
        return not list(islice(self._items(run_id, token, -1, 1), 1))

    def _transact(
        self, record: Item, mark: Mapping[str, Any] | None, also: Writes
    ) -> Item | Refusal | EventTaken | None:
        """The record, the consumption of an event, and the user's writes, or what is in the way of them."""
        place = {name: record[name] for name in (keys.PARTITION, keys.SORT)}
        first: list[dict[str, Any]] = [{"Put": {"Item": record, "ConditionExpression": "attribute_not_exists(pk)"}}]
        first += [] if mark is None else [{"Update": mark}]
        try:
            self._table.transact(*first, *map(action_of, also))
        except Cancelled as cancelled:
            refusal = not_held(cancelled.reasons[len(first) :])
            # The slot first: where the event is taken too, it is the token that has moved on.
            if refusal is None and mark is not None and cancelled.reasons[0] not in CONDITION:
                return EventTaken()
        except (InvalidInput, EngineFault, PortError) as error:
            refusal = reason_of(error, len(first)) if also else None
            if refusal is None:
                if mark is not None and self._is_done(record, place, mark):
                    return None  # it happened, and no answer said so
                raise
        else:
            return None
        there = self._table.get(place)
        if there is None and refusal is None:
            raise PortError("TransactWriteItems: refused, but nothing is there")
        return there or refusal

    def _is_done(self, record: Item, place: Item, mark: Mapping[str, Any]) -> bool:
        if self._table.get(place) != record:
            return False
        event = self._table.get(mark["Key"], "consumed_by")
        return event is not None and event.get("consumed_by") == mark["ExpressionAttributeValues"][":taker"]

    async def _record(self, run_id: str, token: str, slot: int, body: str) -> Item:
        packed = await self._packed(run_id, body)
        return {**keys.record_key(run_id, token, slot), **packed, **self._table.until()}

    async def _packed(self, run_id: str, body: str) -> Item:
        """Packs a body. A body that is already a claim check becomes the item's too, so that `erase` finds it.

        One that says more beside its reference is kept as well.
        """
        reference = claim_of(body)
        if not reference:
            return await self._table.pack("body", body, of_run(run_id))
        return {_BLOB: text(reference)} | ({} if body == claim_check(reference) else {"body": text(body)})

    async def load(self, run_id: str, token: str, after: int | None = None) -> Loaded:
        # Two reads need no transaction, because a log only grows: the records continue from the snapshot read first.
        snapshot = await self._snapshot(run_id, token) if after is None else None
        if after is None:
            after = -1 if snapshot is None else snapshot.slot
        items = list(self._items(run_id, token, after, None))
        records = await self._saved(items)
        return Loaded(snapshot, records, is_marked=len(records) < len(items))

    async def _snapshot(self, run_id: str, token: str) -> Saved | None:
        found = self._table.get(keys.snapshot_key(run_id, token))
        return None if found is None else Saved(int(found["slot"]["N"]), await self._table.unpack("body", found))

    async def read_log(self, run_id: str, token: str, after: int = -1, limit: int | None = None) -> Sequence[Saved]:
        if (limit is not None and limit <= 0) or after >= _LAST_SLOT:
            return []
        return await self._saved(islice(self._items(run_id, token, after, limit), limit))

    def _items(self, run_id: str, token: str, after: int, limit: int | None) -> Iterator[Item]:
        return self._table.query(
            "pk = :pk AND sk BETWEEN :first AND :last",
            {
                ":pk": keys.token_partition(run_id, token),
                ":first": keys.log_sort(token, after + 1),
                ":last": keys.log_sort(token, _LAST_SLOT),
            },
            **({} if limit is None else {"Limit": min(limit, _PAGE_RECORDS)}),
        )

    async def _saved(self, items: Iterable[Item]) -> list[Saved]:
        return [
            Saved(keys.slot_of(item["sk"]["S"]), await self._table.unpack("body", item))
            for item in items
            if _MARK not in item
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

    async def arrive(self, run_id: str, join: str, member: str, *, in_order: bool = False) -> Joined:
        if in_order:
            return self._arrive_in_order(keys.join_key(run_id, join), text(member))
        return _joined(self._table.update(
            keys.join_key(run_id, join),
            UpdateExpression="ADD #members :member SET #expires = if_not_exists(#expires, :expires)",
            ExpressionAttributeNames={"#members": _MEMBERS, "#expires": EXPIRES},
            ExpressionAttributeValues={":member": {"SS": [member]}, ":expires": self._table.until()[EXPIRES]},
        ))  # fmt: skip

    def _arrive_in_order(self, join: Item, member: dict[str, str]) -> Joined:
        """The members are a list: a set has no order."""
        try:
            item = self._table.update(
                join,
                UpdateExpression="SET #order = list_append(if_not_exists(#order, :none), :one),"
                " #expires = if_not_exists(#expires, :expires)",
                ConditionExpression="NOT contains(#order, :member)",
                ExpressionAttributeNames={"#order": _ORDER, "#expires": EXPIRES},
                ExpressionAttributeValues={
                    ":none": {"L": []},
                    ":one": {"L": [member]},
                    ":member": member,
                    ":expires": self._table.until()[EXPIRES],
                },
            )
        except Refused as refused:  # it has arrived before
            item = refused.item or {}
        return _joined(item)

    async def report(self, run_id: str, join: str, place: int, value: int) -> Joined:
        names = {"#place": f"{_REPORT}{place}", "#expires": EXPIRES}
        try:
            item = self._table.update(
                keys.join_key(run_id, join),
                UpdateExpression="SET #place = :value, #expires = if_not_exists(#expires, :expires)",
                ConditionExpression="attribute_not_exists(#place) OR #place < :value",
                ExpressionAttributeNames=names,
                ExpressionAttributeValues={**numbers(value=value), ":expires": self._table.until()[EXPIRES]},
            )
        except Refused as refused:  # it already has this value or a greater one
            item = refused.item or {}
        return _joined(item)

    async def read_join(self, run_id: str, join: str, lanes: Sequence[str] = ()) -> Joined:
        if not lanes:
            return _joined(self._table.get(keys.join_key(run_id, join)) or {})
        partition, names = keys.join_partition(run_id, join), {keys.part(lane): lane for lane in lanes}
        members: Item = {}
        found: dict[str, list[Saved]] = {}
        for item in self._table.query("pk = :pk AND begins_with(sk, :join)", {":pk": partition, ":join": keys.JOIN}):
            _, lane, slot = f"{item['sk']['S']}##".split("#")[:3]
            if not lane:
                members = item
            elif lane in names:
                found.setdefault(names[lane], []).append(Saved(int(slot), await self._table.unpack("body", item)))
        apart = [lane for lane in lanes if keys.token_partition(run_id, lane) != partition]  # of another page size
        found |= {lane: list(await self.read_log(run_id, lane)) for lane in apart}
        return replace(_joined(members), lanes=found)

    async def read_logs(self, run_id: str, tokens: Sequence[str]) -> Mapping[str, Sequence[Saved]]:
        """Queries each partition. A page is in one partition, unless its fork's record has an older page size."""
        wanted = {keys.part(token): token for token in tokens}
        found: dict[str, list[Saved]] = {}
        for partition in dict.fromkeys(keys.token_partition(run_id, token) for token in tokens):
            for item in self._table.query("pk = :pk AND begins_with(sk, :log)", {":pk": partition, ":log": keys.LOGS}):
                sort, token = item["sk"]["S"], wanted.get(keys.token_of(item["sk"]["S"]))
                if token is not None and _MARK not in item:
                    saved = Saved(keys.slot_of(sort), await self._table.unpack("body", item))
                    found.setdefault(token, []).append(saved)
        return found

    async def read_bodies(self, run_id: str, places: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], str]:
        """A hundred places are one request, wherever they lie."""
        wanted: dict[tuple[str, str], tuple[str, int]] = {}
        for token, slot in places:
            key = keys.record_key(run_id, token, slot)
            wanted[key[keys.PARTITION]["S"], key[keys.SORT]["S"]] = (token, slot)
        found: dict[tuple[str, int], str] = {}
        for item in self._table.get_many((keys.record_key(run_id, *one) for one in wanted.values()), consistent=True):
            if _MARK not in item:
                place = wanted[item[keys.PARTITION]["S"], item[keys.SORT]["S"]]
                found[place] = await self._table.unpack("body", item)
        return found

    def erase(self, run_id: str, forks: Forks, before_ms: int | None = None) -> tuple[int, bool]:
        """Deletes an ended run's items after its header is gone: one write unit per kilobyte.

        `before_ms`: only those that were written before, because another run may have the id by now.

        Returns their number, and whether any named a blob. If so, a mark stays until `forget_blobs`, so that the next
        call knows it too if this one is cut off.
        """
        key, has_blobs = keys.blobs_key(run_id), False
        until = None if before_ms is None else ttl(before_ms + RECORDS_KEPT_MS)

        def kept(item: Item) -> bool:
            nonlocal has_blobs
            if until is not None and not _is_before(until, item):
                return True
            is_mark = item[keys.SORT] == key[keys.SORT]
            if not has_blobs and (is_mark or any(name in item for name in CLAIMS)):
                self._table.put_new(key)
                has_blobs = True
            return is_mark

        count = sum(self._erase_fork(run_id, *fork, kept, until) for fork in forks)
        return count + self._erase(keys.run_partition(run_id), kept=kept), has_blobs

    def has_older(self, run_id: str, before_ms: int) -> bool:
        """Tells whether the run's log begins with a record from before then: that of an expired run of its id.

        Records of release 0.1 have a shorter TTL, which does not say when they were written.
        """
        first = next(self._items(run_id, ROOT, -1, 1), {})
        written_ms = int(first[EXPIRES]["N"]) * SECOND_MS - RECORDS_KEPT_MS if EXPIRES in first else 0
        return 0 < written_ms < before_ms

    def forget_blobs(self, run_id: str) -> None:
        """Deletes the mark of `erase`: the run's blobs are deleted."""
        self._table.delete(keys.blobs_key(run_id))

    async def erase_logs(self, run_id: str, forks: Forks) -> int:
        count = sum(self._erase_fork(run_id, *fork) for fork in forks)
        partition = keys.run_partition(run_id)
        return count + sum(self._erase(partition, kind) for kind in (keys.LOGS, keys.SNAPSHOTS, keys.SENT))

    async def scrub(self) -> None:
        """DynamoDB has no files to clean; its backups and its stream are the account's own."""

    def _erase_fork(
        self,
        run_id: str,
        fork: str,
        width: int,
        pages: int,
        kept: Callable[[Item], bool] = _none,
        until: Mapping[str, str] | None = None,
    ) -> int:
        join = keys.join_key(run_id, fork)
        if until is None:
            self._table.delete(join)
        else:
            self._table.delete_if(
                join, f"attribute_not_exists({EXPIRES}) OR {EXPIRES} < :until", {":until": dict(until)}
            )
        numbers = range(max(keys.partitions_of(width), pages))
        return sum(self._erase(keys.page_partition(run_id, fork, number), kept=kept) for number in numbers)

    def _erase(self, partition: str, kind: str = "", kept: Callable[[Item], bool] = _none) -> int:
        """Deletes the items but those that are `kept`. `kind`: the beginning of their sort keys; "" for all."""
        attributes = (keys.PARTITION, keys.SORT, EXPIRES, *CLAIMS)
        names = {f"#{name}": name for name in attributes}
        condition = "pk = :pk AND begins_with(sk, :kind)" if kind else "pk = :pk"
        left = self._table.query(
            condition,
            {":pk": partition, **({":kind": kind} if kind else {})},
            ProjectionExpression=", ".join(names),
            ExpressionAttributeNames=names,
        )
        places = ({name: item[name] for name in (keys.PARTITION, keys.SORT)} for item in left if not kept(item))
        return self._table.delete_many(places)


def _is_before(until: Mapping[str, str], item: Item) -> bool:
    """Tells by its TTL whether an expired run has left this item.

    Its header is gone. What notes events that were sent to a run has a TTL of another kind, which deletes it soon.
    """
    sort = item[keys.SORT]["S"]
    if sort == "RUN" or sort.startswith(keys.SENT):
        return False
    return EXPIRES not in item or int(item[EXPIRES]["N"]) < int(until["N"])


def _joined(item: Item) -> Joined:
    reports = {int(name[len(_REPORT) :]): int(one["N"]) for name, one in item.items() if name.startswith(_REPORT)}
    order = tuple(one["S"] for one in item[_ORDER]["L"]) if _ORDER in item else ()
    return Joined(frozenset(item[_MEMBERS]["SS"] if _MEMBERS in item else order), reports, order)


def consumption(topic: Topic, event_id: str, taker: str) -> Mapping[str, Any]:
    """The request that marks an event as consumed by `taker`, if nobody has consumed it."""
    return {
        "Key": keys.event_key(topic, event_id),
        "UpdateExpression": "SET consumed_by = :taker",
        "ConditionExpression": "attribute_exists(pk) AND attribute_not_exists(consumed_by)",
        "ExpressionAttributeValues": {":taker": text(taker)},
    }
