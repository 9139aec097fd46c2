"""Pausing: a run stops before its next step, and goes on later. A pause is a fact of the run's header, and no record.

    pause     header: paused ── a mark into the next slot of each live token ── answered
    worker    its record is refused by the mark ── header: paused ── the record, and the mark behind it ── rests
    unpause   a message, which does the rest ── header: as before ── answered
    message   header: as before ── a wake for each token that can move

A fork's slot stays the last of its parent, and an attempt keeps its idempotency key. A worker that meets no mark reads
and writes nothing more than before, so a run that nobody pauses pays nothing. A mark that was left behind costs its
token one look at the header.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from stepwell import limits
from stepwell.engine import throttles
from stepwell.engine.actions import Drop, Refuse
from stepwell.engine.forks import is_to_begin, live_forks
from stepwell.engine.inputs import Paused, Unpaused
from stepwell.engine.lines import awaited
from stepwell.engine.records import ROOT
from stepwell.runtime.forks.lines import are_over
from stepwell.runtime.log.door import Door
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.messages import GoOn, HoldPage, to_json
from stepwell.runtime.log.standing import ForkedParent, Standing
from stepwell.runtime.loop.advance import can_move
from stepwell.runtime.loop.pauses import Pauses
from stepwell.runtime.ports import EVERY, Lane, Pause, Ports


class Pausing:
    """Pauses runs and has them go on. Every call may be made twice."""

    def __init__(self, ports: Ports, logbook: Logbook, door: Door, pauses: Pauses) -> None:
        self._ports, self._logbook, self._door = ports, logbook, door
        self._pauses = pauses

    async def pause(self, at: Standing, pause: Pause) -> Refuse | None:
        """Nobody begins a step of the run when this returns None, but those who were about to."""
        while True:
            action = self._door.decide(at, Paused(), "")
            if isinstance(action, Refuse):
                return action
            is_done = isinstance(action, Drop) and not at.header.pause_of  # a workflow's pause becomes the run's own
            if is_done or await self._held(at, pause):
                break
            at = await self._again(at)
        at = await self.hold(await self._again(at))
        found = self._door.decide(at, Paused(), "")
        return found if isinstance(found, Refuse) else None

    async def stop(self, at: Standing, pause: Pause) -> bool:
        """Pauses the run in its header alone. False where it is beyond that. Its tokens' workers see to the rest."""
        while not isinstance(action := self._door.decide(at, Paused(), ""), Refuse):
            if isinstance(action, Drop) or await self._held(at, pause):
                return True
            at = await self._again(at)
        return False

    async def unpause(self, at: Standing) -> Refuse | None:
        """Has the run go on from where it is by now. The message wakes it: two who do may run its next step twice."""
        action = self._door.decide(at, Unpaused(), "")
        if isinstance(action, Refuse):
            return action
        if (of := at.header.pause_of) and await self._pauses.get(of) is not None:
            what, argument = ("all workflows are", "--all") if of == EVERY else (f"its workflow {of} is", of)
            return Refuse(f"{what} paused", "workflow_paused", f"stepwell unpause {argument} has its runs go on")
        given = GoOn(at.run_id, at.header.paused_ms)
        await self._ports.queue.send(Lane.RESUME, to_json(given))
        await self._end(given)
        return None

    async def go_on(self, given: GoOn) -> None:
        """Ends the pause of that time, if it is not over, and wakes what can move."""
        at = await self._end(given)
        if at is not None and not at.run.is_paused:
            await self._push(at)

    async def _end(self, given: GoOn) -> Standing | None:
        """Ends the pause of that time, if it is not over. The run as it stands then."""
        at = await self._logbook.load(given.run_id)
        while at is not None and at.header.paused_ms == given.paused_ms and not at.token.ended:
            await self._ports.runs.hold(at.header, None, self._ports.clock.now_ms())
            at = await self._logbook.load(given.run_id)
        return at

    async def handle(self, message: HoldPage | GoOn) -> None:
        """Raises PortError when the world did not answer: the message is to come again."""
        if isinstance(message, GoOn):
            await self.go_on(message)
            return
        fork = await self._logbook.fork(message.run_id, message.parent, message.slot)
        if fork is not None:
            await self._turn(fork, message.page, goes_on=message.goes_on)

    async def hold(self, at: Standing) -> Standing:
        """Marks the token and its live branches, and theirs. The token as it stands then."""
        at = await self._logbook.mark(at)
        await self._each_page(at, goes_on=False)
        return at

    async def _held(self, at: Standing, pause: Pause) -> bool:
        return await self._ports.runs.hold(at.header, pause, self._ports.clock.now_ms())

    async def _again(self, at: Standing) -> Standing:
        return await self._logbook.load(at.run_id, ROOT) or at

    async def _push(self, at: Standing) -> None:
        """Wakes the token and its live branches, and theirs: each under the name of its last record's wake.

        So a copy of the message that has the run go on wakes nobody under another name than who goes on by now.
        """
        if can_move(at.token) or throttles.waits(at.token):
            wake = at.wake().under(at.token.last.by if at.token.last else "")
            await self._ports.queue.send(Lane.WORK, to_json(wake))
        await self._each_page(at, goes_on=True)

    async def _each_page(self, at: Standing, *, goes_on: bool) -> None:
        for slot in live_forks(at.token):
            fork = await self._logbook.fork(at.run_id, at.token.id, slot)
            pages = fork.fork.pages if fork is not None else range(0)
            if fork is not None and len(pages) <= limits.HELD_PAGES:
                for page in pages:
                    await self._turn(fork, page, goes_on=goes_on)
            elif pages:
                each = [to_json(HoldPage(at.run_id, at.token.id, slot, page, goes_on)) for page in pages]
                await self._ports.queue.send_all(Lane.RESUME, each)

    async def _turn(self, fork: ForkedParent, page: int, *, goes_on: bool) -> None:
        indexes = fork.fork.page_indexes(page)
        live = [(index, one) for index, one in zip(indexes, await self._logbook.branches(fork, page), strict=True)
                if not one.token.ended]  # fmt: skip
        if not goes_on:
            for _, one in live:
                await self.hold(one)
            return
        waits = {index: awaited(fork.fork, index) for index, one in live if is_to_begin(one.token)}
        is_over = await are_over(self._ports.log, fork, waits.values())
        for index, one in live:
            if index not in waits or is_over[waits[index]]:
                await self._push(one)


def begins_ms(
    fork: ForkedParent, branches: Sequence[Standing], index: int, guests: Mapping[int, Collection[int]]
) -> int | None:
    """Since when the branch could begin; None while others have to end before it.

    `branches`: all of the fork. `guests`: by page, those in its line.
    """
    before = awaited(fork.fork, index)
    came = [one for one in guests.get(before.page, ()) if one in before.span]
    known = [branches[one] for one in (*before.branches, *came)]
    ended = sorted(last_ms(one) for one in known if one.token.ended)
    if len(ended) < before.count:
        return None
    return max([fork.parent.token.last.at_ms if fork.parent.token.last else 0, *ended[: before.count]])


def last_ms(at: Standing) -> int:
    """When the token's last record was written."""
    return at.token.last.at_ms if at.token.last else 0
