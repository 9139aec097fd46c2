"""The sweeper: finds runs without progress and overdue waits, and wakes them. Finds nothing in a healthy system.

It repairs the work of callers that died between their append and what follows from it (the wake after an approval or a
start, a run's deadline, the parent of a child that was cancelled), and nothing else. It reads what is due, and each run
once when that is some minutes old (`rounds`); never the runs that wait. Whoever changes a run's status says when it is
due (`due`); for a run under way the sweeper computes the rest.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextvars import copy_context
from dataclasses import replace

from stepwell.engine import gathering
from stepwell.engine.children import call_of, child_id, is_decided, member_of
from stepwell.engine.decide import due_ms
from stepwell.engine.holding import is_held
from stepwell.engine.limits import permits, throttles
from stepwell.engine.limits.locks import waits
from stepwell.engine.names import node_of
from stepwell.engine.records import UPDATE, Fork, Parked, Record, RetryAt, Status
from stepwell.engine.starts import is_open
from stepwell.engine.token import Begun
from stepwell.engine.waits.wakers import can_wake, wakers_of
from stepwell.engine.writing import deadline_ms
from stepwell.errors import EngineFault, ExpressionError, NewerFormat, PortError
from stepwell.limits import ATTEMPT_MAX_MS, HOUR_MS, PAGE_ITEMS_MAX, STEP_TIMEOUT_MS
from stepwell.runtime.forks.lines import guests_in
from stepwell.runtime.log.due import due_of_wait, earliest, whole_minute
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.messages import Deadline, Timer, to_json
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.loop.pausing import begins_ms, last_ms
from stepwell.runtime.loop.rounds import NOTE, Rounds
from stepwell.runtime.loop.stopping import Stopping
from stepwell.runtime.ports import BROKEN_BLOB, Lane, Ports
from stepwell.runtime.ports.headers import RunQuery
from stepwell.runtime.waits.locks import Locks
from stepwell.runtime.waits.permits import Permits
from stepwell.runtime.waits.throttling import Throttling
from stepwell.values import dataclass

LIVE = frozenset(
    {Status.IDLE, Status.PENDING, Status.RUNNING, Status.WAITING, Status.PAUSED, Status.COMPENSATING}
)  # idle: its start may have died
UNREADABLE = "unreadable"  # a reason for which nothing is sent
LONGEST_PAUSE_MS = HOUR_MS  # between two wakes of a run that does not move


@dataclass(frozen=True, slots=True)
class StuckRun:
    """A run that stood still, and why."""

    run_id: str
    why: str  # overdue | no_progress | nothing_wakes | UNREADABLE


@dataclass(frozen=True, slots=True)
class Look:
    """The result of looking at a run or a token: why it was woken, and when it is due again; None for never."""

    why: str = ""
    due_ms: int | None = None


class Sweeper:
    """Looks at runs that are due. A needless wake is harmless: it is stale, or repeats effects."""

    def __init__(
        self, ports: Ports, logbook: Logbook, stopping: Stopping, *, sees_queue: bool = False, at_once: int = 1
    ) -> None:
        """`sees_queue`: the queue port sends only what is not there, so no step needs the benefit of the doubt.

        `at_once`: how many runs of a page to look at in parallel, each in a thread, if the ports use a network.
        """
        self._ports, self._logbook, self._stopping, self._sees_queue = ports, logbook, stopping, sees_queue
        self._at_once = at_once
        self._locks, self._permits = Locks(ports, logbook), Permits(ports, logbook)
        self._throttling = Throttling(ports, logbook)

    async def sweep(self, still_ms: int, left_ms: Callable[[], int] = lambda: 1) -> tuple[StuckRun, ...]:
        """Wakes live runs whose last record is older than `still_ms` and that wait for nothing, or too long.

        A page is always finished. If no time is left then, the next sweep goes on from there: each look moves a run's
        due time, and a note keeps the place among the runs that are new.
        """
        looked: dict[str, tuple[StuckRun, ...]] = {}  # each run is looked at once in a sweep
        if await self._sweep_due(looked, still_ms, left_ms):
            await self._sweep_new(looked, still_ms, left_ms)
        return tuple(one for found in looked.values() for one in found)

    async def _sweep_due(
        self, looked: dict[str, tuple[StuckRun, ...]], still_ms: int, left_ms: Callable[[], int]
    ) -> bool:
        """Looks at the runs that are due. Tells whether there was time for all."""
        cursor, before_ms = "", self._ports.clock.now_ms() - still_ms
        while True:
            page = await self._ports.runs.list_due(before_ms, PAGE_ITEMS_MAX, cursor)
            await self._look_at_all([header.run_id for header in page.headers], looked, still_ms)
            cursor = page.next_cursor
            if not cursor or left_ms() <= 0:
                return not cursor

    async def _sweep_new(
        self, looked: dict[str, tuple[StuckRun, ...]], still_ms: int, left_ms: Callable[[], int]
    ) -> None:
        """Looks at runs that the sweeper has not met. A run that leaves the list meanwhile has ended."""
        runs, note = self._ports.runs, await self._ports.notes.get_note(*NOTE)
        rounds = Rounds.of(note).begun(self._ports.clock.now_ms(), still_ms)
        listed = 0
        while rounds.stretches and not (listed and left_ms() <= 0):
            part = rounds.stretches[0]
            query = RunQuery(statuses=LIVE, since_ms=part.since_ms, limit=PAGE_ITEMS_MAX, cursor=part.cursor)
            page = await runs.list_runs(query)
            new = [one.run_id for one in page.headers if one.run_id not in looked and (part.all or not one.watched)]
            await self._look_at_all(new, looked, still_ms)
            listed += len(page.headers)
            rounds, before = rounds.after(page.next_cursor), note
            note = rounds.note()
            if not await self._ports.notes.put_note(*NOTE, note, before):
                return  # another sweep is running

    async def _look_at_all(
        self, run_ids: Sequence[str], looked: dict[str, tuple[StuckRun, ...]], still_ms: int
    ) -> None:
        """Looks at these runs, in threads if `at_once` permits: each look is four requests. Raises what one raises."""
        if self._at_once == 1 or len(run_ids) < 2:
            for run_id in run_ids:
                looked[run_id] = await self.look(run_id, still_ms)
            return
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - only where the ports are slow

        with ThreadPoolExecutor(self._at_once, thread_name_prefix="stepwell-sweep") as threads:
            work = [threads.submit(copy_context().run, run_now, self.look(run_id, still_ms)) for run_id in run_ids]
            looked.update((run_id, one.result()) for run_id, one in zip(run_ids, work, strict=True))

    async def look(self, run_id: str, still_ms: int) -> tuple[StuckRun, ...]:
        """Looks at one run. One whose log cannot be read is reported, so that the others are looked at as well."""
        try:
            return await self._look(run_id, still_ms)
        except NewerFormat:
            await self._ports.runs.watch(run_id, self._this_minute())  # its messages are put off for a newer worker
            return ()
        except (EngineFault, PortError) as error:
            if isinstance(error, PortError) and error.code != BROKEN_BLOB:
                raise
            await self._ports.runs.watch(run_id, self._this_minute())
            return (StuckRun(run_id, UNREADABLE),)

    async def _look(self, run_id: str, still_ms: int) -> tuple[StuckRun, ...]:
        at = await self._logbook.load(run_id)
        if at is None:
            return ()
        look = Look() if at.header.status.terminal else await self._look_at_run(at, still_ms)
        due = None if look.due_ms is None else whole_minute(look.due_ms)
        is_marked = at.header.watched and at.header.due_ms == due
        if not is_marked and not await self._ports.runs.watch(run_id, due, at.header):
            await self._ports.runs.watch(run_id, self._this_minute())  # it moved meanwhile, so it is under way
        return (StuckRun(run_id, look.why),) if look.why else ()

    async def _look_at_run(self, at: Standing, still_ms: int) -> Look:
        if at.token.ended:  # and its header says that it lives: the worker that ended it may have died
            return await self._wake_if_late(at, last_ms(at), still_ms)
        now_ms, limit_ms = self._ports.clock.now_ms(), deadline_ms(at.graph, at.run, at.token)
        if limit_ms is not None and limit_ms + still_ms < now_ms:
            await self._ports.queue.send(Lane.RESUME, to_json(Deadline(at.run_id)))
            return Look("overdue", self._again_ms(limit_ms))
        if is_held(at.run, at.token):
            await self._stopping.again(at)
            return Look(due_ms=limit_ms)
        look = await self._look_at(at, still_ms, shown=at.header.rev >= 2 * at.token.slot)
        return replace(look, due_ms=earliest(look.due_ms, limit_ms))

    async def _wake_if_late(self, at: Standing, due_ms: int, still_ms: int) -> Look:
        """Wakes a token that was to move by then."""
        return Look(due_ms=due_ms) if due_ms + still_ms >= self._ports.clock.now_ms() else await self._wake(at)

    async def _wake(self, at: Standing, why: str = "no_progress") -> Look:
        await self._ports.queue.send(Lane.WORK, to_json(replace(at.wake(), yields=not _is_taken_up(at))))
        return Look(why, self._ports.clock.now_ms())

    async def _look_at(self, at: Standing, still_ms: int, *, shown: bool, begins_ms: int = 0) -> Look:
        """Looks at a token, or at the branches that it waits for."""
        if at.token.has_open_tasks and not at.token.ended:
            return await self._look_at_tasks(at, still_ms, shown=shown)
        if at.token.last is not None and isinstance(at.token.last.next, Fork):
            return await self._look_at_branches(at, still_ms)
        parked = at.token.parked if at.token.resumption is None and at.token.undoing is None else None
        if parked is not None and (look := await self._look_at_ends(at, parked, still_ms)) is not None:
            return look
        if is_open(at.run, at.token):
            return await self._wake_if_late(at, gathering.due_ms(at.graph, at.run, at.token), still_ms)
        if _rests(at, self._ports.clock.now_ms()):
            return Look(due_ms=None if at.run.idle else at.run.start_at_ms)
        if (held_ms := await self._held_ms(at)) is not None:
            return Look(due_ms=held_ms)
        return await self._look_at_progress(at, parked, still_ms, shown=shown, begins_ms=begins_ms)

    async def _look_at_progress(
        self, at: Standing, parked: Parked | None, still_ms: int, *, shown: bool, begins_ms: int
    ) -> Look:
        """Wakes a token whose next record is late, and one whose wait is not shown or nothing can end."""
        now_ms, in_line = self._ports.clock.now_ms(), waits(at.token) or throttles.waits(at.token)
        expected_ms = self._due_ms(at, at.token.last, begins_ms)
        if expected_ms + still_ms >= now_ms and (parked is None or in_line or not shown):
            return Look(due_ms=expected_ms)
        has_waker = parked is None or in_line or can_wake(parked, wakers_of(parked, at.token.node, at.run_id))
        if parked is not None and shown and has_waker and not (in_line and await self._is_stuck(at)):
            return Look(due_ms=due_of_wait(at, now_ms))
        woken = await self._wake(at, "no_progress" if has_waker else "nothing_wakes")
        if parked is not None or self._sees_queue:
            return woken
        return replace(woken, due_ms=self._again_ms(expected_ms))

    def _again_ms(self, due_ms: int) -> int:
        """Returns when to look again at what is late, and was sent a message: each time that it is twice as late.

        The message may be behind thousands of others, so not each sweep sends one. At once where the queue is seen.
        """
        now_ms = self._ports.clock.now_ms()
        return now_ms if self._sees_queue else now_ms + min(now_ms - due_ms, LONGEST_PAUSE_MS)

    async def _look_at_ends(self, at: Standing, parked: Parked, still_ms: int) -> Look | None:
        """Looks at the timer and the children that end a wait. None: it has no children, and its timer is not late."""
        overdue = await self._look_at_timer(at, still_ms)
        return await self._look_at_children(at, parked, still_ms) if overdue is None and parked.children else overdue

    async def _look_at_timer(self, at: Standing, still_ms: int) -> Look | None:
        """Sends an overdue timer of a wait again; None if it is not overdue."""
        now_ms, timer_ms = self._ports.clock.now_ms(), due_ms(at.token)
        if timer_ms is None or timer_ms + still_ms >= now_ms:
            return None
        await self._ports.queue.send(Lane.RESUME, to_json(Timer(at.run_id, at.token.slot, at.token.id)))
        return Look("overdue", self._again_ms(timer_ms))

    async def _is_stuck(self, at: Standing) -> bool:
        """Tells whether a token that waits for locks or a permit could go on, but was not told."""
        return await (self._throttling if throttles.waits(at.token) else self._locks).is_stuck(at)

    async def _held_ms(self, at: Standing) -> int | None:
        """Returns when to look again at a run that waits for its workflow's limit; None for other runs."""
        if not permits.is_limited(at.graph) or not permits.begins(at.run, at.token):
            return None
        try:
            return await self._permits.due_ms(at)
        except ExpressionError:
            return None  # it has to fail for its key

    async def _look_at_children(self, at: Standing, parked: Parked, still_ms: int) -> Look:
        """Wakes a run whose wait missed the ends of its children: the wait begins again and reads them."""
        slot, members = at.token.slot, []
        for index in range(len(parked.children)):
            child = await self._ports.runs.get_run(child_id(at.run_id, at.token.id, slot, index))
            if child is not None and child.status.terminal and child.ended_ms + still_ms < self._ports.clock.now_ms():
                members.append(member_of(index, child.status))
        if not is_decided(call_of(at.graph, at.token), len(parked.children), members):
            return Look(due_ms=due_of_wait(at, self._ports.clock.now_ms()))
        return await self._wake(at)

    async def _look_at_tasks(self, at: Standing, still_ms: int, *, shown: bool) -> Look:
        """Looks at each operation of a function's tasks whose end the function does not know.

        And at the function itself: its timer, and an update whose caller died before it woke the run.
        """
        looks = [await self._look_at_operation(branch, begun, still_ms) async for branch, begun in self._operations(at)]
        timer_ms = due_ms(at.token) if at.token.resumption is None else None
        if timer_ms is not None and (overdue := await self._look_at_timer(at, still_ms)) is not None:
            looks.append(overdue)
        last = at.token.last
        is_update = last is not None and last.resumption is not None and last.resumption.kind == UPDATE
        if is_update and not shown and last_ms(at) + still_ms < self._ports.clock.now_ms():
            looks.append(await self._wake(at))
        return Look(next((one.why for one in looks if one.why), ""), earliest(timer_ms, *[one.due_ms for one in looks]))

    async def _operations(self, at: Standing) -> AsyncIterator[tuple[Standing, Begun]]:
        """Yields the operations whose ends the function does not know, each with what began it."""
        for slot, begun in at.token.tasks.items():
            fork = await self._logbook.fork(at.run_id, at.token.id, slot)
            for branch in await self._logbook.branches_at(fork, begun.open) if fork is not None else ():
                yield branch, begun

    async def _look_at_operation(self, at: Standing, begun: Begun, still_ms: int) -> Look:
        """Looks at an operation. The function learns of an end at once, unless that message was lost."""
        if not at.token.ended:
            return await self._look_at(at, still_ms, shown=True, begins_ms=begun.at_ms)
        return await self._wake(at) if last_ms(at) + still_ms < self._ports.clock.now_ms() else Look()

    async def _look_at_branches(self, at: Standing, still_ms: int) -> Look:
        """Looks at each live branch, and at each page's last ended one, whose arrival may have been lost."""
        fork = await self._logbook.fork(at.run_id, at.token.id, at.token.slot)
        if fork is None:
            return Look()
        now_ms = self._ports.clock.now_ms()
        branches = [branch for page in fork.fork.pages for branch in await self._logbook.branches(fork, page)]
        looks, guests = list[Look](), await guests_in(self._ports.log, fork)
        for index, branch in enumerate(branches):
            began_ms = None if branch.token.ended else begins_ms(fork, branches, index, guests)
            if began_ms is not None:
                looks.append(await self._look_at(branch, still_ms, shown=True, begins_ms=began_ms))
        for page in fork.fork.pages:
            ended = [branches[index] for index in fork.fork.page_indexes(page) if branches[index].token.ended]
            last = max(ended, key=last_ms, default=None)
            arrived_ms = None if last is None else self._due_ms(last, last.token.last)
            if last is not None and arrived_ms is not None and arrived_ms + still_ms < now_ms:
                await self._ports.queue.send(Lane.WORK, to_json(last.wake()))
                arrived_ms = now_ms if len(ended) == len(branches) else None
            looks.append(Look(due_ms=arrived_ms))
        return Look(next((one.why for one in reversed(looks) if one.why), ""), earliest(*[one.due_ms for one in looks]))

    def _this_minute(self) -> int:
        return whole_minute(self._ports.clock.now_ms())

    def _due_ms(self, at: Standing, last: Record | None, begins_ms: int = 0) -> int:
        """Returns by when to expect the next record: a step may take its timeout, a retry begins when it is due."""
        before_ms = last.at_ms if last else max(at.header.created_ms, at.run.start_at_ms, begins_ms)
        since_ms = max(before_ms, at.header.started_ms)  # its message, or its turn under a limit, may have come late
        if last is not None and isinstance(last.next, RetryAt):
            since_ms = last.next.at_ms
        is_waiting = at.token.parked is not None and at.token.resumption is None  # a step may have waited for a permit
        if self._sees_queue or (is_waiting and at.token.undoing is None):
            return since_ms
        return since_ms + _attempt_ms(at)


def _attempt_ms(at: Standing) -> int:
    """Returns how long the user code may take that the token may be running.

    Only workers load user code, so nobody else knows the limits that functions set themselves.
    """
    unknown_ms = ATTEMPT_MAX_MS if _is_taken_up(at) else STEP_TIMEOUT_MS
    node = at.graph.nodes.get(node_of(at.graph, at.token))
    if at.token.undoing is not None:
        return unknown_ms
    if node is None:
        return 0
    if node.step is not None:
        return unknown_ms if node.step.timeout_ms is None or node.step.limits is not None else node.step.timeout_ms
    waiting = node.wait or node.call
    return unknown_ms if node.durable is not None or (waiting is not None and waiting.timeout_actions) else 0


def _is_taken_up(at: Standing) -> bool:
    """Tells whether a worker has begun with it; else its message may be in the queue. Of a branch nobody knows."""
    return at.token.branch is not None or at.header.started_ms > 0


def _rests(at: Standing, now_ms: int) -> bool:
    """Tells whether nothing is due: the run starts later, or was only created."""
    if at.token.branch is not None:
        return False
    return at.token.last is None and (at.run.idle or at.run.start_at_ms > now_ms)
