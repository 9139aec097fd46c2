"""Lists of runs by time: those that are due, for the sweeper; those that wait, the soonest deadline first.

Both read the index `by_due`, which has the runs that the sweeper has met, by the minute in which something is expected
of them: a wait's deadline, or what comes before it, such as a reminder. Younger runs are found in the list of all runs.

    by_due   12:01  12:01  12:04 ── read so far ──┬── 12:07 …     deadlines before 12:07 are known, and are listed
    headers  12:03  12:09  12:04                  │                the run of 12:09 is read again for the next page

A page by deadline costs a read of each of its runs, of those that are due for something else before their deadline, of
those whose deadline is in the minute of its last one, and of the runs of the last minutes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from heapq import merge
from itertools import islice

from stepwell.aws.protocols import Item
from stepwell.aws.store import keys
from stepwell.aws.store.listing import LOOKED_AT, Listing
from stepwell.aws.store.notes import Notes
from stepwell.engine.records import Status
from stepwell.limits import MINUTE_MS
from stepwell.runtime.loop.rounds import NOTE, Rounds
from stepwell.runtime.ports.headers import Header, RunPage, RunQuery
from stepwell.runtime.stores.answers import (
    LATEST_MS,
    deadline_of,
    decode_cursor,
    decode_deadline,
    encode_cursor,
    encode_deadline,
    fits,
)

_ALL = 10**9  # runs
_LATEST = keys.place(LATEST_MS, "")


class Deadlines(Listing, Notes):
    """Runs by time."""

    async def list_due(self, before_ms: int, limit: int, cursor: str = "") -> RunPage:
        after, before = keys.place(*decode_cursor(cursor)) if cursor else keys.place(0, ""), _place(before_ms)
        if after >= before:
            return RunPage(())
        entries = self._due(after, before, limit + 1)
        places = list(islice((place for place in entries if place != after), limit + 1))
        shown = [keys.created_and_run(place) for place in places[:limit]]
        headers = await self._headers(shown)
        found = (headers.get(run_id) for run_id in dict.fromkeys(run_id for _, run_id in shown))
        next_cursor = encode_cursor(*keys.created_and_run(places[limit - 1])) if len(places) > limit else ""
        return RunPage(tuple(header for header in found if header is not None), next_cursor)

    async def list_runs(self, query: RunQuery) -> RunPage:
        if not query.by_deadline:
            return await super().list_runs(query)
        until_ms, run_id, from_ms = decode_deadline(query.cursor) if query.cursor else (-1, "", 0)
        known = await self._young(query)
        due: dict[str, int] = {}  # of the runs that were read
        entries = self._due(_place(from_ms), _LATEST, LOOKED_AT)
        while True:
            places = [keys.created_and_run(place) for place in islice(entries, LOOKED_AT)]
            known.update(await self._headers(places))
            due.update((one, due_ms) for due_ms, one in places)
            upto_ms = places[-1][0] if len(places) == LOOKED_AT else None
            listed = sorted(deadline_of(one) for one in known.values() if _is_listed(one, query))
            listed = [place for place in listed if place > (until_ms, run_id)]
            page = [place for place in listed if upto_ms is None or place[0] < upto_ms]
            if upto_ms is None or len(page) > query.limit:
                break
        shown, left = page[: query.limit], listed[query.limit :]
        headers = tuple(known[one] for _, one in shown)
        if not left and upto_ms is None:
            return RunPage(headers)
        unread_ms = [due.get(one, at_ms - at_ms % MINUTE_MS) for at_ms, one in left]
        return RunPage(headers, encode_deadline(*shown[-1], min([*unread_ms, *([] if upto_ms is None else [upto_ms])])))

    async def _young(self, query: RunQuery) -> dict[str, Header]:
        """Runs that the sweeper may not have met, of those that the query asks for."""
        met_ms = Rounds.of(await self.get_note(*NOTE)).met_ms
        live = replace(
            query,
            statuses=frozenset({Status.WAITING}),
            since_ms=max(query.since_ms, met_ms),
            by_deadline=False,
            limit=_ALL,
            cursor="",
        )
        return {header.run_id: header for header in (await super().list_runs(live)).headers}

    def _due(self, after: str, before: str, limit: int) -> Iterator[str]:
        """Yields the places of watched runs that are due between these, in order."""
        shards: Iterable[Iterator[Item]] = [
            self._table.query(
                "#of = :of AND #due BETWEEN :after AND :before",
                {":of": keys.state_key(keys.DUE, shard), ":after": after, ":before": before},
                IndexName=keys.BY_DUE,
                ExpressionAttributeNames={"#of": "due_in", "#due": "due"},
                Limit=limit,
            )
            for shard in range(keys.STATE_SHARDS)
        ]
        return merge(*(_places(shard) for shard in shards))


def _places(entries: Iterator[Item]) -> Iterator[str]:
    return (str(entry["due"]["S"]) for entry in entries)


def _place(at_ms: int) -> str:
    return keys.place(min(max(at_ms, 0), LATEST_MS), "")


def _is_listed(header: Header, query: RunQuery) -> bool:
    return header.created_ms >= query.since_ms and fits(header, query)
