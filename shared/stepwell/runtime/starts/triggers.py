"""Triggers: an event, or a time of a schedule, starts runs.

The run's id is made of its cause, so that its creation is the lock: a repeated cause finds the run there.

     event     the workflow, the event's name and its id; with `key`, the key in place of the id
     schedule  the schedule's name and the time that was due
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

from stepwell.definition.event_names import SCHEDULE_FIRED
from stepwell.definition.graph import EventTrigger, Graph, Json, ScheduleTrigger
from stepwell.engine.names import iso
from stepwell.engine.waits import event_topic, run_of
from stepwell.errors import ExpressionError, InvalidInput, RunDeleted, UserError
from stepwell.limits import EVENT_KEPT_MS, MINUTE_MS
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.log.messages import Publish, Scheduled, to_json
from stepwell.runtime.ports import Event, Lane, Ports, Schedule
from stepwell.runtime.starts.admission import check_event_key
from stepwell.runtime.starts.scheduled import input_at
from stepwell.runtime.starts.schedules import (
    FIRING,
    Firing,
    Scheduling,
    firing_text,
    is_missed,
    of_trigger,
    plan_of,
    read_firing,
)
from stepwell.runtime.starts.starting import Start, Started

_logger = logging.getLogger("stepwell.triggers")

STARTED, SKIPPED, MISSED, REFUSED = "TriggeredRuns", "SkippedFirings", "MissedFirings", "RefusedTriggers"


class Triggers:
    """Starts runs. Calls may come twice, late, or for a deleted workflow. Raises PortError, and nothing else."""

    def __init__(
        self,
        ports: Ports,
        catalog: Catalog,
        scheduling: Scheduling,
        start: Callable[[Start], Awaitable[Started]],
    ) -> None:
        self._ports, self._catalog, self._scheduling, self._start = ports, catalog, scheduling, start
        self.counts: Counter[str] = Counter()  # outcomes since they were last read

    # -- events

    async def take(self, event: Event) -> None:
        """Starts a run of each workflow that has a trigger for the event, unless the event was sent to one run."""
        if run_of(event.topic) is not None:
            return
        for graph in list(self._catalog.current.values()):
            found = next((one for one in graph.event_triggers if _wants(one, event)), None)
            if found is not None:
                await self._start_on(graph, found, event)

    async def _start_on(self, graph: Graph, trigger: EventTrigger, event: Event) -> None:
        names = _names(event.payload, event.at_ms)
        try:
            cause = _cause(graph, trigger, event, names)
            given = event.payload if trigger.input is None else trigger.input.evaluate(names)
            await self._begin(graph.name, cause, given)
        except (UserError, ExpressionError) as refusal:
            self._tell(f"{graph.name} on event {event.topic.name} {event.id}", refusal)

    async def _begin(self, workflow: str, run_id: str, given: Json, version: str = "") -> Started:
        is_manual = self._catalog.named(workflow).start_mode == "manual"
        started = await self._start(Start(workflow, given, run_id, version=version, create_only=is_manual))
        if started.created:
            self.counts[STARTED] += 1
        return started

    def _tell(self, what: str, refusal: UserError | ExpressionError) -> None:
        """Logs and counts a refusal.

        It is no refusal if the run exists with another input, from another event of its key or another version, or if
        it was deleted.
        """
        if refusal.code == "already_used" or isinstance(refusal, RunDeleted):
            _logger.info("%s: its run is there already, or was", what)
            return
        self.counts[REFUSED] += 1
        _logger.error("%s starts no run: %s", what, refusal)

    # -- schedules

    async def fire(self, message: Scheduled) -> None:
        """Starts the run of a firing, unless it is missed or the run of an earlier one lives."""
        now_ms = self._ports.clock.now_ms()
        at_ms = message.at_ms or now_ms // MINUTE_MS * MINUTE_MS
        defined = self._scheduling.named(message.schedule)
        schedule = message.made or (of_trigger(*defined) if defined else None)
        if schedule is None or schedule.workflow not in self._catalog.current:
            _logger.warning("schedule %s fired, and is no longer deployed", message.schedule)
            return
        is_held = await self._scheduling.held(schedule.name) is not None
        if not is_held:
            await self._announce(schedule, at_ms, now_ms)
        run_id = _run_id("schedule", schedule.name, at_ms)
        is_there = await self._ports.runs.get_run(run_id) is not None
        if not is_there and not await self._claim(schedule, at_ms, run_id, now_ms, is_held=is_held):
            return
        try:
            given = _given(schedule, defined, at_ms)
            await self._begin(schedule.workflow, run_id, given, schedule.version)
        except (UserError, ExpressionError) as refusal:
            self._tell(f"{schedule.workflow} on schedule {schedule.name} at {iso(at_ms)}", refusal)

    async def fire_now(self, name: str, at_ms: int = 0) -> Started:
        """Starts a run of the schedule at a caller's wish, whatever its pause, `overlap` and `catch_up` say.

        `at_ms`: the time that it is fired for, not one to come. It is the run's cause, so a repeated call, and the
        firing at that time, find the run. 0: now, in addition to a firing at this time.

        Raises NotFound, InvalidInput, Conflict.
        """
        schedule, now_ms = (await self._scheduling.get(name)).schedule, self._ports.clock.now_ms()
        if at_ms > now_ms:
            raise InvalidInput(f"{iso(at_ms)} is still to come", code="bad_time",
                               hint="leave `at` out to fire it now, or create a run with start_at")  # fmt: skip
        run_id = _run_id("schedule", name, at_ms) if at_ms else _run_id("fired", name, now_ms)
        try:
            given = _given(schedule, self._scheduling.named(name), at_ms or now_ms)
        except ExpressionError as error:
            raise InvalidInput(f"schedule {name} has no input: {error.message}", code=error.code,
                               hint=error.hint) from error  # fmt: skip
        return await self._begin(schedule.workflow, run_id, given, schedule.version)

    async def _announce(self, schedule: Schedule, at_ms: int, now_ms: int) -> None:
        """Sends the event that the schedule's time has come."""
        payload: Json = {"schedule": schedule.name, "workflow": schedule.workflow, "scheduled_at": iso(at_ms)}
        topic, event_id = event_topic(SCHEDULE_FIRED, schedule.name), f"{schedule.name}@{at_ms}"
        event = Event(topic, event_id, payload, now_ms, now_ms + EVENT_KEPT_MS)
        await self._ports.queue.send(Lane.RESUME, to_json(Publish(event)))

    async def _claim(self, schedule: Schedule, at_ms: int, run_id: str, now_ms: int, *, is_held: bool) -> bool:
        """Notes the firing, and tells whether its run may start. A note that changed meanwhile is read again.

        first firing:   read note --> note "run 1" -----------------> create run 1
        next firing:                  read "run 1", which lives --> note the time --> skipped
        """
        notes = self._ports.notes
        while True:
            body = await notes.get_note(FIRING, schedule.name)
            last = read_firing({} if body is None else {schedule.name: body}, schedule.name) or Firing(0)
            if last.run_id == run_id:
                return True  # noted by this firing before a crash
            refusal = _HELD if is_held else await self._refusal(schedule, last, at_ms, now_ms)
            noted = Firing(max(at_ms, last.at_ms), last.run_id if refusal else run_id, plan_of(schedule))
            if await notes.put_note(FIRING, schedule.name, firing_text(noted), body):
                break
        if refusal:
            self.counts[_COUNTED[refusal]] += 1
            _logger.warning("schedule %s at %s starts nothing: %s", schedule.name, iso(at_ms), refusal)
        return not refusal

    async def _refusal(self, schedule: Schedule, last: Firing, at_ms: int, now_ms: int) -> str:
        """Returns why the firing starts nothing; "" if it does. A skipped one that is repeated stays skipped."""
        if is_missed(schedule, at_ms, now_ms):
            return _TOO_LATE
        if schedule.overlap != "skip":
            return ""
        before = await self._ports.runs.get_run(last.run_id) if last.run_id else None
        if before is not None and not before.status.terminal:
            return _LIVES
        return _OVER if last.run_id and at_ms <= last.at_ms else ""


