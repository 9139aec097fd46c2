"""The sweeper: finds runs without progress and overdue waits, and wakes them. In a healthy system it finds nothing.

What it repairs: a caller that died between its append and what follows from it (the wake after an approval or a
start, a run's deadline, the parent of a child that was cancelled), and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepwell.definition.authoring import StepDefaults
from stepwell.engine.children import call_of, child_id, is_decided, member_of
from stepwell.engine.forks import awaited
from stepwell.engine.locks import waits
from stepwell.engine.names import node_of
from stepwell.engine.parts import due_ms
from stepwell.engine.records import Fork, Parked, Record, RetryAt, Status
from stepwell.engine.retry import resolve_policy
from stepwell.engine.writing import deadline_ms
from stepwell.errors import EngineFault, NewerFormat, PortError
from stepwell.limits import PAGE_ITEMS_MAX, STEP_TIMEOUT_MS
from stepwell.runtime.locks import Locks
from stepwell.runtime.logbook import ForkedParent, Logbook, Standing
from stepwell.runtime.messages import Deadline, Timer, to_json
from stepwell.runtime.ports import BROKEN_BLOB, Header, Lane, Ports, RunQuery

LIVE = frozenset(
    {Status.IDLE, Status.PENDING, Status.RUNNING, Status.WAITING, Status.COMPENSATING}
)  # idle: its start may have died


@dataclass(frozen=True, slots=True)
class Found:
    """A run that stood still, and what was sent to move it."""

    run_id: str
    why: str  # overdue | no_progress | unreadable


class Sweeper:
    """Looks at every live run. Waking one that needs nothing is harmless: the wake is stale, or repeats effects."""

    def __init__(self, ports: Ports, logbook: Logbook, *, sees_queue: bool = False) -> None:
        """`sees_queue`: the queue port sends only what is not there, so that no step needs the benefit of the doubt."""
        self._ports, self._logbook, self._sees_queue = ports, logbook, sees_queue
        self._locks = Locks(ports, logbook)

    async def sweep(self, still_ms: int) -> tuple[Found, ...]:
        """Wakes live runs whose last record is older than `still_ms` and that wait for nothing, or too long."""
        found: list[Found] = []
        cursor = ""
        while True:
            page = await self._ports.store.list_runs(RunQuery(statuses=LIVE, limit=PAGE_ITEMS_MAX, cursor=cursor))
            for header in page.headers:
                found.extend(await self._look_safely(header, still_ms))
            if not page.next_cursor:
                return tuple(found)
            cursor = page.next_cursor

    async def _look_safely(self, header: Header, still_ms: int) -> tuple[Found, ...]:
        """One run whose log cannot be read does not keep the others from being looked at; it is reported."""
        try:
            return await self._look(header, still_ms)
        except NewerFormat:
            return ()  # its messages are put off for a newer worker
        except (EngineFault, PortError) as error:
            if isinstance(error, PortError) and error.code != BROKEN_BLOB:
                raise
            return (Found(header.run_id, "unreadable"),)

    async def _look(self, header: Header, still_ms: int) -> tuple[Found, ...]:
        at = await self._logbook.load(header.run_id)
        if at is None:
            return ()
        now_ms = self._ports.clock.now_ms()
        limit_ms = deadline_ms(at.graph, at.run, at.token)
        if limit_ms is not None and limit_ms + still_ms < now_ms and not at.token.ended:
            await self._ports.queue.send(Lane.RESUME, to_json(Deadline(header.run_id)))
            return (Found(header.run_id, "overdue"),)
        found = await self._look_at(at, still_ms, shown=header.rev >= 2 * at.token.slot)
        return (Found(header.run_id, found),) if found else ()

    async def _look_at(self, at: Standing, still_ms: int, *, shown: bool, begins_ms: int = 0) -> str:
        """What is wrong with a token, or with the branches that it waits for; "" when nothing is."""
        now_ms = self._ports.clock.now_ms()
        if at.token.last is not None and isinstance(at.token.last.next, Fork):
            return await self._look_at_branches(at, still_ms)
        parked, last = at.token.parked, at.token.last
        waiting = parked is not None and at.token.resumption is None and at.token.undoing is None
        due = due_ms(at.token) if waiting else None
        if due is not None and due + still_ms < now_ms:
            await self._ports.queue.send(Lane.RESUME, to_json(Timer(at.run_id, at.token.slot, at.token.id)))
            return "overdue"
        if waiting and parked is not None and parked.children:
            return await self._look_at_children(at, parked, still_ms)
        if _rests(at, now_ms) or self._due_ms(at, last, begins_ms) + still_ms >= now_ms:
            return ""
        if waiting and shown and not (waits(at.token) and await self._locks.is_stuck(at)):
            return ""
        await self._ports.queue.send(Lane.WORK, to_json(at.wake()))
        return "no_progress"

    async def _look_at_children(self, at: Standing, parked: Parked, still_ms: int) -> str:
        """Child runs that ended a while ago, and that the wait for them should know of: to begin it again tells it."""
        slot, members = at.token.slot, []
        for index in range(len(parked.children)):
            child = await self._ports.store.get_run(child_id(at.run_id, at.token.id, slot, index))
            if child is not None and child.status.terminal and child.ended_ms + still_ms < self._ports.clock.now_ms():
                members.append(member_of(index, child.status))
        if not is_decided(call_of(at.graph, at.token), len(parked.children), members):
            return ""
        await self._ports.queue.send(Lane.WORK, to_json(at.wake()))
        return "no_progress"

    async def _look_at_branches(self, at: Standing, still_ms: int) -> str:
        """Each branch that runs; and of each page the branch that ended last, whose arrival may have been lost."""
        fork = await self._logbook.fork(at.run_id, at.token.id, at.token.slot)
        if fork is None:
            return ""
        found = ""
        branches = [branch for page in fork.fork.pages for branch in await self._logbook.branches(fork, page)]
        for index, branch in enumerate(branches):
            begins_ms = None if branch.token.ended else _begins_ms(fork, branches, index)
            if begins_ms is not None:
                found = await self._look_at(branch, still_ms, shown=True, begins_ms=begins_ms) or found
        for page in fork.fork.pages:
            ended = [branches[index] for index in fork.fork.page_indexes(page) if branches[index].token.ended]
            last = max(ended, key=_last_ms, default=None)
            if last is not None and self._due_ms(last, last.token.last) + still_ms < self._ports.clock.now_ms():
                await self._ports.queue.send(Lane.WORK, to_json(last.wake()))
        return found

    def _due_ms(self, at: Standing, last: Record | None, begins_ms: int = 0) -> int:
        """By when the next record may be expected: a step takes its time, a retry begins when it is due."""
        since_ms = last.at_ms if last else max(at.header.created_ms, at.run.start_at_ms, begins_ms)
        if last is not None and isinstance(last.next, RetryAt):
            since_ms = last.next.at_ms
        node = at.graph.nodes.get(node_of(at.graph, at.token))
        if at.token.undoing is not None and not self._sees_queue:
            return since_ms + STEP_TIMEOUT_MS
        if self._sees_queue or node is None or node.step is None or at.token.parked is not None:
            return since_ms
        return since_ms + resolve_policy(node.step, StepDefaults()).timeout_ms


def _begins_ms(fork: ForkedParent, branches: Sequence[Standing], index: int) -> int | None:
    """Since when the branch could begin; None while others have to end before it."""
    before = [branches[one] for one in awaited(fork.fork, index)]
    if not all(one.token.ended for one in before):
        return None
    return max([fork.parent.token.last.at_ms if fork.parent.token.last else 0, *map(_last_ms, before)])


def _last_ms(at: Standing) -> int:
    return at.token.last.at_ms if at.token.last else 0


def _rests(at: Standing, now_ms: int) -> bool:
    """Whether nothing is due: a run to start later, or one that was only created."""
    if at.token.branch is not None:
        return False
    return at.token.last is None and (at.run.idle or at.run.start_at_ms > now_ms)
