"""Pausing: a run stops before its next step, and resumes later. A pause is in the run's header, and no record.

     pause     header: paused ── a mark into the next slot of each live token ── answered
     worker    its record is refused by the mark ── header: paused ── the record, and the mark behind it ── rests
     unpause   a message, which does the rest ── header: as before ── answered
     message   header: as before ── a wake for each token that rests

A fork's slot stays the last of its parent, and an attempt keeps its idempotency key. A worker that meets no mark reads
and writes nothing more than before, so a run that nobody pauses pays nothing. A leftover mark costs its token one read
of the header.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from stepwell import limits
from stepwell.engine.actions import Drop, Refuse
from stepwell.engine.forks.lines import awaited
from stepwell.engine.inputs import Paused, Unpaused
from stepwell.engine.records import ROOT, Status
from stepwell.runtime.forks.running import running_forks
from stepwell.runtime.log.door import Door
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.messages import GoOn, HoldPage, to_json
from stepwell.runtime.log.standing import ForkedParent, Standing
from stepwell.runtime.loop.advance import Advance
from stepwell.runtime.loop.pauses import Pauses
from stepwell.runtime.loop.resting import Resting
from stepwell.runtime.ports import EVERY, Lane, Pause, Ports
from stepwell.runtime.waits.permits import Permits


class Pausing:
    """Pauses and resumes runs. Every call may be repeated."""

    def __init__(
        self, ports: Ports, logbook: Logbook, door: Door, advance: Advance, pauses: Pauses, resting: Resting
    ) -> None:
        self._ports, self._logbook, self._door, self._advance = ports, logbook, door, advance
        self._pauses, self._resting, self._permits = pauses, resting, Permits(ports, logbook)

    async def pause(self, at: Standing, pause: Pause) -> Refuse | None:
        """Pauses the run. Returns None, or why it is refused.

        After None nobody begins a step of the run, except for workers that were about to.
        """
        while True:
            action = self._door.decide(at, Paused(), "")
            if isinstance(action, Refuse):
                return action
            is_done = isinstance(action, Drop) and not at.header.pause_of  # a workflow's pause becomes the run's own
            if is_done or await self._held(at, pause):
                break
            at = await self._again(at)
        at = await self.hold(await self._logbook.refreshed(at))  # the mark reads what the log has since got
        await self._leave_line(at)
        found = self._door.decide(at, Paused(), "")
        return found if isinstance(found, Refuse) else None

    async def stop(self, at: Standing, pause: Pause) -> bool:
        """Pauses the run in its header alone; its workers do the rest. Returns False if the run can no longer pause."""
        while not isinstance(action := self._door.decide(at, Paused(), ""), Refuse):
            if isinstance(action, Drop) or await self._held(at, pause):
                return True
            at = await self._again(at)
        return False

    async def unpause(self, at: Standing) -> Refuse | None:
        """Resumes the run from where it is now. Returns None, or why it is refused.

        Only the message wakes the run: if two did, its next step might run twice.
        """
        action = self._door.decide(at, Unpaused(), "")
        if isinstance(action, Refuse):
            return action
        if (of := at.header.pause_of) and await self._pauses.get(of) is not None:
            what, argument = ("all workflows are", "--all") if of == EVERY else (f"its workflow {of} is", of)
            return Refuse(f"{what} paused", "workflow_paused", f"stepwell unpause {argument} has its runs go on")
        given = GoOn(at.run_id, at.header.paused_ms)
        await self._ports.queue.send(Lane.RESUME, to_json(given))
        await self._end(given, at)
        return None

    async def go_on(self, given: GoOn) -> None:
        """Ends the pause of that time, if it is not over, and wakes the tokens that rest.

        Also if the run is paused again: it may be that this message has noted for a token that it was woken, and died.
        """
        at = await self._over(given)
        if at is not None:
            await self._push(at, given.paused_ms)

    async def _over(self, given: GoOn) -> Standing | None:
        """Ends the pause, if it is not over. Returns the run as it is then."""
        at = await self._logbook.load(given.run_id)
        if not _is_paused(at, given):
            return at
        await self._end(given, at)
        return await self._logbook.load(given.run_id)  # a worker may have come to rest until the pause was over

    async def _end(self, given: GoOn, at: Standing | None) -> None:
        """Ends the pause of that time, if it is not over."""
        while at is not None and _is_paused(at, given):
            if await self._ports.runs.hold(at.header, None, self._ports.clock.now_ms()):
                return
            at = await self._logbook.load(given.run_id)

    async def handle(self, message: HoldPage | GoOn) -> None:
        """Handles one message. Raises PortError if a port fails: the message is to be redelivered."""
        if isinstance(message, GoOn):
            await self.go_on(message)
            return
        fork = await self._logbook.fork(message.run_id, message.parent, message.slot)
        if fork is not None:
            await self._turn(fork, message.page, message.after_ms)

    async def hold(self, at: Standing) -> Standing:
        """Marks the token, its live branches, and theirs. Returns the token as it is then."""
        at = await self._logbook.mark(at)
        await self._each_page(at)
        return at

    async def _held(self, at: Standing, pause: Pause) -> bool:
        """Pauses the run in its header. Returns False if the header has changed, or says that the run ends.

        The header was read after the token, so the run may have ended in between.
        """
        if at.header.status.terminal or at.header.status is Status.COMPENSATING:
            return False
        return await self._ports.runs.hold(at.header, pause, self._ports.clock.now_ms())

    async def _leave_line(self, at: Standing) -> None:
        """Has a redriven run that waits for its permit rest, and leave the line to others.

        No worker is at it, so none would note that it rests. That is noted first: a place alone wakes no paused run.
        """
        if not await self._permits.stands_in_line(at):
            return
        on = await self._resting.rests(at)
        if on is not None:
            await self._advance.wake(on)  # the pause is over already
        await self._permits.leave_line(at)

    async def _again(self, at: Standing) -> Standing:
        return await self._logbook.load(at.run_id, ROOT) or at

    async def _push(self, at: Standing, after_ms: int) -> None:
        """Wakes the token, its live branches, and theirs, if they rest."""
        if await self._resting.is_woken(at, after_ms):
            await self._advance.wake(at)
        await self._each_page(at, after_ms)

    async def _each_page(self, at: Standing, after_ms: int = 0) -> None:
        for slot in await running_forks(self._logbook, at):
            fork = await self._logbook.fork(at.run_id, at.token.id, slot)
            pages = fork.fork.pages if fork is not None else range(0)
            if fork is not None and len(pages) <= limits.HELD_PAGES:
                for page in pages:
                    await self._turn(fork, page, after_ms)
            elif pages:
                each = [to_json(HoldPage(at.run_id, at.token.id, slot, page, after_ms)) for page in pages]
                await self._ports.queue.send_all(Lane.RESUME, each)

    async def _turn(self, fork: ForkedParent, page: int, after_ms: int) -> None:
        """Holds the page's live branches; with `after_ms`, has them go on after the pause of that time."""
        for one in await self._logbook.branches(fork, page):
            if one.token.ended:
                await self._each_page(one, after_ms)
            else:
                await (self._push(one, after_ms) if after_ms else self.hold(one))


def _is_paused(at: Standing | None, given: GoOn) -> bool:
    return at is not None and at.header.paused_ms == given.paused_ms and not at.token.ended


def begins_ms(
    fork: ForkedParent, branches: Sequence[Standing], index: int, guests: Mapping[int, Collection[int]]
) -> int | None:
    """Returns since when the branch could begin; None while others have to end before it.

    `branches`: all branches of the fork. `guests`: by page, those in its line.
    """
    before = awaited(fork.fork, index)
    arrived = [one for one in guests.get(before.page, ()) if one in before.span]
    known = [branches[one] for one in (*before.branches, *arrived)]
    ended = sorted(last_ms(one) for one in known if one.token.ended)
    if len(ended) < before.count:
        return None
    return max([fork.parent.token.last_ms, *ended[: before.count]])


def last_ms(at: Standing) -> int:
    """Returns when the token's last record was written, in ms; 0 if it has none."""
    return at.token.last_ms