_TOO_LATE = "it is too late for it"
_LIVES = "the run of an earlier firing had not ended"
_HELD = "it is paused"
_OVER = "it, or a later firing, was handled before"
_COUNTED = {_TOO_LATE: MISSED, _LIVES: SKIPPED, _HELD: SKIPPED, _OVER: SKIPPED}


def _wants(trigger: EventTrigger, event: Event) -> bool:
    """Tells whether the trigger is for the event. A `match` that cannot be evaluated does not match."""
    if trigger.event != event.topic.name:
        return False
    if trigger.match is None:
        return True
    try:
        return trigger.match.evaluate(_names(event.payload, event.at_ms)) is True
    except ExpressionError:
        return False


def _cause(graph: Graph, trigger: EventTrigger, event: Event, names: Mapping[str, Json]) -> str:
    """Returns the run's id. Raises ExpressionError, and InvalidInput for an invalid key."""
    if trigger.key is None:
        return _run_id("event", graph.name, event.topic.name, event.topic.key, event.id)
    key = trigger.key.evaluate(names)
    if isinstance(key, bool) or not isinstance(key, (str, int, float)) or key == "":
        shown = json.dumps(key)[:80]
        raise InvalidInput(f"the trigger's key is {shown}, and not a text or a number", code="bad_key")
    check_event_key(str(key))
    return _run_id("key", graph.name, event.topic.name, str(key))


def _given(schedule: Schedule, defined: tuple[Graph, ScheduleTrigger] | None, at_ms: int) -> Json:
    """Returns the input of a firing's run. Raises ExpressionError. `defined`: if it is a definition's."""
    return schedule.input if defined is None else input_at(defined[1], at_ms)


def _names(event: Json, at_ms: int) -> Mapping[str, Json]:
    """Returns the names for a trigger's expressions: the same whenever the same cause is repeated."""
    return {"event": event, "now": iso(at_ms)}


def _run_id(*cause: Json) -> str:
    return "run_" + hashlib.sha256(json.dumps(["trigger", *cause]).encode()).hexdigest()[:26]
