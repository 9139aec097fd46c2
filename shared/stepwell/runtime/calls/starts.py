"""Starts by callers. Each may be repeated: it then finds the run that it has made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stepwell.definition.graph import Graph
from stepwell.engine.waits import run_topic
from stepwell.errors import Conflict, RunDeleted
from stepwell.runtime.calls.gathering import Gatherer, check_gathered
from stepwell.runtime.log.standing import run_info
from stepwell.runtime.ports import Ports
from stepwell.runtime.ports.headers import Header
from stepwell.runtime.starts.keys import header_of
from stepwell.runtime.starts.starting import Signal, Start, Started, Starter, check_start
from stepwell.runtime.waits.sending import Sending


class Starts:
    """Makes runs of callers' requests, or adds them to a run that gathers starts."""

    def __init__(
        self, ports: Ports, starter: Starter, gatherer: Gatherer, sending: Sending, new_id: Callable[[], str]
    ) -> None:
        self._ports, self._starter, self._gatherer = ports, starter, gatherer
        self._sending, self._new_id = sending, new_id

    async def start(self, graph: Graph, request: Start) -> Started:
        """Creates the run and wakes it. A start with the key or id of an earlier one finds that one's run."""
        check_start(request)
        header = header_of(graph, request, self._new_id, self._ports.clock.now_ms())
        if graph.gathering is not None and not request.origin:
            check_gathered(graph, request)
            return await self._gatherer.take(graph, header, is_keyed=bool(request.key or request.run_id))
        there = await self._ports.runs.get_run(header.run_id) if request.key or request.run_id else None
        if there is not None and run_info(there).gathers and (led := await self._gatherer.before(header)) is not None:
            return led
        if there is None:  # else the first run answers, whatever today's schema says of its input
            self._starter.check(graph, header)
        event = request.event and replace(request.event, id=request.event.id or f"evt_{self._new_id()}")
        if event is not None:  # before the run: a caller that dies in between asks again
            await self._signal(graph, there, header.run_id, event)
        there = there or await self._created(graph, header, event)
        if there is not None and there.fingerprint != header.fingerprint and request.event is None:
            what = "idempotency key" if request.key else "run id"
            raise Conflict(f"this {what} started another run, with another body", code="already_used",
                           hint="repeat the first body, or take a new one")  # fmt: skip
        kept = there or header
        if not kept.idle and not kept.started_ms and not kept.status.terminal:
            await self._starter.set_going(kept)  # also for a repeated call: the first may have died right here
        return Started(kept, there is None)

    async def _created(self, graph: Graph, header: Header, event: Signal | None) -> Header | None:
        try:
            return await self._starter.create(graph, header)
        except RunDeleted:  # and the next run of this id is not to find the event
            if event is not None:
                await self._ports.erasure.erase_event(run_topic(event.name, header.run_id), event.id)
            raise

    async def _signal(self, graph: Graph, there: Header | None, run_id: str, event: Signal) -> None:
        if there is not None and there.workflow != graph.name:
            raise Conflict(f"run {run_id} is one of {there.workflow}", code="already_used")
        await self._sending.signal(there, run_id, event)
