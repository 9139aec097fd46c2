"""Keeping: collects what a redriven run starts out with from the logs of the run that failed.

    0/3.0 completed   its records, and those below it   0/5.0          and its arrival at 0/5
    0/3.1 failed      its records before the failure    0/5.1          and REDRIVEN, after which it goes on
    0/3.2 not begun   nothing

The fork of a failed run is closed first: from then on no branch of it moves, so a repeated call collects the same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import field, replace

from stepwell.engine.children import known_children
from stepwell.engine.copying import changed
from stepwell.engine.durable.finished import path_of
from stepwell.engine.durable.tasks import named, names_of
from stepwell.engine.fold import fold
from stepwell.engine.forks.branches import Branches, branch_id, fork_id, without_lanes
from stepwell.engine.forks.lines import awaited
from stepwell.engine.forks.members import member_of
from stepwell.engine.records import ENDED, ROOT, End, Finished, Fork, Goto, Kind, Record, Status
from stepwell.engine.redriving import Kept, completed_later, is_whole, kept_of_branch, visits_of
from stepwell.engine.token import Begun, Token
from stepwell.engine.waits.aside import is_aside
from stepwell.errors import Conflict, EngineFault
from stepwell.limits import REDRIVE_WRITES
from stepwell.runtime.forks.forking import Forking
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import ForkedParent
from stepwell.runtime.ports.headers import REDRIVE
from stepwell.values import dataclass

NOTHING: Mapping[int, Begun] = {}


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The members that the join of a fork's page starts out with."""

    fork_id: str
    page: int
    members: tuple[str, ...]


@dataclass(slots=True)
class Plan:
    """What a redrive writes, in this order: records, branches that go on, arrivals, and that the run goes on."""

    root: Kept
    logs: list[tuple[str, Record]] = field(default_factory=list)  # by token
    branches: list[Kept] = field(default_factory=list)
    failed: dict[str, Sequence[Record]] = field(default_factory=dict)  # of these: their logs in the failed run, and
    branch_ids: dict[str, str] = field(default_factory=dict)  # their ids there
    arrivals: list[Arrivals] = field(default_factory=list)
    finished: list[Finished] = field(default_factory=list)  # whose results the tasks of the new run take
    arrived: int = 0  # members of all arrivals

    @property
    def last_ms(self) -> int:
        """Returns when the newest record was written."""
        return max((record.at_ms for _, record in self.logs), default=0)

    def add(self, token: str, record: Record) -> None:
        """Adds a record; each branch has its own log in the new run. Raises Conflict if there are too many.

        What began several operations is not compared by their arguments any more: those of one that failed may have
        been the mistake that is mended.
        """
        kept = changed(record, arguments=0) if isinstance(record.next, Fork) and record.arguments else record
        self.logs.append((token, without_lanes(kept)))
        self._check()

    def go_on(self, branch: Kept, was: str = "", failed: Sequence[Record] = ()) -> None:
        """Adds a branch that did not complete, and goes on. Raises Conflict if there are too many.

        `was`: its id in the failed run. `failed`: its log there.
        """
        self.branches.append(branch)
        self.branch_ids[branch.token.id], self.failed[branch.token.id] = was, failed
        self._check()

    def finish(self, one: Finished) -> None:
        """Adds a step that a task completed after the failure. Raises Conflict if there are too many."""
        self.finished.append(one)
        self._check()

    def arrive(self, arrivals: Arrivals) -> None:
        """Adds branches that completed. Raises Conflict if there are too many."""
        self.arrivals.append(arrivals)
        self.arrived += len(arrivals.members)
        self._check()

    def _check(self) -> None:
        if len(self.logs) + len(self.branches) + len(self.finished) + self.arrived > REDRIVE_WRITES:
            raise Conflict(f"a redrive or a fork writes at most {REDRIVE_WRITES:,} times, and this one needs more: "
                           "once for each record that it keeps, and for each branch", code="log_too_long",
                           hint="go on `from` an earlier step or `at` an earlier slot, or rerun it")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Part:
    """A step of a token, or an operation of a function; "" for what the function's code does next."""

    token: str
    step: str


