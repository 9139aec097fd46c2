"""Recovery on demand: wakes what is due and stuck, and after a restore everything that waits.

A table that was restored to an earlier time has lost its messages, and its timers may have fired. Every run's state is
in its log, so it goes on if it is woken: the effects of its last record are performed again, which registers its waits,
sets its timers, and takes events that are there. Nothing here runs a step that a worker may be running.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from stepwell.engine import gathering
from stepwell.engine.holding import is_held
from stepwell.engine.records import RetryAt, Status
from stepwell.engine.starts import is_open
from stepwell.engine.writing import deadline_ms
from stepwell.errors import EngineFault, NewerFormat
from stepwell.limits import BATCH_SHOWN, MINUTE_MS, PAGE_ITEMS_MAX
from stepwell.runtime.calls import updates
from stepwell.runtime.forks.running import running_forks
from stepwell.runtime.log.alarms import Alarms
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.messages import Deadline, Update, to_json
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.sweeper import LIVE, UNREADABLE, StuckRun, Sweeper
from stepwell.runtime.ports import Lane, Ports
from stepwell.runtime.ports.headers import Header, RunQuery
from stepwell.runtime.starts.schedules import Scheduling
from stepwell.runtime.starts.starting import Starter

_PAGE = 50  # runs per page: each is read and armed, and the pass has to end on time
STILL_MS = MINUTE_MS  # a run is stuck if what is due has not happened for this long


@dataclass
class Report:
    """The result of a pass.

    `found`: how many runs stood still, by reason; `first`: some of them, with the reason. `rearmed`: runs whose waits,
    timers and deadlines were registered again. `next_cursor`: where the next pass begins.
    """

    looked: int = 0
    found: Counter[str] = field(default_factory=Counter)
    first: list[tuple[str, str]] = field(default_factory=list)
    rearmed: int = 0
    next_cursor: str = ""

    def add(self, found: tuple[StuckRun, ...]) -> None:
        """Adds the findings of one run."""
        self.looked += 1
        self.found.update(one.why for one in found)
        self.first += [(one.run_id, one.why) for one in found[: BATCH_SHOWN - len(self.first)]]


class Recovery:
    """Recovers runs, one pass after the other. Every operation may be repeated."""

    def __init__(
        self, ports: Ports, logbook: Logbook, sweeper: Sweeper, starter: Starter, scheduling: Scheduling
    ) -> None:
        self._ports, self._logbook, self._sweeper, self._starter = ports, logbook, sweeper, starter
        self._scheduling, self._alarms = scheduling, Alarms(ports)

    async def recover(self, left_ms: Callable[[], int], cursor: str = "") -> Report:
        """Looks at runs that are due. A pass ends with its page when no time is left."""
        report, before_ms = Report(next_cursor=cursor), self._ports.clock.now_ms() - STILL_MS
        while not report.looked or (report.next_cursor and left_ms() > 0):
            page = await self._ports.runs.list_due(before_ms, PAGE_ITEMS_MAX, report.next_cursor)
            for header in page.headers:
                report.add(await self._sweeper.look(header.run_id, STILL_MS))
            report.next_cursor = page.next_cursor
            if not page.headers:
                break
        return report

    async def recover_all(self, left_ms: Callable[[], int], cursor: str = "") -> Report:
        """Looks at every run that has not ended, and rearms it. The first pass also rearms the schedules."""
        report = Report(next_cursor=cursor)
        if not cursor:
            await self._scheduling.rearm()
        while not report.looked or (report.next_cursor and left_ms() > 0):
            page = await self._ports.runs.list_runs(RunQuery(statuses=LIVE, limit=_PAGE, cursor=report.next_cursor))
            for header in page.headers:
                found = await self._sweeper.look(header.run_id, STILL_MS)
                report.add(found)
                if not any(one.why == UNREADABLE for one in found):
                    report.rearmed += await self._rearm(header)
            report.next_cursor = page.next_cursor
            if not page.headers:
                break
        return report

    async def _rearm(self, header: Header) -> bool:
        try:
            at = await self._logbook.load(header.run_id)
        except (EngineFault, NewerFormat):
            return False
        if at is None or at.token.ended or header.status is Status.IDLE:
            return False
        if at.token.last is None and header.start_at_ms > self._ports.clock.now_ms():
            await self._starter.set_going(header)
            return True
        if is_open(at.run, at.token):
            await self._starter.set_going(header, gathering.due_ms(at.graph, at.run, at.token))
            return True
        limit_ms = deadline_ms(at.graph, at.run, at.token)
        if limit_ms is not None:
            await self._alarms.arm(Lane.RESUME, Deadline(at.run_id), limit_ms, at.header.created_ms)
        if is_held(at.run, at.token):
            return limit_ms is not None
        async for token in self._resting(at):
            await self._rearm_token(token)
        if at.graph.replays:
            await self._rearm_updates(at)
        return True

    async def _rearm_token(self, at: Standing) -> None:
        """Sends a wake, which has the effects of the last record performed again; for a retry, when it is due."""
        last = at.token.last
        if last is not None and isinstance(last.next, RetryAt):
            await self._alarms.arm(Lane.WORK, at.wake(), last.next.at_ms, at.header.created_ms)
        else:
            await self._ports.queue.send(Lane.WORK, to_json(at.wake()))

    async def _rearm_updates(self, at: Standing) -> None:
        pending = await self._ports.mailbox.pending_events(updates.topic_of(at.run_id), self._ports.clock.now_ms())
        for event in pending:
            await self._ports.queue.send(Lane.WORK, to_json(Update(at.run_id, event.id)))

    async def _resting(self, at: Standing) -> AsyncIterator[Standing]:
        """Yields the run's tokens that wait for an event or a retry: none whose step may be running."""
        token, last = at.token, at.token.last
        if token.ended:
            return
        async for branch in self._branches(at):
            async for one in self._resting(branch):
                yield one
        waits = token.parked is not None and token.resumption is None
        is_retried = (
            last is not None and isinstance(last.next, RetryAt) and last.next.at_ms > self._ports.clock.now_ms()
        )
        if waits or is_retried:
            yield at

    async def _branches(self, at: Standing) -> AsyncIterator[Standing]:
        """Yields the branches of the token's forks that may be running, or the operations of a function's tasks."""
        token = at.token
        if token.has_open_tasks:
            for slot, begun in token.tasks.items():
                fork = await self._logbook.fork(at.run_id, token.id, slot)
                for branch in await self._logbook.branches_at(fork, begun.open) if fork is not None else ():
                    yield branch
            return
        for slot in await running_forks(self._logbook, at):
            fork = await self._logbook.fork(at.run_id, token.id, slot)
            for page in fork.fork.pages if fork is not None else ():
                for branch in await self._logbook.branches(fork, page) if fork is not None else ():
                    yield branch
