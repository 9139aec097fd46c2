"""The ledger of a run: what it has cost so far, computed from its records on request.

The first LEDGER_RECORDS records of a long run stand for the others; the first page of a fork of more than
HISTORY_BRANCHES stands for its other pages, unless its branches were read to be shown. At most SURVEY_BRANCHES more
branches are read. What was not read is extrapolated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from stepwell.engine.forks.branches import branch_id, fork_id
from stepwell.engine.forks.marks import PAGES_READ, is_one_set
from stepwell.engine.forks.members import index_of, is_arrival
from stepwell.engine.records import ROOT, End, Fork, Kind, Record
from stepwell.engine.token import Token
from stepwell.limits import HISTORY_BRANCHES, LEDGER_RECORDS, SURVEY_BRANCHES, SURVEY_RECORDS
from stepwell.runtime.calls.charges import Counts, begun_apart, handed_over, of_lanes, of_start, of_tokens, reports
from stepwell.runtime.calls.logs import Logs
from stepwell.runtime.calls.shown import shown_writes
from stepwell.runtime.calls.survey import begun_branch, may_fork
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.ports import Joined
from stepwell.values import dataclass

_REQUESTS = 2  # per message, beside the one that sends it: receive and delete
_READ_UNITS = 3  # per message: the header, the snapshot and the records


@dataclass(frozen=True, slots=True)
class Cost:
    """What a run used. `is_whole`: no part of it is extrapolated."""

    records: int
    steps: int  # attempts
    waits: int
    forks: int
    write_units: int
    read_units: int
    queue_requests: int
    invocations: int
    schedules: int
    objects: int
    step_seconds: float
    output_bytes: int
    is_whole: bool = True


class Ledger:
    """Adds up the cost of one run. For one use."""

    def __init__(self, logs: Logs) -> None:
        self._logs, self._left, self._is_whole = logs, SURVEY_BRANCHES, True
        self._actors: set[str] = set()  # a message that ends a fork moves its branch and its parent

    async def cost(self, at: Standing) -> Cost:
        """Returns what the run has used until now, without its child runs."""
        length = at.token.slot + 1
        most = SURVEY_RECORDS if may_fork(at.graph) else LEDGER_RECORDS
        records = await self._logs.history(at.run_id, ROOT, -1, None if length <= most else LEDGER_RECORDS)
        counts = of_tokens(at.graph, at.header, {ROOT: records}, Token, {}, self._actors, at.token)
        counts += await self._forks(at, ROOT, records)
        counts = self._scaled(counts, length, len(records))
        for name, amount in of_start(at.graph, at.header):
            counts[name] += amount  # type: ignore[assignment]  # as in `of_tokens`
        return _cost(counts, is_whole=self._is_whole)

    def _scaled(self, counts: Counts, whole: int, part: int) -> Counts:
        if not part or whole <= part:
            return counts
        self._is_whole = False
        return Counter({name: amount * whole / part for name, amount in counts.items()})

    async def _forks(self, at: Standing, parent: str, records: Sequence[Record]) -> Counts:
        counts: Counts = Counter()
        for place, record in enumerate(records):
            if isinstance(record.next, Fork):
                fired = next((one for one in records[place + 1 :] if one.kind is Kind.JOINED), None)
                counts += await self._fork(at, fork_id(parent, record.slot), record.next, fired)
        return counts

    async def _fork(self, at: Standing, name: str, fork: Fork, fired: Record | None) -> Counts:
        """Counts the branches of a fork; a wide one by its first page, unless all of it was read already.

        `fired`: the record that its join wrote.
        """
        counts: Counts = Counter()
        is_known = all(self._logs.has_read(name, page) for page in fork.pages)  # they were read to show the run
        is_small = fork.width <= HISTORY_BRANCHES or bool(fork.needs)
        read = 0
        for page in fork.pages if is_known or is_small else fork.pages[:1]:
            indexes = fork.page_indexes(page)
            if not is_known:
                if self._left < len(indexes):
                    break
                self._left -= len(indexes)
            read += len(indexes)
            counts += await self._page(at, name, fork, page, fired)
        self._is_whole &= read == fork.width
        width = fork.width if fired is not None or is_known or is_small else await self._reached(at, name, fork, read)
        return self._scaled(counts, width, read) + await self._guests(at, name, fork)

    async def _reached(self, at: Standing, name: str, fork: Fork, read: int) -> int:
        """Estimates how many branches of an open fork have come as far as those of its first page.

        It compares how many branches of pages from all over the fork have ended.
        """
        pages = fork.pages[:: -(-len(fork.pages) // PAGES_READ)]
        ended = []
        for page in pages:
            joined = await self._logs.page(at.run_id, fork, name, page)
            ended.append(sum(is_arrival(member) for member in joined.members))
        return round(read * sum(ended) / ended[0] * len(fork.pages) / len(pages)) if ended[0] else fork.width

    async def _guests(self, at: Standing, name: str, fork: Fork) -> Counts:
        """Counts the writes by which branches began branches of slower pages: no record mentions those."""
        if is_one_set(fork) or not fork.by_arrival or not any(group.max_concurrency for group in fork.groups):
            return Counter()
        pages, found = fork.pages[:PAGES_READ], 0
        for page in pages:
            joined = await self._logs.read_join(at.run_id, f"{name}@{page}")
            found += sum(not is_arrival(member) for member in joined.members)
        return self._scaled(Counter(write_units=found), len(fork.pages), len(pages))

    async def _page(self, at: Standing, name: str, fork: Fork, page: int, fired: Record | None) -> Counts:
        begun = {branch_id(name, index): index for index in fork.page_indexes(page)}
        logs, lanes = await self._logs.branches(at.run_id, fork, name, page)
        counts = of_tokens(
            at.graph,
            at.header,
            logs,
            lambda token_id: begun_branch(token_id, begun[token_id], fork),
            {branch_id(name, index): len(lane.records(index)) for lane in lanes for index in lane.place.indexes},
            self._actors,
        )
        for charge, amount in of_lanes(at.run_id, lanes):
            counts[charge] += amount  # type: ignore[assignment]  # as in `of_tokens`
        if fired is not None and at.header.origin and fired.at_ms < at.header.created_ms and not fork.is_of_tasks:
            # the join is kept, so that no branch arrives again
            counts["write_units"] -= sum(isinstance(log[-1].next, End) for log in logs.values() if log)
        apart = begun_apart(fork, name, logs)
        reported = reports(at.graph, fork, page, logs.values())
        counts.update(messages=apart, sends=apart, write_units=reported)
        for charge, amount in handed_over(fork, name, logs):
            counts[charge] += amount  # type: ignore[assignment]  # as in `of_tokens`
        if any(record.kind is Kind.WAITING for records in logs.values() for record in records):
            joined = await self._logs.read_join(at.run_id, f"{name}@{page}") if fork.by_arrival else Joined()
            order = [index_of(member) for member in joined.order if is_arrival(member)]
            counts["write_units"] += shown_writes(fork, name, page, logs, order, fired)
        for token_id, records in logs.items():
            counts += await self._forks(at, token_id, records)
        return counts


def _cost(counts: Counts, *, is_whole: bool) -> Cost:
    messages = counts["messages"]
    return Cost(
        records=round(counts["records"]),
        steps=round(counts["steps"]),
        waits=round(counts["waits"]),
        forks=round(counts["forks"]),
        write_units=round(counts["write_units"]),
        read_units=round(counts["read_units"] + messages * _READ_UNITS),
        queue_requests=round(counts["sends"] + messages * _REQUESTS),
        invocations=round(messages),
        schedules=round(counts["schedules"]),
        objects=round(counts["objects"]),
        step_seconds=round(counts["step_seconds"], 3),
        output_bytes=round(counts["output_bytes"]),
        is_whole=is_whole,
    )
