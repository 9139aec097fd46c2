"""Surveys a run's forks: each with its branches from their logs, or a wide one with counts of its branches.

If a graph repeats a fork, only the last one is shown. At most SURVEY_RECORDS of the run's own records are read, and
SURVEY_BRANCHES branches, those of the newest forks; earlier forks are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from stepwell.definition.graph import Graph
from stepwell.engine.copying import changed
from stepwell.engine.durable.tasks import names_of, place_of
from stepwell.engine.fold import fold
from stepwell.engine.forks.branches import branch_id, fork_id
from stepwell.engine.forks.join import unpacked
from stepwell.engine.forks.lines import awaited
from stepwell.engine.forks.marks import is_one_set, waiting_of
from stepwell.engine.forks.members import guests_of, indexes_of
from stepwell.engine.records import ENDED, Fork, Kind, Record
from stepwell.engine.redriving import moved_forks
from stepwell.engine.token import NEW, Branch, Token
from stepwell.limits import HISTORY_BRANCHES, SURVEY_BRANCHES, SURVEY_RECORDS, SURVEY_WIDTH
from stepwell.runtime.calls.branches import woken_ms
from stepwell.runtime.calls.logs import Logs
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.ports import Joined
from stepwell.values import dataclass


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A fork, with all its branches, or, if it is a wide one, with counts in place of branches.

    `some_waiting`: of a wide one, some of the branches that wait, if they were read.
    """

    id: str
    node: str
    fork: Fork
    is_open: bool
    branches: tuple[Token, ...] = ()
    may_begin: Mapping[int, int] = field(default_factory=dict)  # since when, by index; 0: not read
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # by branches' first node, by status
    inner: tuple[Surveyed, ...] = ()
    names: tuple[str, ...] = ()  # of the operations that a durable function's tasks began
    some_waiting: tuple[Token, ...] = ()


def may_fork(graph: Graph) -> bool:
    """Tells whether runs of this graph can have branches."""
    nodes = graph.nodes.values()
    return any(one.durable or one.members or one.fan_out == "all" or _is_over(one.rules) for one in nodes)


def _is_over(rules: Iterable[object]) -> bool:
    return any(getattr(rule, "foreach", None) is not None for rule in rules)


class Surveyor:
    """Reads the forks of runs."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs

    async def survey(self, at: Standing) -> tuple[Surveyed, ...]:
        """Returns the forks of the run's root token, oldest first."""
        if not may_fork(at.graph):
            return ()
        after = max(at.token.slot - SURVEY_RECORDS, -1)
        records = await self._logs.history(at.run_id, at.token.id, after, None)
        found: list[Surveyed] = []
        left = SURVEY_BRANCHES
        for index, record in reversed(_forks(records)):
            is_open = all(later.kind is Kind.RECEIVED for later in records[index + 1 :])
            if isinstance(record.next, Fork) and record.next.is_of_tasks:
                begun = at.token.tasks.get(record.slot)
                is_open = begun is not None and bool(begun.open) and not at.token.ended
            most = max(min(SURVEY_WIDTH, left), HISTORY_BRANCHES)
            if isinstance(record.next, Fork) and record.next.is_of_tasks and record.next.width > most:
                surveyed = _tasks(at, record, record.next, records[index + 1 :], is_open=is_open)
            else:
                surveyed = await self._fork(at, at.token.id, record, most, is_open=is_open)
            left -= len(surveyed.branches)
            if left < 0:
                break
            found.append(surveyed)
        return tuple(reversed(found))

    async def _fork(self, at: Standing, parent: str, record: Record, most: int, *, is_open: bool) -> Surveyed:
        """Surveys one fork; one with more than `most` branches is counted by its joins."""
        name, fork = fork_id(parent, record.slot), record.next
        if not isinstance(fork, Fork):
            raise TypeError(f"{name} is no fork")
        node = record.node or at.graph.start
        if fork.width > most and not fork.needs:
            return Surveyed(name, node, fork, is_open, counts=await self._counts(at, name, fork, is_open=is_open))
        branches: list[Token] = []
        inside: list[tuple[str, Record, bool]] = []
        for page in fork.pages:
            ids = {branch_id(name, index): index for index in fork.page_indexes(page)}
            logs = await self._logs.logs_of(at.run_id, fork, name, page)
            for token_id, index in ids.items():
                records = logs.get(token_id, [])
                branches.append(fold(records, begun_branch(token_id, index, fork)))
                for later, one in _forks(records):
                    inside.append((token_id, one, is_open and later == len(records) - 1))
        inner = [
            await self._fork(at, token_id, one, HISTORY_BRANCHES, is_open=is_there)
            for token_id, one, is_there in (inside if _is_affordable(fork, inside) else ())
        ]
        ready = await self._ready(at, name, record, fork, branches) if is_open else {}
        names = names_of(record)
        return Surveyed(name, node, fork, is_open, tuple(branches), ready, inner=tuple(inner), names=names)

    async def _ready(
        self, at: Standing, name: str, record: Record, fork: Fork, branches: Sequence[Token]
    ) -> dict[int, int]:
        """Returns the branches that may begin, or have begun, and since when."""
        begun = at.token.tasks.get(record.slot) if name == fork_id(at.token.id, record.slot) else None
        forked_ms = begun.at_ms if begun is not None else record.at_ms  # a redriven run resumes kept tasks later
        ended = {index: one.last_ms for index, one in enumerate(branches) if one.ended}
        guests: dict[int, set[int]] = {}
        for page in fork.pages if fork.by_arrival and not is_one_set(fork) else ():
            guests[page] = guests_of((await self._logs.read_join(at.run_id, f"{name}@{page}")).order)
        waits = ((index, awaited(fork, index)) for index in range(fork.width))
        comers = ((index, wait, (ended, guests.get(wait.page, ()))) for index, wait in waits)
        return {
            index: woken_ms(wait, came, ended) if wait.count else forked_ms
            for index, wait, came in comers
            if wait.is_over(*came)
        }

    async def _counts(self, at: Standing, name: str, fork: Fork, *, is_open: bool) -> dict[str, Counter[str]]:
        """Counts the branches of a wide fork; one read for each page that is under way."""
        root = Joined() if is_one_set(fork) else await self._logs.read_join(at.run_id, name)
        found: dict[str, Counter[str]] = {}
        start = 0
        spans = []
        for group in fork.groups:
            spans.append((group, range(start, start + group.count)))
            start += group.count
        for page in fork.pages:
            indexes = fork.page_indexes(page)
            groups = [(group, within) for group, span in spans if (within := _shared(span, indexes))]
            tally = unpacked({page: root.numbers.get(page, 0)})
            if tally.arrived == len(indexes) and len(groups) == 1:
                counts = found.setdefault(groups[0][0].node, Counter())
                counts.update(completed=tally.arrived - tally.failed, failed=tally.failed)
                continue
            joined = await self._logs.page(at.run_id, fork, name, page)
            ended, failed = indexes_of(joined.members), _failed(joined)
            waiting = waiting_of(joined.numbers) - ended
            for group, within in groups:
                counts = found.setdefault(group.node, Counter())
                own = set(within)
                left = len(own - ended - waiting)
                counts.update(
                    completed=len(own & ended - failed), failed=len(own & failed), waiting=len(own & waiting),
                    **{"running" if is_open else "cancelled": left},
                )  # fmt: skip
        for group in fork.groups if is_open else ():
            _hold_back(found[group.node], group.max_concurrency)
        return found


