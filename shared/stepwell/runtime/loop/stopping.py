"""Stopping: the runs of a paused workflow stop one by one, each as its worker is about to begin a step.

     pause     note: order is paused ── answered
     worker    note? ── header of its run: paused, by that pause ── note still there? ── rests
     unpause   a message that repeats the rest ── no note ── a message for each run that it stopped ── it goes on

The worker writes the header and then reads the note; the end of the pause drops the note and then lists the headers. So
at least one of the two sees the other. A run that waits, or whose step takes long, is not touched by either. A worker
whose step is in the line of a limit looks before it asks for the permit.
"""

from __future__ import annotations

from dataclasses import replace

from stepwell.definition.built_in import BUILT_IN
from stepwell.engine.holding import may_rest
from stepwell.engine.limits import throttles
from stepwell.engine.records import Status
from stepwell.limits import UNPAUSED_AGAIN_MS, UNPAUSED_RUNS
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.messages import GoOn, GoOnAll, to_json
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.advance import can_move
from stepwell.runtime.loop.pauses import Pauses, WorkflowPause
from stepwell.runtime.loop.pausing import Pausing
from stepwell.runtime.ports import EVERY, Lane, Pause, Ports
from stepwell.runtime.ports.headers import Header, RunQuery


class Stopping:
    """Pauses runs whose workflow is paused, and resumes them with it. Every call may be repeated."""

    def __init__(self, ports: Ports, logbook: Logbook, pausing: Pausing, pauses: Pauses) -> None:
        self._ports, self._logbook, self._pausing, self._pauses = ports, logbook, pausing, pauses

    async def stops(self, at: Standing) -> bool:
        """Tells whether the token rests because its workflow is paused. The first of its tokens pauses the run."""
        return can_move(at.token) and await self._has_stopped(at)

    async def in_line(self, at: Standing) -> Standing:
        """Returns the token. In the line of a limit, it is that of a paused run if its workflow is paused.

        Else it would take a permit first, and rest with it for as long as the pause lasts.
        """
        stopped = not at.run.is_paused and throttles.waits(at.token) and await self._has_stopped(at)
        return await self._logbook.refreshed(at) if stopped else at

    async def _has_stopped(self, at: Standing) -> bool:
        """Pauses the token's run, if its workflow is paused. Returns whether it is."""
        if not may_rest(at.run, at.token) or not await self.is_due(at):
            return False
        pause = await self._pauses.now(at.run.workflow)
        root = await self._logbook.load(at.run_id)
        if pause is None or root is None:
            return False
        if not root.run.is_paused and not await self._pausing.stop(root, Pause(pause.by, pause.reason, pause.workflow)):
            return False
        header = await self._ports.runs.get_run(at.run_id)
        if header is not None:
            await self.goes_on(header)
        return True

    async def pause(self, run_id: str, pause: Pause) -> bool:
        """Pauses a run for one of its branches, unless it is paused. Returns False if the run can no longer pause.

        `pause.by` is empty if the branch found the run paused.
        """
        root = await self._logbook.load(run_id)
        if root is None:
            return False
        return not pause.by or root.run.is_paused or await self._pausing.pause(root, pause) is None

    async def is_due(self, at: Standing) -> bool:
        """Tells whether the token's worker should look before its next step: its workflow was lately paused."""
        return at.run.workflow not in BUILT_IN and await self._pauses.lately(at.run.workflow) is not None

    async def goes_on(self, header: Header) -> None:
        """Resumes a paused run if the workflow's pause that stopped it is over."""
        if header.paused_ms and header.pause_of and header.pause_of not in await self._pauses.all():
            await self._pausing.go_on(GoOn(header.run_id, header.paused_ms))

    async def again(self, at: Standing) -> None:
        """Finishes the pausing of a run, or the end of its workflow's pause, after a crash."""
        if at.header.pause_of:
            await self.goes_on(at.header)
        else:
            await self._pausing.hold(at)

    async def unpause(self, pause: WorkflowPause) -> None:
        """Ends a pause, and resumes the runs that it has stopped."""
        given = GoOnAll(pause.workflow, pause.note)
        await self._ports.queue.send(Lane.RESUME, to_json(given))
        await self._pauses.end(pause.workflow, pause.note)

    async def handle(self, message: GoOnAll) -> None:
        """Sends a message for each run of a page; at the end looks again, as lists are eventually consistent."""
        is_paused = await self._pauses.get(message.workflow) is not None
        if is_paused and not await self._pauses.end(message.workflow, message.note):
            return  # it was paused anew
        workflow = "" if message.workflow == EVERY else message.workflow
        query = RunQuery(workflow, frozenset({Status.PAUSED}), limit=UNPAUSED_RUNS, cursor=message.cursor)
        page, queue = await self._ports.runs.list_runs(query), self._ports.queue
        stopped = [one for one in page.headers if one.pause_of == message.workflow]
        await queue.send_all(Lane.RESUME, [to_json(GoOn(one.run_id, one.paused_ms)) for one in stopped])
        if page.next_cursor:
            await queue.send(Lane.RESUME, to_json(replace(message, cursor=page.next_cursor)))
        elif not message.again:
            later = replace(message, cursor="", again=True)
            await queue.send(Lane.RESUME, to_json(later), self._ports.clock.now_ms() + UNPAUSED_AGAIN_MS)