def kept_steps(plan: Plan) -> list[Part]:
    """Returns the steps and waits that completed: they are kept with their results. Waits beside steps have none."""
    beside = {(token, record.slot) for token, record in plan.logs if is_aside(record)}
    finished = [Part(*_place_of(one)) for one in plan.finished]
    return [
        Part(token, record.node)
        for token, record in plan.logs
        if record.error is None
        and (record.kind is Kind.RESUMED or (record.kind is Kind.STEP and isinstance(record.next, Goto | End | Fork)))
        and not (record.resumption is not None and record.resumption.kind == ENDED)
        and (token, record.slot - 1) not in beside
    ] + finished


def dropped(plan: Plan, records: Sequence[Record]) -> list[Part]:
    """Returns a function's operations that it began after it failed, that completed, and that are not kept.

    `records`: of the failed run. Those of tasks are of tasks that the failure reached, or no steps.
    """
    taken = {place for place, _ in map(_place_of, plan.finished)}
    kept = {record.slot for token, record in plan.logs if token == ROOT and names_of(record)}
    begun = {
        named((record.slot, index)): name
        for record in records
        if record.slot not in kept
        for index, name in enumerate(names_of(record))
    }
    parts = [
        one.resumption.part
        for one in records
        if one.error is None and one.resumption is not None and one.resumption.kind == ENDED
    ]
    found = [Part(f"{ROOT}/{part}", begun[part]) for part in parts if part in begun]
    own = [Part(ROOT, name) for name, slot in completed_later(records) if f"{ROOT}@{slot}" not in _places(plan)]
    return [*own, *(one for one in found if one.token not in taken)]


def _places(plan: Plan) -> set[str]:
    """Returns the places, token@slot, in the failed run of what the tasks of the new run take."""
    return {one.place.partition(":")[2] for one in plan.finished}


def _place_of(one: Finished) -> tuple[str, str]:
    """Returns the token in whose log the result is, and the step."""
    token = one.place.partition(":")[2].partition("@")[0]
    return token, one.what.partition(" ")[2] or one.what


def going_on(plan: Plan, since: str) -> list[Part]:
    """Returns where the new run goes on: in the branches that are not kept, or in its root.

    `since`: the step that the caller names. If it is one of a function's tasks, the other open tasks go on too.
    """
    named = {
        branch_id(fork_id(token, record.slot), index): name
        for token, record in plan.logs
        for index, name in enumerate(names_of(record))
    }
    going = plan.branches or [plan.root]
    parts = [Part(one.token.id, _step_of(plan, one, named.get(one.token.id, ""))) for one in going]
    return [*parts, Part(plan.root.token.id, since)] if since and plan.branches else parts


def _step_of(plan: Plan, branch: Kept, named: str) -> str:
    """Returns where a branch goes on. What is kept of a function's throttled step, its permit, names the function."""
    if (failed := plan.failed.get(branch.token.id)) and failed[-1].kind is Kind.STEP and failed[-1].error is not None:
        return failed[-1].node
    return branch.node or named or branch.token.node


