"""Performs the effects of forks: branches are woken, arrive at their join, and are ended once nobody awaits them.

open     the fork's record ── one message for each ten branches
arrive   branch's end ── its page's set ── full? ── the fork's own numbers ── complete? ── joined, by who completed it
close    cancelled into the next slot of every branch that still runs, at slot 0 where it has not begun
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice

from stepwell.engine.durable.overtaken import overtaken
from stepwell.engine.effect_kinds import (
    Arrive,
    Close,
    EndChildren,
    GiveBackPermits,
    LeaveChildren,
    Open,
    ReleaseLocks,
    SetTimer,
    ShowStatus,
)
from stepwell.engine.effects import effects
from stepwell.engine.forks.branches import branch_id, first_chunks, fork_id, is_to_begin
from stepwell.engine.forks.join import Arrival, arrival_of, fan_in_of, fires, must_tell, packed, unpacked
from stepwell.engine.forks.lines import first_left, next_in_line
from stepwell.engine.forks.marks import is_one_set
from stepwell.engine.forks.members import come_with, indexes_of, member_of, tally_of
from stepwell.engine.forks.needs import ready
from stepwell.engine.inputs import Closed, JoinCompleted, OperationEnded
from stepwell.engine.pushing import in_place_of, is_left_to, pushes
from stepwell.engine.records import Status
from stepwell.engine.token import Token
from stepwell.errors import EngineFault, NotFound
from stepwell.limits import PAGE_BRANCHES
from stepwell.runtime.forks.children import Children
from stepwell.runtime.forks.lines import Lines, join_name
from stepwell.runtime.forks.showing import Showing
from stepwell.runtime.log.alarms import Alarms
from stepwell.runtime.log.door import UNLIMITED, Door, FoundInput
from stepwell.runtime.log.lanes import Crew
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.messages import Message, Shut, Timer, Wake, to_json
from stepwell.runtime.log.standing import ForkedParent, Forks, Standing, pool_at
from stepwell.runtime.ports import Joined, Lane, Ports
from stepwell.runtime.waits.locks import Locks
from stepwell.runtime.waits.throttling import Throttling


class Forking:
    """Performs the effects of forks. Each may be performed twice."""

    def __init__(
        self, ports: Ports, logbook: Logbook, children: Children, locks: Locks, throttling: Throttling, door: Door
    ) -> None:
        self._ports, self._logbook, self._children, self._door = ports, logbook, children, door
        self._locks, self._throttling = locks, throttling
        self.showing = Showing(ports, logbook)
        self._lines = Lines(ports.log)
        self._alarms = Alarms(ports)

    async def perform(
        self, at: Standing, effect: Open | Arrive | Close, by: str, known: Forks | None = None
    ) -> list[FoundInput]:
        """Performs the effect. Returns the inputs that a branch's arrival leads to."""
        match effect:
            case Open() if effect.fork.is_reopened:
                return await self._reopen(at, effect)
            case Open():
                await self.open(at, effect)
            case Arrive():
                return await self.arrive(at, effect, by, known)
            case Close():
                await self.close(at, effect, by)
        return []

    async def open(self, at: Standing, effect: Open) -> None:
        """Wakes the branches that begin at once, one message for each chunk."""
        fork = fork_id(at.token.id, effect.slot)
        chunks = [("", index, 1) for index in effect.only] if effect.only else first_chunks(effect.fork)
        await self._send(Lane.WORK, (
            Wake(at.run_id, -1, branch_id(fork, first), pool_at(at.graph, node), count=count)
            for node, first, count in chunks))  # fmt: skip

    async def _reopen(self, at: Standing, effect: Open) -> list[FoundInput]:
        """Wakes a redriven run's branches that begin at once, or joins if those that it kept suffice."""
        fork = await self._logbook.fork(at.run_id, at.token.id, effect.slot)
        if fork is None:
            raise EngineFault(f"{at.token.id} has no fork in slot {effect.slot}", code="broken_log")
        if fork.fork.is_of_tasks:
            await self._wake_again(fork, effect.only)
            return []
        name = join_name(fork, 0) if is_one_set(fork.fork) else fork.id
        joined = await self._ports.log.read_join(at.run_id, name)
        tally = tally_of(joined.members) if is_one_set(fork.fork) else unpacked(joined.numbers)
        if fires(fan_in_of(at.graph, fork.fork), fork.fork.width, tally):
            return [FoundInput(at, await self._joining(at, fork))]
        await self._wake(fork, first_left(fork.fork))
        return []

    async def _wake_again(self, fork: ForkedParent, indexes: Iterable[int]) -> None:
        """Wakes the open tasks that a redriven run kept. Ended ones tell their parent."""
        found = await self._logbook.branches_at(fork, indexes)
        await self._send(Lane.WORK, (one.wake() for one in found if one.token.ended or is_to_begin(one.token)))

    # -- arriving

    async def arrive(self, at: Standing, effect: Arrive, by: str, known: Forks | None) -> list[FoundInput]:
        """Adds the branch to its join. Returns what follows: its parent, to join or to be pushed on already.

        Otherwise it is a branch that can begin now because this one has ended, or nothing. A branch that ended in its
        lane has arrived with that record: often a later one of that lane asks for both.
        """
        lane = at.lane.state if at.lane is not None else None
        if lane is not None and lane.has_arrived(effect.index) and not lane.asks(effect.index):
            return []
        fork = await self._logbook.fork(at.run_id, effect.parent, effect.slot, known)
        if fork is None:
            raise EngineFault(f"{at.token.id} is a branch of no fork", code="broken_log")
        if fork.fork.is_of_tasks:
            return await self._tell_tasks(at, effect, fork, by)
        page = 0 if is_one_set(fork.fork) else fork.fork.page_of(effect.index)
        joined = await self._arrived(at, fork, page)
        return [] if joined is None else await self._go_on(at, effect, fork, joined, by, known)

    async def _go_on(
        self, at: Standing, effect: Arrive, fork: ForkedParent, joined: Joined, by: str, known: Forks | None
    ) -> list[FoundInput]:
        """Returns the parent if the join is complete, else the branch that begins now. Wakes further branches."""
        is_complete, following = await self._counted(at, effect.index, fork, joined)
        if effect.index in following:  # the arrivals of those before it are gone
            raise NotFound(f"run {at.run_id} was deleted", code="unknown_run")
        parent = await self._parent(at, effect, by) if is_complete else None
        if parent is not None and parent.token.slot > effect.slot:
            return [FoundInput(parent, None)]
        begun = await self._pushed(at, fork, following, by)
        number = begun[0].token.id if begun else branch_id(fork.id, following[0]) if following else ""
        first = await self._logbook.load(at.run_id, number, known) if number else None
        if first is not None and is_left_to(first.token, *in_place_of(at.token, by)) and not _is_cancelled(first):
            await self._send(Lane.WORK, (other.wake() for other in begun[1:]))
            return [FoundInput(first, None)]  # this message began it, so its arrival did not complete the join
        if is_complete:
            return [] if parent is None else [FoundInput(parent, await self._joining(parent, fork))]
        await self._wake(fork, following[1:])
        return [FoundInput(first, None)] if first is not None and is_to_begin(first.token) else []

    async def _arrived(self, at: Standing, fork: ForkedParent, page: int) -> Joined | None:
        """Adds the branch to its page's join and returns the join; None if a branch of its lane will ask for it.

        Of two that write last, the later one sees both.
        """
        if at.lane is not None and at.lane.state.has_arrived(at.index):
            return await self._page(fork, page)
        member = member_of(at.index, at.token)
        joined = await self._ports.log.arrive(at.run_id, join_name(fork, page), member, in_order=fork.fork.by_arrival)
        if at.lane is None:
            return joined
        is_early = at.lane.state.awaits(indexes_of(joined.members)) and not joined.numbers and not _has_failed(at)
        return None if is_early else await self._page(fork, page)

    async def _counted(self, at: Standing, index: int, fork: ForkedParent, joined: Joined) -> tuple[bool, list[int]]:
        """Tells whether the join is complete, and which branches begin now, on this page or on another."""
        page = 0 if is_one_set(fork.fork) else fork.fork.page_of(index)
        is_complete, heard = await self._completes(at, fork, page, joined.members)
        following, guests = self._following(fork, index, joined), list[int]()
        if not following:
            guests = await self._lines.begun_elsewhere(fork, index, joined, may_choose=not is_complete)
        if not is_complete:
            begins = bool(following or guests)
            await self.showing.arrived(at, fork, joined, heard, is_guest=bool(guests), begins=begins)
        return is_complete, following or guests

    async def _page(self, fork: ForkedParent, page: int) -> Joined:
        return await self._logbook.lanes.join(fork.parent.run_id, fork.fork, fork.id, page)

    async def _tell_tasks(self, at: Standing, effect: Arrive, fork: ForkedParent, by: str) -> list[FoundInput]:
        """Returns the end of an operation as its parent's input, or the parent if this message pushes it on.

        Nothing, if the parent has cancelled the operation or knows its end, and another message pushes it on.
        """
        parent = await self._logbook.load(at.run_id, effect.parent)
        if parent is None:
            return []
        names = in_place_of(at.token, by)
        await self.again(parent, by, names)
        if self._is_open(parent.token, effect):
            return [FoundInput(parent, OperationEnded(effect.slot, arrival_of(fork.fork, at.token)))]
        return [FoundInput(parent, None)] if pushes(parent.token, *names) else []

    def _is_open(self, parent: Token, effect: Arrive) -> bool:
        begun = parent.tasks.get(effect.slot)
        return begun is not None and effect.index in begun.open

    async def again(self, at: Standing, by: str, writers: Collection[str], sent_for: int = -1) -> None:
        """Performs the effects of what these actors wrote for a function's tasks if others have written since."""
        for effect in overtaken(at.token, writers, sent_for):
            match effect:
                case Open():
                    await self.perform(at, effect, "")
                case Close():
                    await self.close(at, effect, by)
                case ShowStatus():
                    await self.showing.show_root(at, effect)
                case SetTimer(slot, at_ms):
                    await self._alarms.arm(
                        Lane.RESUME, Timer(at.run_id, slot, at.token.id), at_ms, at.header.created_ms
                    )

    async def _parent(self, at: Standing, effect: Arrive, by: str) -> Standing | None:
        """Returns the parent if it has yet to join, or if this message pushes it on; None if another actor has it.

        That actor never hands it back. So it is read once, not by each of the branches that arrive after the join.
        """
        place, now_ms = (at.run_id, effect.parent, effect.slot), self._ports.clock.now_ms()
        other = self._logbook.pushers.get(place, now_ms)
        names = in_place_of(at.token, by)
        if other is not None and other not in names:
            return None
        parent = await self._logbook.load(at.run_id, effect.parent)
        if parent is None:
            raise NotFound(f"run {at.run_id} was deleted", code="unknown_run")
        if is_left_to(parent.token, *names, sent_for=effect.slot):
            return parent
        if parent.token.last is not None:
            self._logbook.pushers.keep(place, parent.token.last.by, len(parent.token.last.by), now_ms)
        return None

    async def _pushed(self, at: Standing, fork: ForkedParent, following: list[int], by: str) -> list[Standing]:
        """Returns those of several branches that this message pushes: on a redelivery more branches may be ready."""
        found = await self._logbook.branches_at(fork, following) if len(following) > 1 else []
        names = in_place_of(at.token, by)
        return [one for one in found if is_left_to(one.token, *names) and not _is_cancelled(one)]

    def _following(self, fork: ForkedParent, index: int, joined: Joined) -> list[int]:
        """Returns the indexes of the branches that begin when this one has ended.

        Raises NotFound if the arrivals before it are gone: else it would begin one that has begun, and that one this.
        """
        if fork.fork.needs:
            return ready(fork.fork, come_with(index, joined.order) or indexes_of(joined.members), index)
        following = next_in_line(fork.fork, index, joined.order)
        if following and following[0] <= index:
            raise NotFound(f"run {fork.parent.run_id} was deleted", code="unknown_run")
        return following

    async def _wake(self, fork: ForkedParent, indexes: list[int]) -> None:
        """Wakes these branches, one message each; in a reopened fork only those that have yet to begin.

        The first branch that an arrival lets begin is not among them: it goes on without a message.
        """
        if fork.fork.is_reopened and indexes:
            found = await self._logbook.branches_at(fork, indexes)
            await self._send(Lane.WORK, (branch.wake() for branch in found if is_to_begin(branch.token)))
            return
        wakes = []
        for index in indexes:
            branch = fork.branches.at(index)
            wakes.append(Wake(fork.parent.run_id, -1, branch.id, pool_at(fork.parent.graph, _start(branch))))
        await self._send(Lane.WORK, wakes)

    async def _completes(
        self, at: Standing, fork: ForkedParent, page: int, members: frozenset[str]
    ) -> tuple[bool, Joined | None]:
        """Tells whether the join is complete with this arrival. Also returns the fork's own join if it was told.

        A fork of one page has its page's set alone; a wider one is told by its pages when something may follow.
        """
        width, fan_in, tally = fork.fork.width, fan_in_of(at.graph, fork.fork), tally_of(members)
        heard: Joined | None = None
        if not is_one_set(fork.fork):
            if not must_tell(fan_in, fork.fork, page, tally, is_failed=_has_failed(at)):
                return False, None
            heard = await self._ports.log.report(at.run_id, fork.id, page, packed(tally))
            tally = unpacked(heard.numbers)
        return fires(fan_in, width, tally), heard

    async def _joining(self, parent: Standing, fork: ForkedParent) -> JoinCompleted:
        """Returns the input that joins the fork, with the results of its branches."""
        ended: list[Arrival] = []
        for page in fork.fork.pages:  # one page at a time: of others only what is merged is held
            found = await self._logbook.tokens_at(fork, fork.fork.page_indexes(page))
            ended += [arrival_of(fork.fork, token) for token in found if token.ended]
        return JoinCompleted(fork.parent.token.slot, ended)

    # -- closing

    async def close(self, at: Standing, effect: Close, by: str) -> None:
        """Cancels the fork's open branches: here if there is one page, else by a message for each page."""
        fork = await self._logbook.fork(at.run_id, at.token.id, effect.slot)
        if fork is None:
            return
        if effect.only:
            for branch in await self._logbook.branches_at(fork, effect.only):
                await self._end(branch, by)
            return
        numbers = fork.fork.pages
        if len(numbers) == 1:
            await self.end_page(fork, 0, by)
            return
        await self._send(Lane.RESUME, [Shut(at.run_id, at.token.id, effect.slot, page) for page in numbers])

    async def shut(self, message: Shut, by: str) -> None:
        """Ends every branch of one page, and the forks inside them."""
        fork = await self._logbook.fork(message.run_id, message.parent, message.slot)
        if fork is not None:
            await self.end_page(fork, message.page, by)

    async def end_page(self, fork: ForkedParent, page: int, by: str) -> None:
        """Ends every branch of the page that still runs; those of a lane together."""
        branches = await self._logbook.branches(fork, page)
        crew = Crew(dict.fromkeys(branch.lane for branch in branches if branch.lane is not None), UNLIMITED.holds)
        try:
            for branch in branches:
                await crew.run(self._end(branch, by))
            await crew.finish()
        finally:
            crew.close()

    async def _end(self, at: Standing, by: str) -> None:
        """Cancels the branch if it still runs. If it was cancelled before, closes its own fork again."""
        await self.close_nested((await self._door.put(at, Closed(), by)).at, by)

    async def close_nested(self, at: Standing, by: str) -> None:
        if _is_cancelled(at):
            for effect in effects(at.graph, at.token):
                if isinstance(effect, Close):
                    await self.close(at, effect, by)
                elif isinstance(effect, EndChildren | LeaveChildren):
                    await self._children.perform(at, effect)
                elif isinstance(effect, ReleaseLocks):
                    await self._locks.release(at, effect)
                elif isinstance(effect, GiveBackPermits):
                    await self._throttling.give_back_all(at, effect)

    async def _send(self, lane: Lane, messages: Iterable[Message]) -> None:
        """Sends messages in groups: a wide fork makes a thousand."""
        rest = iter(messages)
        while bodies := [to_json(message) for message in islice(rest, PAGE_BRANCHES)]:
            await self._ports.queue.send_all(lane, bodies)


def _is_cancelled(at: Standing) -> bool:
    return at.token.end is not None and at.token.end.status is Status.CANCELLED


def _has_failed(at: Standing) -> bool:
    return at.token.end is not None and at.token.end.status is not Status.COMPLETED


def _start(branch: Token) -> str:
    return branch.branch.start if branch.branch else ""
