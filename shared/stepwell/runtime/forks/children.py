"""Performs the effects of waits for child runs: starts children, tells parents of their ends, ends or leaves them.

start   the wait's record ── a header and a wake for each child
tell    the child's end ── its siblings' set ── complete? ── resumed, into the parent's log, and a wake for it
end     the wait is over ── a message for each child, which cancels it if it still runs
leave   the same, of children that are to run on ── those that do not run yet are set going
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import replace

from stepwell.engine.actions import Outcome, RunStep
from stepwell.engine.children import (
    DETACHED,
    call_of,
    child_id,
    failed_of,
    failure_of,
    is_decided,
    is_failure,
    member_of,
    refusal_of,
    results_of,
)
from stepwell.engine.effect_kinds import EndChildren, LeaveChildren, StartChildren
from stepwell.engine.forks.branches import fork_id
from stepwell.engine.inputs import ChildrenEnded
from stepwell.engine.pushing import pushes
from stepwell.engine.records import Called, Failure, Kind, Parked, Resumption, Status
from stepwell.engine.table import Message as Received
from stepwell.engine.table import Verdict, receive
from stepwell.engine.token import Token
from stepwell.errors import Conflict, EngineFault, InvalidInput, RunDeleted, UserError
from stepwell.limits import CHILD_DEPTH, MINUTE_MS
from stepwell.runtime.log.door import FoundInput
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.messages import EndRun, to_json
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.log.tracing import run_span, traceparent
from stepwell.runtime.ports import Lane, Ports
from stepwell.runtime.ports.headers import Header
from stepwell.runtime.starts.starting import Caller, Starter

_BEGINS_ANYHOW_MS = 2 * MINUTE_MS  # longer than a living worker takes to make a run


class Children:
    """Performs the effects of waits for child runs. Each may be performed twice."""

    def __init__(self, ports: Ports, logbook: Logbook, starter: Starter) -> None:
        self._ports, self._logbook, self._starter = ports, logbook, starter

    async def perform(self, at: Standing, effect: StartChildren | EndChildren | LeaveChildren) -> list[FoundInput]:
        """Performs the effect. Returns the input that ends the wait already, if there is one."""
        match effect:
            case StartChildren(parked, slot):
                return await self.start(at, parked, slot)
            case EndChildren(parked, slot):
                await self.end(at, parked, slot)
            case LeaveChildren(parked, slot):
                await self.leave(at, parked, slot)
        return []

    async def start(self, at: Standing, parked: Parked, slot: int) -> list[FoundInput]:
        """Creates and wakes the children. Returns the end of the wait if one cannot start, or all have ended."""
        for index, one in enumerate(parked.children):
            run_id = child_id(at.run_id, at.token.id, slot, index)
            try:
                header = await self._create(at, one, run_id, slot, index)
            except UserError as refusal:
                return [FoundInput(at, ChildrenEnded(slot, refusal_of(one, refusal.code, refusal.message)))]
            if not header.status.terminal:
                await self._starter.set_going(header)
                continue
            child = await self._logbook.load(run_id)  # its worker may have died before it told the parent
            if child is not None and (found := await self._came(at, child)):
                return found
        return []

    async def start_detached(self, at: Standing, action: RunStep) -> Outcome:
        """Starts a run that nobody waits for: its id is the step's result, and the same in every try."""
        now_ms = self._ports.clock.now_ms()
        run_id = "run_" + hashlib.sha256(action.key.encode()).hexdigest()[:26]
        one = Called(action.node, action.step.run.removeprefix(DETACHED), action.input)
        try:
            header = await self._create(at, one, run_id)
        except RunDeleted:
            return Outcome(run_id, started_ms=now_ms)  # an earlier try started it
        except UserError as refusal:
            failure = Failure(refusal.code, "validation", refusal.message, action.node, action.attempt)
            return Outcome(failure=failure, started_ms=now_ms)
        if not header.status.terminal:
            await self._starter.set_going(header)
        return Outcome(run_id, started_ms=now_ms)

    async def _create(self, at: Standing, one: Called, run_id: str, slot: int = -1, index: int = -1) -> Header:
        """Creates the child if it is not there, and returns its header. Raises UserError if it cannot be created.

        `slot`: of the wait for it, in which it is the child with this index; -1: nobody waits for it.
        """
        caller = Caller(at.run_id, at.token.id, slot, index, _depth(at) + 1)
        if caller.depth > CHILD_DEPTH:
            raise InvalidInput(f"{CHILD_DEPTH} runs are above it; workflows that call each other need an end",
                               code="child_depth")  # fmt: skip
        try:
            graph = await self._starter.called(one.workflow, at.header, run_id)
            header = self._starter.child(graph, run_id, one.input, caller, at.header, at.token.last_ms,
                                         traceparent(at.header, run_span(at.run_id)))  # fmt: skip
        except UserError:
            there = await self._ports.runs.get_run(run_id)
            if there is None:
                raise
            return _own(at, there)  # created before, whatever today's definition says of its input
        if caller.index < 0:  # nobody waits for this run: if this worker dies at the next line, the run still begins
            await self._starter.set_going(header, self._ports.clock.now_ms() + _BEGINS_ANYHOW_MS)
        there = await self._starter.create(graph, header)
        return header if there is None else _own(at, there)

    # -- their ends

    async def tell(self, child: Standing) -> list[FoundInput]:
        """Returns the end of a run as an input for the run that waits for it; nothing if none does."""
        caller = Caller.of(child.header)
        if caller is None or caller.index < 0 or not child.token.ended or child.token.branch is not None:
            return []
        parent = await self._logbook.load(caller.run_id, caller.token)
        if parent is None:
            return []
        by, last = f"child:{child.run_id}", parent.token.last
        if last is not None and last.kind is Kind.RESUMED and pushes(parent.token, by):
            return [FoundInput(parent, None)]  # written by this child's end before a crash
        return [replace(found, by=by) for found in await self._came(parent, child)]

    async def _came(self, parent: Standing, child: Standing) -> list[FoundInput]:
        """Returns the end of the parent's wait if this child completes it; nothing while others are awaited."""
        caller, end = Caller.of(child.header), child.token.end
        if caller is None or not _awaits(parent.token, caller):
            return []
        if end is None:
            raise EngineFault(f"{child.run_id} has not ended", code="broken_log")
        call, children = call_of(parent.graph, parent.token), _waited_for(parent)
        members = await self._arrived(parent, caller, member_of(caller.index, end.status), len(children))
        if not is_decided(call, len(children), members):
            return []
        failed = failed_of(members) if is_failure(call, members) else None
        wanted = range(len(children)) if failed is None else [failed]
        ended = [(children[index], *await self._ended(parent, caller, index, child)) for index in wanted]
        resumption = results_of(call, ended) if failed is None else failure_of(*ended[0])
        return [_over(parent, caller, resumption, [token for _, _, token in ended])]

    async def _arrived(self, parent: Standing, caller: Caller, member: str, width: int) -> Collection[str]:
        """Adds the child to the ended ones and returns them. A single child has no siblings to be counted with."""
        if width == 1:
            return (member,)
        join = f"{fork_id(parent.token.id, caller.slot)}@0"
        return (await self._ports.log.arrive(parent.run_id, join, member)).members

    async def _ended(self, parent: Standing, caller: Caller, index: int, known: Standing) -> tuple[str, Token]:
        """Returns (run id, root token) of the ended child with this index. `known`: the child that has just ended."""
        run_id = child_id(parent.run_id, parent.token.id, caller.slot, index)
        child = known if run_id == known.run_id else await self._logbook.load(run_id)
        if child is None:
            raise EngineFault(f"{run_id} has ended and is not there", code="broken_log")
        return run_id, child.token

    async def end(self, at: Standing, parked: Parked, slot: int) -> None:
        """Sends each child a message to end. A missing one is created first, so that nobody can start it afterwards."""
        messages = []
        for index, one in enumerate(parked.children):
            run_id = child_id(at.run_id, at.token.id, slot, index)
            try:
                await self._create(at, one, run_id, slot, index)
            except UserError:
                continue  # nobody can start it
            messages.append(to_json(EndRun(run_id, at.run_id, at.token.id, slot)))
        await self._ports.queue.send_all(Lane.RESUME, messages)

    async def leave(self, at: Standing, parked: Parked, slot: int) -> None:
        """Starts children that nobody has started: their starter may have died, and the ended wait retries nothing."""
        for index, one in enumerate(parked.children):
            run_id = child_id(at.run_id, at.token.id, slot, index)
            try:
                header = await self._create(at, one, run_id, slot, index)
            except UserError:
                continue  # nobody can start it
            if header.status is Status.PENDING:
                await self._starter.set_going(header)


