"""Sends events to a run, or to the waits for a name and key. For callers, and for durable functions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from stepwell.definition.graph import Graph, Json
from stepwell.engine.actions import Outcome, RunStep
from stepwell.engine.children import child_id
from stepwell.engine.durable.turns import SENDS
from stepwell.engine.forks.marks import is_waiting
from stepwell.engine.records import Failure, Topic
from stepwell.engine.table import Phase
from stepwell.engine.waits import event_topic, run_of, run_topic
from stepwell.engine.waits.kind import kind_named
from stepwell.errors import Conflict, DefinitionError, EngineFault, InvalidInput, NewerFormat, NotFound, UserError
from stepwell.limits import WAITS_COUNTED
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.messages import Publish, to_json
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.ports import Event, Lane, Ports
from stepwell.runtime.ports.headers import Header
from stepwell.runtime.starts.starting import Signal, Starter
from stepwell.values import dataclass


@dataclass(frozen=True, slots=True)
class Sent:
    """An event that was sent. `is_new`: there was no event with its id before.

    `kept_until_ms`: until when a later wait finds it; 0: it does not. `waits`: those that there were, if counted.
    `starts`: the workflows that have a trigger for it.
    """

    id: str
    is_new: bool
    kept_until_ms: int = 0
    waits: int = 0
    starts: Sequence[str] = ()


class Sending:
    """Sends events. Sending an id again changes nothing."""

    def __init__(self, ports: Ports, logbook: Logbook, starter: Starter) -> None:
        self._ports, self._logbook, self._starter = ports, logbook, starter

    async def publish(self, topic: Topic, event_id: str, payload: Json) -> Sent:
        """Puts the event into the mailbox here, so that its sender learns of a full topic, and has it offered to waits.

        Raises Conflict `too_many_pending`.
        """
        settings = self._starter.event_settings(topic.name)
        now_ms = self._ports.clock.now_ms()
        event = Event(topic, event_id, payload, now_ms, now_ms + settings.expire_after_ms)
        starts = self._starter.triggered(topic.name) if run_of(topic) is None else ()
        is_new, kept_until_ms = True, event.expires_ms if settings.expire_after_ms else 0
        try:
            is_new = await self._ports.mailbox.put_event(event, settings.max_pending)
        except Conflict:
            if not starts:  # else it still starts runs, whoever waits for it
                raise
            kept_until_ms = 0
        await self._ports.queue.send(Lane.RESUME, to_json(Publish(event, kept=True)))
        return Sent(event.id, is_new, kept_until_ms if is_new else 0, starts=starts)

    async def waits_for(self, topic: Topic) -> int:
        """Counts the waits for events of the topic, up to `WAITS_COUNTED`. One may be over, or not match the event."""
        count, run_id = await self._ports.mailbox.count_waiters(topic, WAITS_COUNTED), run_of(topic)
        if run_id is None:
            return count
        try:
            at = await self._logbook.load(run_id)  # its root registers no waits for events to the run itself
        except (EngineFault, DefinitionError, NewerFormat):
            return count
        parked = at.token.parked if at is not None and is_waiting(at.token) else None
        return count + sum(topic in arm.topics for arm in (parked.arms if parked is not None else ()))

    async def check_reaches(self, header: Header, run_id: str, name: str, payload: Json) -> None:
        """Raises Conflict or InvalidInput if the run cannot take the event.

        The logs of the run and its branches are read only if its definition has waits that check payloads. The branches
        of a wide or an inner fork are not read: they may take what the others refuse.
        """
        if header.status.terminal:
            raise Conflict("the run has ended; no event can reach it", code="run_ended")
        try:
            graph = await self._logbook.graph_of(header)
        except (EngineFault, DefinitionError):  # kept for a worker that can read the run's definition
            return
        if not _judges(graph):
            return
        at = await self._logbook.load(run_id)
        at = await self._logbook.with_branches(at) if at is not None else None
        if at is None or any(one.phase is Phase.WAITING_AT_FAN_IN for one in at.branches):
            return
        tokens = (at.token, *at.branches)
        parked = [one.parked for one in tokens if one.parked is not None and is_waiting(one)]
        arms = [arm for one in parked for arm in one.arms if run_topic(name, run_id) in arm.topics]
        flaws = [kind_named(arm.kind).flaw(arm, payload) for arm in arms]
        if flaws and all(flaws):  # else one of the waits takes it
            told = "; ".join(dict.fromkeys(flaws))
            raise InvalidInput(told, code="wrong_payload", hint="GET /runs/{id} shows what is missing")

    async def signal(self, header: Header | None, run_id: str, event: Signal) -> Sent:
        """Sends an event to a run that exists, or, without a header, to one that is about to.

        Raises Conflict, InvalidInput; not for an event that was sent before, whatever it did to the run.
        """
        topic = run_topic(event.name, run_id)
        if header is not None and await self._ports.mailbox.get_event(topic, event.id) is None:
            await self.check_reaches(header, run_id, event.name, event.payload)
        return await self.publish(topic, event.id, event.payload)

    # -- for durable functions

    async def send(self, at: Standing, action: RunStep) -> Outcome:
        """Sends a function's event. The event's id is the step's result, and the same in every try."""
        now_ms = self._ports.clock.now_ms()
        event_id = "evt_" + hashlib.sha256(action.key.encode()).hexdigest()[:26]
        name, given = action.step.run.removeprefix(SENDS), action.input
        try:
            run_id = await self._child(at, given["child"]) if "child" in given else given.get("run", "")
            if run_id:
                header = await self._ports.runs.get_run(run_id)
                if header is None and "child" not in given:  # a child that has yet to begin will find it
                    raise NotFound(f"there is no run {run_id!r}", code="unknown_run")
                await self.signal(header, run_id, Signal(name, given["payload"], event_id))
            else:
                await self.publish(event_topic(name, given.get("key", "")), event_id, given["payload"])
        except UserError as refusal:
            failure = Failure(refusal.code, "validation", refusal.message, action.node, action.attempt)
            return Outcome(failure=failure, started_ms=now_ms)
        return Outcome(event_id, started_ms=now_ms)

    async def _child(self, at: Standing, token: str) -> str:
        """Returns the run that this branch of the function waits for. It may begin later. Raises Conflict."""
        if not token:
            raise Conflict("the child run is not in progress; no event can reach it", code="run_ended")
        slot, kept = 0, ""
        for record in await self._logbook.history(at.run_id, token, -1, None):
            if record.parked is not None and record.parked.children:
                slot, kept = record.slot, record.parked.children[0].run_id
        return kept or child_id(at.run_id, token, slot, 0)


def _judges(graph: Graph) -> bool:
    """Tells whether the graph has a wait that checks the payloads of events."""
    waits = [node.wait for node in graph.nodes.values() if node.wait is not None]
    return any(kind_named(arm.kind).judges for wait in waits for arm in (wait.arms or (wait,)))
