"""Lists of runs and their counts: the indexes say which runs, the headers say what they are now.

A page costs one query for each partition it is merged from and half a read unit for each run it looks at. Of a
status other than `completed` only the runs of that kind are looked at; what else narrows (a tag, what a run waits
for) is looked for among them.

    all runs, or completed ones     by_workflow, one partition for each workflow
    live runs                       by_state, `live#0` … `live#3`
    failed, cancelled …             by_state, `failed#0` …

Lists by time are in `deadlines`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Any

from stepwell.aws.protocols import Item
from stepwell.aws.store import keys
from stepwell.aws.store.headers import Headers
from stepwell.definition.graph import Json
from stepwell.engine.records import TERMINAL, Status
from stepwell.runtime.ports.headers import Header, RunPage, RunQuery
from stepwell.runtime.stores.answers import LATEST_MS, decode_cursor, encode_cursor, fits

LOOKED_AT = 100  # runs at a time: what one BatchGetItem reads
ENTRIES = 200  # of one partition of an index at a time
STATS_LIVE = 100_000  # live runs whose headers `stats` reads: about ten seconds, of the 29 that a call may take
STATS_ENDED = 500_000  # runs that ended, whose entries it reads: about five
_OLDEST = keys.place(0, "")
_NEWEST = f"{LATEST_MS}~"
LIVE_STATUSES = frozenset(Status) - TERMINAL


class Listing(Headers):
    """Runs, newest first."""

    async def list_runs(self, query: RunQuery) -> RunPage:
        before = keys.place(*decode_cursor(query.cursor)) if query.cursor else ""
        places = self._places(query, before)
        found: list[Header] = []
        at_once = min(LOOKED_AT, query.limit + 1)
        while looked_at := list(islice(places, at_once)):
            at_once = LOOKED_AT  # those that were looked at did not all fit
            headers = await self._headers(looked_at)
            for _, run_id in looked_at:
                header = headers.get(run_id)
                if header is None or not fits(header, query):
                    continue
                if len(found) == query.limit:
                    return RunPage(tuple(found), encode_cursor(found[-1].created_ms, found[-1].run_id))
                found.append(header)
        return RunPage(tuple(found))

    def _places(self, query: RunQuery, before: str) -> Iterator[tuple[str, str]]:
        """(at, run_id) of the runs that may be asked for, newest first, merged from their partitions."""
        groups = _groups(query)
        since = keys.place(min(max(query.since_ms, 0), LATEST_MS), "")
        if before and before < since:
            return  # DynamoDB refuses a range whose end comes before its beginning
        if groups is None:
            workflows = [query.workflow] if query.workflow else self._workflows()
            streams = [self._of_workflow(workflow, since, before) for workflow in workflows]
        else:
            states = [keys.state_key(group, shard) for group in groups for shard in range(keys.STATE_SHARDS)]
            streams = [self._of_state(state, query.workflow, since, before) for state in states]
        last = before
        for item in merge(*streams, key=_at, reverse=True):
            at = _at(item)
            if at != last:  # a run that just changed its state may be seen in both
                yield at, keys.created_and_run(at)[1]
            last = at

    def _of_workflow(self, workflow: str, since: str = "", before: str = "") -> Iterator[Item]:
        names, values = {"#of": "workflow"}, {":of": workflow}
        return self._newest_first(keys.BY_WORKFLOW, names, values, since, before)

    def _of_state(self, state: str, workflow: str = "", since: str = "", before: str = "") -> Iterator[Item]:
        names, values = {"#of": "state"}, {":of": state}
        if not workflow:
            return self._newest_first(keys.BY_STATE, names, values, since, before)
        names["#workflow"], values[":workflow"] = "workflow", workflow
        only = {"FilterExpression": "#workflow = :workflow"}
        return self._newest_first(keys.BY_STATE, names, values, since, before, **only)

    def _newest_first(
        self, index: str, names: dict[str, str], values: dict[str, str], since: str, before: str, **narrow: str
    ) -> Iterator[Item]:
        """A list's partitions are read a few entries at a time; all that there is (without `since`), in large pages."""
        paging = {"Limit": ENTRIES} if since else {}
        return self._table.query(
            "#of = :of AND #at BETWEEN :since AND :before",
            {**values, ":since": since or _OLDEST, ":before": before or _NEWEST},
            IndexName=index,
            ScanIndexForward=False,
            ExpressionAttributeNames={**names, "#at": "at"},
            **paging,
            **narrow,
        )

    async def stats(self) -> Json:
        """Reads the entries of both indexes and the headers of live runs; what is in `by_workflow` alone completed.

        About 25 entries, or one header, to half a read unit: a million completed runs and a thousand live ones cost
        20,500 read units (0.26 cents) and some 150 requests. For a console that asks often, keep the answer.

        The newest STATS_LIVE live runs are read, and STATS_ENDED that have ended. Of older ones nothing is known,
        not even whether they have completed: the rows of those statuses have `at_least` then.
        """
        groups: dict[tuple[str, str, str], list[int]] = defaultdict(list)
        counted: set[str] = set()
        known_from, cut = _OLDEST, set[Status]()
        for status in [None, *sorted(TERMINAL - {Status.COMPLETED})]:
            for shard in range(keys.STATE_SHARDS):
                state = keys.state_key(keys.LIVE if status is None else status.value, shard)
                most = (STATS_LIVE if status is None else STATS_ENDED) // keys.STATE_SHARDS
                entries = list(islice(self._of_state(state), most + 1))
                if len(entries) > most:
                    known_from = max(known_from, _at(entries.pop()))
                    cut |= {status, Status.COMPLETED} if status else {*LIVE_STATUSES, Status.COMPLETED}
                counted.update(_at(entry) for entry in entries)
                await self._count(status, entries, groups)
        if self._count_completed(groups, counted, known_from):
            cut.add(Status.COMPLETED)
        return [
            {**_row(group, times), **({"at_least": True} if group[1] in cut else {})}
            for group, times in sorted(groups.items())
        ]

    def _count_completed(
        self, groups: dict[tuple[str, str, str], list[int]], counted: set[str], known_from: str
    ) -> bool:
        """Adds what is counted nowhere else, newest first in each workflow. Returns whether some was left out."""
        workflows, is_cut = self._workflows(), False
        for workflow in workflows:
            left = STATS_ENDED // len(workflows)
            for entry in self._of_workflow(workflow):
                if left == 0 or _at(entry) <= known_from:
                    is_cut = True
                    break
                if _at(entry) not in counted:
                    left -= 1
                    groups[workflow, Status.COMPLETED, ""].append(keys.created_and_run(_at(entry))[0])
        return is_cut

    async def _count(
        self, status: Status | None, entries: Sequence[Item], groups: dict[tuple[str, str, str], list[int]]
    ) -> None:
        """Adds runs of one state: ended ones off the index, live ones (None) by what their headers say."""
        if status is not None:
            for entry in entries:
                groups[entry["workflow"]["S"], status, ""].append(keys.created_and_run(_at(entry))[0])
            return
        places = [(_at(entry), keys.created_and_run(_at(entry))[1]) for entry in entries]
        for header in (await self._headers(places)).values():
            groups[header.workflow, header.status, header.waiting_for].append(header.created_ms)


def _groups(query: RunQuery) -> Iterable[str] | None:
    """Which states hold all runs that may be asked for; None when only the whole list does."""
    statuses = query.statuses or frozenset(Status)
    if query.waiting_for or query.overdue_at_ms is not None:
        statuses &= LIVE_STATUSES  # only they wait
    groups = {keys.group_of(status) for status in statuses}
    return None if None in groups else sorted(group for group in groups if group is not None)


def _at(entry: Item) -> str:
    return str(entry["at"]["S"])


def _row(group: tuple[str, str, str], times: Sequence[int]) -> dict[str, Any]:
    workflow, status, waiting_for = group
    return {
        "workflow": workflow,
        "status": Status(status),
        "count": len(times),
        "sum_created_ms": sum(times),
        "oldest_created_ms": min(times),
        "waiting_for": waiting_for,
    }
