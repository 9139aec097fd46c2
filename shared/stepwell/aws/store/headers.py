"""Run headers. A run that completes costs six write units beside its steps:

                        table   by_workflow   by_state   by_due
    created                 1             1          1        -
    picked up               1             -          -        -      no index projects what changes
    completed               1             -          1        -      its entry under `live` is deleted
    failed, cancelled       1             -          2        -      its entry moves to that state

Each change of status writes when the run is due. Only a run that the sweeper has met is in `by_due`, so that a run
that is over within minutes pays nothing for it. One that lives longer pays

    met by the sweeper      1             -          -      0..1     once; 1 with a timer or a time-out
    a wait begins           -             -          -      0..2     its entry is deleted, or moves to the timer
    a wait ends             1             -          -      1..2     it is due at once, before the record that ends it
    ended                   -             -          -        1      its entry is deleted
    paused, unpaused        1             -          -     0..2      due at once when it goes on

An input that would make the header larger than one write unit is an item of its own: a header is rewritten at every
change of status, its input never.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.aws.calls import Refused
from stepwell.aws.protocols import Item
from stepwell.aws.store import keys
from stepwell.aws.store.items import (
    HELD,
    change_request,
    header_item,
    header_of,
    held_item,
    held_until,
    hold_request,
    is_applied,
    is_held_as,
    is_paused,
    is_watched,
    size_of,
    text,
    watch_request,
)
from stepwell.aws.store.table import OnTable, Table
from stepwell.errors import NewerFormat, PortError, RunDeleted
from stepwell.runtime.ports import BROKEN_BLOB, Pause
from stepwell.runtime.ports.headers import Header, StatusChange, check_held
from stepwell.runtime.stores.answers import with_pause
from stepwell.runtime.stores.blobs import of_run
from stepwell.runtime.stores.jsontext import encode

HEADER_BYTES = 900  # with its input; leaves room in a write unit for what a wait adds


class Headers(OnTable):
    """Made once, changed forward only."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._known_workflows: set[str] = set()

    async def create_run(self, header: Header) -> Header | None:
        item = header_item(header)
        given = encode(header.input)
        packed = await self._table.pack("input", given, of_run(header.run_id))
        if size_of({**item, **packed}) > HEADER_BYTES and "input_blob" not in packed:
            apart = {keys.PARTITION: item[keys.PARTITION], keys.SORT: text(keys.input_sort(given))}
            self._table.put_new({**apart, **packed, **self._table.until()})  # before the header that points to it
            packed = {"input_at": apart[keys.SORT]}
        self._know(header.workflow)
        there = self._put_unless_held(header, {**item, **packed})
        if there is None:
            return None
        return await self._with_input(there, ()) if "input_at" not in there else await self.get_run(header.run_id)

    def _put_unless_held(self, header: Header, item: Item) -> Item | None:
        """Puts the header. Returns None, or the header that is there. Raises RunDeleted, and leaves no input then."""
        there = self._table.put_new(item)
        while there is not None and HELD in there:
            try:
                check_held(header, held_until(there))
            except RunDeleted:
                if "input_at" in item:
                    self._table.delete({keys.PARTITION: item[keys.PARTITION], keys.SORT: item["input_at"]})
                raise
            there = self._table.put_new(
                item, "attribute_not_exists(pk) OR #held = :held", ExpressionAttributeNames={"#held": HELD},
                ExpressionAttributeValues={":held": there[HELD]})  # fmt: skip
        return there

    async def get_run(self, run_id: str) -> Header | None:
        """One query: the header, and its input where that is an item of its own."""
        items = list(
            self._table.query(
                "pk = :pk AND begins_with(sk, :run)",
                {":pk": keys.run_partition(run_id), ":run": "RUN"},
            )
        )
        header = next((item for item in items if item[keys.SORT]["S"] == "RUN" and HELD not in item), None)
        return None if header is None else await self._with_input(header, items)

    async def _with_input(self, item: Item, beside: Sequence[Item]) -> Header:
        """The header of an item; `beside` holds the inputs that are items of their own."""
        if "input_at" not in item:
            return header_of(item, await self._table.unpack("input", item))
        place = item[keys.PARTITION], item["input_at"]
        for other in beside:
            if (other[keys.PARTITION], other[keys.SORT]) == place:
                return header_of(item, await self._table.unpack("input", other))
        raise PortError(f"the input of run {item['at']['S']} is not there", code=BROKEN_BLOB)

    async def _headers(self, places: Sequence[tuple[str | int, str]]) -> dict[str, Header]:
        """Reads the headers of these (at or time, run_id) places by id, if they exist; eventually consistent.

        One that newer code has written is left to that. One whose input is lost is there without it: whoever needs
        the input asks for the run.
        """
        asked = dict.fromkeys(run_id for _, run_id in places)  # one that moved between two pages is in both
        items = self._table.get_many(keys.header_key(run_id) for run_id in asked)
        apart = [
            {keys.PARTITION: item[keys.PARTITION], keys.SORT: item["input_at"]} for item in items if "input_at" in item
        ]
        inputs = self._table.get_many(apart)
        headers = [await self._listed(item, inputs) for item in items if HELD not in item]
        return {header.run_id: header for header in headers if header is not None}

    async def _listed(self, item: Item, beside: Sequence[Item]) -> Header | None:
        try:
            return await self._with_input(item, beside)
        except NewerFormat:
            return None
        except PortError as error:
            if error.code != BROKEN_BLOB:
                raise
            return header_of(item, "null")

    async def change_status(self, change: StatusChange) -> bool:
        is_held = False
        while True:
            try:
                self._table.update(keys.header_key(change.run_id), **change_request(change, is_held=is_held))
            except Refused as refused:
                if refused.unsure and is_applied(refused.item, change):
                    return True
                if change.ends_pause or change.unless_paused or is_paused(refused.item) == is_held:
                    return False
                is_held = not is_held
            else:
                return True

    async def hold(self, seen: Header, pause: Pause | None, at_ms: int) -> bool:
        new = with_pause(seen, pause, at_ms)
        try:
            self._table.update(keys.header_key(seen.run_id), **hold_request(seen, new))
        except Refused as refused:
            return refused.unsure and is_held_as(refused.item, new)
        return True

    async def watch(self, run_id: str, due_ms: int | None, seen: Header | None = None) -> bool:
        try:
            self._table.update(keys.header_key(run_id), **watch_request(run_id, due_ms, seen))
        except Refused as refused:
            return refused.unsure and is_watched(refused.item, run_id, due_ms)
        return True

    async def held_until_ms(self, run_id: str) -> int:
        item = self._table.get(keys.header_key(run_id), keys.PARTITION, HELD)
        return held_until(item) if item is not None and HELD in item else 0

    async def drop_run(self, run_id: str, held_until_ms: int) -> bool:
        where = keys.header_key(run_id)
        item = self._table.get(where, keys.PARTITION, "input_at", HELD)
        if item is None or HELD in item:
            return False
        held = held_item(run_id, held_until_ms)
        if "input_at" not in item:
            self._table.put_new(held, "attribute_exists(pk)")
            return True
        apart = {keys.PARTITION: where[keys.PARTITION], keys.SORT: item["input_at"]}
        self._table.transact({"Put": {"Item": held}}, {"Delete": {"Key": apart}})  # one without the other is broken
        return True

    def _know(self, workflow: str) -> None:
        """Keeps the names of workflows that have runs, for lists over all of them: one write per name, ever."""
        if workflow in self._known_workflows:
            return
        if workflow not in self._workflows():
            self._table.update(
                keys.WORKFLOWS_KEY,
                UpdateExpression="ADD #names :name",
                ExpressionAttributeNames={"#names": "names"},
                ExpressionAttributeValues={":name": {"SS": [workflow]}},
            )
        self._known_workflows.add(workflow)

    def _workflows(self) -> list[str]:
        item = self._table.get(keys.WORKFLOWS_KEY)
        return [] if item is None else sorted(item["names"]["SS"])
