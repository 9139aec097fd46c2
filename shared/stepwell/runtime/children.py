"""Child runs in the world: started, told of to their parent when they end, ended when nobody waits for them.

start   the wait's record ── a header and a wake for each child
tell    the child's end ── its siblings' set ── complete? ── resumed, into the parent's log, and a wake for it
end     the wait is over ── a message for each child, which cancels it if it still runs
leave   the same, of children that are to run on ── those that do not run yet are set going
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
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
from stepwell.engine.effects import EndChildren, LeaveChildren, StartChildren
from stepwell.engine.forks import fork_id
from stepwell.engine.records import Called, Failure, Kind, Parked, Record, Resumption, Status
from stepwell.engine.table import Message as Received
from stepwell.engine.table import Verdict, receive
from stepwell.engine.token import Token
from stepwell.errors import EngineFault, InvalidInput, UserError
from stepwell.limits import CHILD_DEPTH, MINUTE_MS
from stepwell.runtime.logbook import Logbook, Standing
from stepwell.runtime.messages import EndRun, to_json
from stepwell.runtime.ports import Header, Lane, Ports
from stepwell.runtime.starting import Caller, Starter

_BEGINS_ANYHOW_MS = 2 * MINUTE_MS  # longer than a living worker takes to make a run


class Children:
    """Effects of waits for child runs. Each may be performed twice."""

    def __init__(self, ports: Ports, logbook: Logbook, starter: Starter) -> None:
        self._ports, self._logbook, self._starter = ports, logbook, starter

    async def perform(
        self, at: Standing, effect: StartChildren | EndChildren | LeaveChildren, by: str
    ) -> Standing | None:
        """The standing to go on from, where a child could not be started."""
        match effect:
            case StartChildren(parked, slot):
                return await self.start(at, parked, slot, by)
            case EndChildren(parked, slot):
                await self.end(at, parked, slot)
            case LeaveChildren(parked, slot):
                await self.leave(at, parked, slot)
        return None

    async def start(self, at: Standing, parked: Parked, slot: int, by: str) -> Standing | None:
        """Makes the children and sets them going. The standing to go on from where one could not be started."""
        for index, one in enumerate(parked.children):
            run_id = child_id(at.run_id, at.token.id, slot, index)
            try:
                header = await self._made(at, one, run_id, Caller(at.run_id, at.token.id, slot, index, _depth(at) + 1))
            except UserError as refusal:
                return await self._refused(at, refusal_of(one, refusal.code, refusal.message), by)
            if not header.status.terminal:
                await self._starter.set_going(header)
                continue
            child = await self._logbook.load(run_id)  # who ended it may have died before it told
            if child is not None and (resumed := await self._resume(child, by)) is not None:
                return resumed
        return None

    async def start_detached(self, at: Standing, action: RunStep) -> Outcome:
        """Starts a run that nobody waits for: its id is the step's result, and the same in every try."""
        now_ms = self._ports.clock.now_ms()
        run_id = "run_" + hashlib.sha256(action.key.encode()).hexdigest()[:26]
        one = Called(action.node, action.step.run.removeprefix(DETACHED), action.input)
        try:
            header = await self._made(at, one, run_id, Caller(at.run_id, at.token.id, -1, -1, _depth(at) + 1))
        except UserError as refusal:
            failure = Failure(refusal.code, "validation", refusal.message, action.node, action.attempt)
            return Outcome(failure=failure, started_ms=now_ms)
        if not header.status.terminal:
            await self._starter.set_going(header)
        return Outcome(run_id, started_ms=now_ms)

    async def _made(self, at: Standing, one: Called, run_id: str, caller: Caller) -> Header:
        """The child's header, made now or before. Raises UserError for one that cannot be."""
        if caller.depth > CHILD_DEPTH:
            raise InvalidInput(f"{CHILD_DEPTH} runs are above it; workflows that call each other need an end",
                               code="child_depth")  # fmt: skip
        try:
            graph = self._starter.named(one.workflow)
            called_ms = at.token.last.at_ms if at.token.last else 0
            header = self._starter.child(graph, run_id, one.input, caller, at.header.priority, called_ms)
        except UserError:
            there = await self._ports.store.get_run(run_id)
            if there is None:
                raise
            return there  # made before, whatever today's definition says of its input
        if caller.index < 0:  # nobody ends what this begins: should its maker die with the next line, it begins then
            await self._starter.set_going(header, self._ports.clock.now_ms() + _BEGINS_ANYHOW_MS)
        return await self._starter.create(graph, header) or header

    async def _refused(self, at: Standing, came: Resumption, by: str) -> Standing | None:
        while True:
            record = self._logbook.resumed(at, by, came)
            winner = await self._logbook.append(at, record)
            if winner is None or winner.by == by:
                return at.after(winner or record)
            if winner.kind is not Kind.RECEIVED:
                return None
            at = at.after(winner)  # an update: the wait goes on, one slot further

    # -- their ends

    async def tell(self, child: Standing) -> None:
        """A run that has ended is told of to the run that waits for it, if one does."""
        parent = await self._resume(child, f"child:{child.run_id}")
        if parent is not None:
            await self._ports.queue.send(Lane.WORK, to_json(parent.wake()))  # again, if it was mine before a crash

    async def _resume(self, child: Standing, by: str) -> Standing | None:
        """The parent, where this end has resumed it under `by`, now or before a crash: it is for us to push on."""
        caller = Caller.of(child.header)
        if caller is None or caller.index < 0 or not child.token.ended or child.token.branch is not None:
            return None
        parent = await self._logbook.load(caller.run_id, caller.token)
        if parent is None:
            return None
        while _awaits(parent.token, caller):
            found = await self._came(parent, caller, child)
            if found is None:
                return None  # it waits for others too
            record = _no_older(self._logbook.resumed(parent, by, found[0]), found[1])
            winner = await self._logbook.append(parent, record)
            parent = parent.after(winner or record)
        last = parent.token.last
        is_over = parent.token.waiting_slot == caller.slot and last is not None and last.kind is Kind.RESUMED
        return parent if is_over and last is not None and last.by == by else None

    async def _came(
        self, parent: Standing, caller: Caller, child: Standing
    ) -> tuple[Resumption, Sequence[Token]] | None:
        """What this end makes of the wait, and the children that it follows from; None while others are waited for."""
        call, children = call_of(parent.graph, parent.token), _waited_for(parent)
        if child.token.end is None:
            raise EngineFault(f"{child.run_id} has not ended", code="broken_log")
        member = member_of(caller.index, child.token.end.status)
        members: Iterable[str] = (member,)
        if len(children) > 1:
            join = f"{fork_id(parent.token.id, caller.slot)}@0"
            members = await self._ports.store.arrive(parent.run_id, join, member)
        if not is_decided(call, len(children), members):
            return None
        failed = failed_of(members)
        if failed is not None and is_failure(call, members):
            run_id, token = await self._ended(parent, caller, failed, child)
            return failure_of(children[failed], run_id, token), (token,)
        ended = [(one, *await self._ended(parent, caller, at, child)) for at, one in enumerate(children)]
        return results_of(call, ended), [token for _, _, token in ended]

    async def _ended(self, parent: Standing, caller: Caller, index: int, known: Standing) -> tuple[str, Token]:
        """(run id, root token) of the child with this index, which has ended; `known` is the caller's own."""
        run_id = child_id(parent.run_id, parent.token.id, caller.slot, index)
        child = known if run_id == known.run_id else await self._logbook.load(run_id)
        if child is None:
            raise EngineFault(f"{run_id} has ended and is not there", code="broken_log")
        return run_id, child.token

    async def end(self, at: Standing, parked: Parked, slot: int) -> None:
        """A message for each child. One that is not there yet is made first, so that nobody can start it after this."""
        messages = []
        for index, one in enumerate(parked.children):
            run_id = child_id(at.run_id, at.token.id, slot, index)
            try:
                await self._made(at, one, run_id, Caller(at.run_id, at.token.id, slot, index, _depth(at) + 1))
            except UserError:
                continue  # it cannot be started by anybody
            messages.append(to_json(EndRun(run_id, at.run_id, at.token.id, slot)))
        await self._ports.queue.send_all(Lane.RESUME, messages)

    async def leave(self, at: Standing, parked: Parked, slot: int) -> None:
        """Whoever was to start them may have died, and nobody comes again for a wait that is over."""
        for index, one in enumerate(parked.children):
            run_id = child_id(at.run_id, at.token.id, slot, index)
            try:
                header = await self._made(at, one, run_id, Caller(at.run_id, at.token.id, slot, index, _depth(at) + 1))
            except UserError:
                continue  # it cannot be started by anybody
            if header.status is Status.PENDING:
                await self._starter.set_going(header)


def _awaits(parent: Token, caller: Caller) -> bool:
    """Whether it stands at the wait that started the child. An update leaves it there, one slot further."""
    return parent.waiting_slot == caller.slot and receive(parent.phase, Received.CHILD) is Verdict.TAKE


def _no_older(record: Record, ended: Sequence[Token]) -> Record:
    """The clocks of the machines where the children ended may be ahead of this one's."""
    return replace(record, at_ms=max([record.at_ms, *(one.last.at_ms for one in ended if one.last)]))


def _waited_for(parent: Standing) -> tuple[Called, ...]:
    return parent.token.parked.children if parent.token.parked else ()


def _depth(at: Standing) -> int:
    caller = Caller.of(at.header)
    return caller.depth if caller else 0