class Keeper:
    """Collects what a redrive or a fork keeps of one run."""

    def __init__(
        self, logbook: Logbook, forking: Forking, run_id: str, *, is_fork: bool = False, is_dry: bool = False
    ) -> None:
        """`is_fork`: the run may be under way and is left alone: open operations of its tasks begin anew.

        `is_dry`: nothing is written, so branches that nobody has closed are read as they are.
        """
        self._logbook, self._forking, self._run_id = logbook, forking, run_id
        self._is_fork, self._is_dry = is_fork, is_dry

    async def plan(self, kept: Kept) -> Plan:
        """Returns the plan. Raises Conflict for a branch that cannot go on, or for too many records."""
        plan = Plan(kept)
        plan.root = await self._token(ROOT, ROOT, kept, plan)
        await self._finished(kept, plan)
        return plan

    async def holder_of(self, records: Sequence[Record], step: str) -> str:
        """Returns the step or operation of the root whose branches came to this step; "" if none is found.

        It looks at as many records as a redrive may write.
        """
        left = REDRIVE_WRITES
        async for holder, log in self._branches(ROOT, records):
            if any(node == step for _, node in visits_of(log)):
                return holder
            left -= len(log)
            if left < 0:
                break
        return ""

    async def _branches(self, token: str, records: Sequence[Record]) -> AsyncIterator[tuple[str, Sequence[Record]]]:
        """Yields the logs of the branches that a token opened, with what forked, and of those below."""
        for record, fork in ((one, one.next) for one in records if isinstance(one.next, Fork)):
            names, below = names_of(record), fork_id(token, record.slot)
            for page in fork.pages:
                logs = await self._logbook.logs_of(self._run_id, fork, below, page)
                for index in fork.page_indexes(page):
                    holder, name = names[index] if names else record.node, branch_id(below, index)
                    yield holder, logs.get(name, ())
                    async for _, log in self._branches(name, logs.get(name, ())):
                        yield holder, log

    async def _finished(self, kept: Kept, plan: Plan) -> None:
        """Adds what tasks completed after the failure, with the places of the results."""
        for one in kept.later:
            slot, arguments = one.slot, one.arguments
            if one.token != ROOT:
                last = (await self._logbook.history(self._run_id, one.token, -1, None))[-1]
                slot, arguments = last.slot, last.arguments
            plan.finish(Finished(path_of(one.task), one.what, f"{self._run_id}:{one.token}@{slot}", arguments))
        for earlier in kept.finished:
            plan.finish(earlier)

    async def _token(self, was: str, now: str, kept: Kept, plan: Plan) -> Kept:
        """Adds a token that goes on. `was`: its id in the failed run; `now`: its id in the new one."""
        if kept.reopens is None:
            await self._copy(was, now, kept.records, plan, kept.token.tasks)
            await self._tasks(was, kept, plan)
            return kept
        await self._copy(was, now, kept.records[:-1], plan)
        plan.add(now, kept.records[-1])  # the record of its fork: its branches get new ids
        return replace(kept, reopens=await self._fork(was, now, kept, plan))

    async def _copy(
        self, was: str, now: str, records: Sequence[Record], plan: Plan, but: Mapping[int, Begun] = NOTHING
    ) -> None:
        """Adds records, and those of the branches that they opened, but for branches still open (`but`, by slot)."""
        for record in records:
            plan.add(now, self._with_children(was, record))
            if not isinstance(record.next, Fork):
                continue
            for page in record.next.pages:
                indexes = record.next.page_indexes(page)
                open_ = but[record.slot].open if record.slot in but else ()
                names = {index: branch_id(fork_id(was, record.slot), index) for index in indexes if index not in open_}
                logs = await self._logbook.logs_of(self._run_id, record.next, fork_id(was, record.slot), page)
                for index, name in names.items():
                    below = branch_id(fork_id(now, record.slot), index)
                    await self._copy(name, below, logs.get(name, ()), plan)

    def _with_children(self, was: str, record: Record) -> Record:
        """Returns a record that names the child runs which it started: they stay those of the run that is redriven."""
        if record.parked is None or not record.parked.children:
            return record
        return changed(record, parked=known_children(record.parked, self._run_id, was, record.slot))

    async def _tasks(self, was: str, kept: Kept, plan: Plan) -> None:
        """Adds the open operations of a function's tasks. Completed ones report their result once the others resume."""
        token = kept.token
        for slot, begun in token.tasks.items():
            if self._is_fork:
                for index in begun.open:
                    plan.go_on(replace(kept, records=(), token=Token(branch_id(fork_id(token.id, slot), index))))
            if self._is_fork or not begun.open:  # only a timer is open
                continue
            found = await self._logbook.fork(self._run_id, was, slot)
            if found is None:
                raise EngineFault(f"{was} began nothing in slot {slot}", code="broken_log")
            logs = await self._closed(found, sorted({found.fork.page_of(index) for index in begun.open}))
            for index in begun.open:
                name, branch = branch_id(found.id, index), Token(branch_id(fork_id(token.id, slot), index))
                log = logs.get(index, [])
                if _is(fold(log, branch), Status.COMPLETED) and is_whole(log):
                    await self._copy(name, branch.id, log, plan)
                elif log:
                    going = kept_of_branch(f"{self._run_id}:{name}", log, branch)
                    plan.go_on(await self._token(name, branch.id, going, plan), name, log)

    async def _fork(self, was: str, now: str, kept: Kept, plan: Plan) -> Fork:
        """Adds the branches of the fork in which a token failed. Returns the fork with the indexes that it keeps."""
        found = await self._logbook.fork(self._run_id, was, kept.fork_slot) or await self._unopened(was, kept.fork_slot)
        if found is None or kept.reopens is None:
            raise EngineFault(f"{was} forked in no slot {kept.fork_slot}", code="broken_log")
        below = fork_id(now, len(kept.records) + 1)
        ended, completed = set[int](), set[int]()
        pages = found.fork.pages
        for part in (
            [pages] if found.fork.needs or found.fork.by_arrival else [pages[page : page + 1] for page in pages]
        ):
            logs = await self._closed(found, part)
            tokens = {index: fold(log, Token(branch_id(below, index))) for index, log in logs.items()}
            ended |= {index for index, token in tokens.items() if not _is(token, Status.CANCELLED)}
            completed |= {
                index for index, token in tokens.items() if _is(token, Status.COMPLETED) and is_whole(logs[index])
            }
            before = completed if found.fork.needs else ended
            for index, log in logs.items():
                name, token = branch_id(found.id, index), tokens[index]
                if index in completed:
                    await self._copy(name, token.id, log, plan)
                elif len(log) > 1 or awaited(found.fork, index).is_over(before):  # else it cannot have begun anything
                    going = kept_of_branch(f"{self._run_id}:{name}", log, Token(token.id))
                    plan.go_on(await self._token(name, token.id, going, plan), name, log)
            for page in part:
                there = [index for index in found.fork.page_indexes(page) if index in completed]
                if there:
                    plan.arrive(Arrivals(below, page, tuple(member_of(one, tokens[one]) for one in there)))
        return replace(kept.reopens, needs=found.fork.needs, kept=tuple(sorted(completed)))

    async def _unopened(self, was: str, slot: int) -> ForkedParent | None:
        """Returns the fork that a redriven token was to reopen in this slot, if it ended before that."""
        at = await self._logbook.load(self._run_id, was)
        at = None if at is None else await self._logbook.as_it_was(at, slot - 1)
        last = None if at is None else at.token.last
        if at is None or last is None or last.reopens is None:
            return None
        opened = Record(slot, Kind.REOPENED, last.by, last.at_ms, at.token.node, next=last.reopens)
        at = at.after(changed(opened, evaluator=last.evaluator))
        return ForkedParent(at, Branches(self._logbook.moment(at, last.by), at.token))

    async def _closed(self, fork: ForkedParent, pages: Iterable[int]) -> dict[int, list[Record]]:
        """Closes these pages, so that no branch moves any more, and returns the branches' logs by index."""
        found: dict[int, list[Record]] = {}
        for page in pages:
            if not self._is_dry:
                await self._forking.end_page(fork, page, f"{REDRIVE}:{self._run_id}")
            indexes = {branch_id(fork.id, index): index for index in fork.fork.page_indexes(page)}
            logs = await self._logbook.logs_of(self._run_id, fork.fork, fork.id, page)
            found |= {indexes[name]: log for name, log in logs.items()}
        return found


def _is(token: Token, status: Status) -> bool:
    return token.end is not None and token.end.status is status