def _tasks(at: Standing, record: Record, fork: Fork, later: Sequence[Record], *, is_open: bool) -> Surveyed:
    """Counts a function's tasks by operation if they are too many to read: the function's log has their ends."""
    names = names_of(record)
    left = set(range(fork.width))
    found: dict[str, Counter[str]] = {name: Counter() for name in names}
    for one in later:
        if one.resumption is not None and one.resumption.kind == ENDED:
            slot, index = place_of(one.resumption.part)
            if slot == record.slot and index in left:
                left.remove(index)
                found[names[index]]["failed" if one.error is not None else "completed"] += 1
    begun = at.token.tasks.get(record.slot)
    for index in left:
        is_live = is_open and begun is not None and index in begun.open
        status = "cancelled" if not is_live else "waiting" if begun and index in begun.waits else "running"
        found[names[index]][status] += 1
    name = fork_id(at.token.id, record.slot)
    return Surveyed(name, record.node or at.graph.start, fork, is_open, counts=found, names=names)


def _is_affordable(fork: Fork, inside: Iterable[tuple[str, Record, bool]]) -> bool:
    """Tells whether the forks inside this one's branches are read too: in a wide fork each may be wide."""
    widths = [one.next.width for _, one, _ in inside if isinstance(one.next, Fork)]
    return fork.width <= HISTORY_BRANCHES or sum(widths) <= SURVEY_BRANCHES


def _hold_back(counts: Counter[str], most: int) -> None:
    """Moves from `running` to `pending` what the concurrency limit holds back."""
    if most:
        running = min(counts["running"], max(most - counts["waiting"], 0))
        counts["pending"] += counts["running"] - running
        counts["running"] = running


def _forks(records: Sequence[Record]) -> list[tuple[int, Record]]:
    """Returns the records that fork, with their index: the last one per node, and every one of a function."""
    moved = moved_forks(records)
    found = [
        (index, record, record.next)
        for index, record in enumerate(records)
        if isinstance(record.next, Fork) and record.slot not in moved
    ]
    last = {record.node: index for index, record, _ in found}
    return [(index, record) for index, record, fork in found if fork.is_awaited or last[record.node] == index]


def begun_branch(token_id: str, index: int, fork: Fork) -> Token:
    """Returns a branch before its first record, without the scope of its parent."""
    start, node = 0, ""
    for group in fork.groups:
        if start <= index < start + group.count:
            node = group.node
        start += group.count
    return changed(NEW, id=token_id, branch=Branch(index, fork.width, "", node, fork.join))


def _shared(one: range, other: range) -> range:
    return range(max(one.start, other.start), min(one.stop, other.stop))


def _failed(joined: Joined) -> set[int]:
    return indexes_of(member for member in joined.members if member.endswith("!"))