def _own(at: Standing, there: Header) -> Header:
    """Returns the child that is there. Raises Conflict if it is of an earlier run with the parent's id.

    It outlived that one: its result would be taken for this run's. Clocks may differ, by less than a minute.
    """
    if there.created_ms + MINUTE_MS < at.header.created_ms:
        raise Conflict(f"{there.run_id} is the child of an earlier run {at.run_id}", code="child_of_earlier",
                       hint=f"delete {there.run_id} first, or start the run with another id or key")  # fmt: skip
    return there


def _awaits(parent: Token, caller: Caller) -> bool:
    """Tells whether the parent is at the wait that started the child. An update moves only its slot, not the wait's."""
    return parent.waiting_slot == caller.slot and receive(parent.phase, Received.CHILD) is Verdict.TAKE


def _over(parent: Standing, caller: Caller, resumption: Resumption, ended: Sequence[Token]) -> FoundInput:
    since_ms = max((one.last_ms for one in ended), default=0)
    return FoundInput(parent, ChildrenEnded(caller.slot, resumption, since_ms))


def _waited_for(parent: Standing) -> tuple[Called, ...]:
    return parent.token.parked.children if parent.token.parked else ()


def _depth(at: Standing) -> int:
    caller = Caller.of(at.header)
    return caller.depth if caller else 0
