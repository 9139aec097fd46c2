"""All schedules: those of deployed definitions, and those that callers made; and when each fires.

A caller's schedule is a note; its messages are sent by the Schedules port, or by a process that reads the notes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice, takewhile

from stepwell.definition.durations import LONGEST_MS
from stepwell.definition.graph import Graph, Json, ScheduleTrigger
from stepwell.definition.text import closest
from stepwell.definition.timetable import parse_schedule
from stepwell.engine.gathering import alone
from stepwell.engine.records import RunInfo
from stepwell.errors import Conflict, ExpressionError, InvalidInput, NotFound, UserError
from stepwell.limits import FIRING_LATE_MS, FIRINGS_MADE_UP, SCHEDULE_INPUT_BYTES, SCHEDULES
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.log.messages import Scheduled, to_json
from stepwell.runtime.ports import Ports, Schedule, Schedules
from stepwell.runtime.starts.admission import check_json
from stepwell.runtime.starts.places import gathering_key
from stepwell.runtime.starts.scheduled import input_at
from stepwell.runtime.starts.starting import check_input, check_keys
from stepwell.runtime.starts.versions import Versions
from stepwell.runtime.stores.jsontext import decode, encode
from stepwell.values import dataclass

SCHEDULE, FIRING, HELD = "schedule", "firing", "held_schedule"  # kinds of notes
OVERLAPS = ("skip", "allow")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)  # a definition's name has a colon, so none clashes


@dataclass(frozen=True, slots=True)
class Firing:
    """The last handled time of a schedule, and the last run that it started."""

    at_ms: int
    run_id: str = ""
    plan: str = ""  # the expression and its time zone: after a change, earlier times mean nothing


@dataclass(frozen=True, slots=True)
class Held:
    """A pause of a schedule: since when, by whom, and why."""

    since_ms: int
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """A schedule, its last firing, where it comes from, and its pause."""

    schedule: Schedule
    last: Firing | None
    of_definition: bool
    held: Held | None = None


class Scheduling:
    """Lists, makes and removes schedules."""

    def __init__(self, ports: Ports, catalog: Catalog, schedules: Schedules | None) -> None:
        """`schedules` None: this process reads the notes itself, and sends the messages."""
        self._ports, self._catalog, self._schedules = ports, catalog, schedules

    async def all(self) -> Sequence[Known]:
        """Returns every schedule, by name."""
        made = [_read(body) for body in (await self._ports.notes.notes(SCHEDULE)).values()]
        defined = [of_trigger(graph, one) for graph in self._catalog.current.values() for one in graph.schedules]
        if not made and not defined:
            return []
        firings, held = await self._ports.notes.notes(FIRING), await self._ports.notes.notes(HELD)
        found = [Known(one, _firing(firings.get(one.name)), one in defined, _held(held.get(one.name)))
                 for one in (*made, *defined)]  # fmt: skip
        return sorted(found, key=lambda known: known.schedule.name)

    async def trouble(self, known: Known) -> str:
        """Returns why a schedule would start no run now; "" if it would."""
        schedule = known.schedule
        try:
            graph = await Versions(self._ports, self._catalog).graph(schedule.workflow, schedule.version)
            if schedule.workflow not in self._catalog.current:
                return f"the workflow {schedule.workflow!r} is not deployed"
            self._check_input(graph, self._fired(graph, schedule) if known.of_definition else schedule.input)
        except (UserError, ExpressionError) as error:
            return error.message
        return ""

    def _fired(self, graph: Graph, schedule: Schedule) -> Json:
        """The input that a firing of a definition's schedule would have now. Raises ExpressionError."""
        now_ms = self._ports.clock.now_ms()
        triggers = (one for one in graph.schedules if one.name == schedule.name)
        return next((input_at(one, now_ms) for one in triggers), schedule.input)

    def _check_input(self, graph: Graph, given: Json) -> None:
        check_input(graph, given)
        whole = alone(graph, given)
        self._catalog.check_arguments(graph, whole)
        run = RunInfo("", graph.name, graph.version, given, self._ports.clock.now_ms())
        gathering_key(graph, run)
        check_keys(graph, replace(run, input=whole))

    async def create(self, schedule: Schedule) -> tuple[Known, bool]:
        """Returns the schedule, and whether this call made it; a repeated call gets the first one's.

        Raises InvalidInput, NotFound (the workflow, or its version), Conflict (the name is another schedule's, or there
        are too many).
        """
        self._check(schedule)
        notes, versions = self._ports.notes, Versions(self._ports, self._catalog)
        self._check_input(await versions.graph(schedule.workflow, schedule.version), schedule.input)
        version = await versions.lasting(schedule.workflow, schedule.version)
        schedule = replace(schedule, version=version)
        stored = await notes.notes(SCHEDULE)
        there = _read(stored[schedule.name]) if schedule.name in stored else None
        if there is None:
            if len(stored) >= SCHEDULES:
                raise Conflict(f"there are {SCHEDULES} schedules already", code="too_many_schedules",
                               hint="delete one, or write it into the workflow's triggers")  # fmt: skip
            made = replace(schedule, since_ms=self._ports.clock.now_ms())
            if not next_ms(Known(made, None, False), made.since_ms):  # a repeated call finds one that is over
                raise InvalidInput(f"{made.expression} never fires again", code="bad_schedule",
                                   hint="write * for the year, or one to come")  # fmt: skip
            if not await notes.put_note(SCHEDULE, made.name, encode(made.stored()), None):
                return await self.create(schedule)  # another call was faster: look again
        else:
            made = there
        if replace(made, since_ms=0) != schedule:
            raise Conflict(f"the schedule {made.name!r} is another one", code="already_used",
                           hint="delete it first, or take another name")  # fmt: skip
        if self._schedules is not None:  # also for a repeated call: the first may have died right here
            await self._schedules.set(made, to_json(Scheduled(made.name, made=made)))
        return await self._known(made, of_definition=False), there is None

    async def get(self, name: str) -> Known:
        """Returns a schedule by its name. Raises NotFound."""
        defined = self.named(name)
        if defined is not None:
            return await self._known(of_trigger(*defined), of_definition=True)
        body = await self._ports.notes.get_note(SCHEDULE, name) if _NAME.fullmatch(name) else None
        if body is None:
            near = closest(name[:80], [one.schedule.name for one in await self.all()])
            raise NotFound(f"there is no schedule {name[:80]!r}", code="unknown_schedule",
                           hint=near or "stepwell schedules lists them")  # fmt: skip
        return await self._known(_read(body), of_definition=False)

    async def held(self, name: str) -> Held | None:
        """Returns the pause of a schedule; None if it is not paused."""
        return _held(await self._ports.notes.get_note(HELD, name))

    async def pause(self, name: str, reason: str, by: str) -> tuple[Known, bool]:
        """Has a schedule start no runs until its pause is ended. Returns it, and whether it was paused before.

        An earlier pause stays as it is. Raises NotFound.
        """
        await self.get(name)
        held = Held(self._ports.clock.now_ms(), by, reason)
        is_new = await self._ports.notes.put_note(HELD, name, encode(asdict(held)), None)
        return await self.get(name), not is_new

    async def unpause(self, name: str) -> Known:
        """Ends the pause of a schedule. Times that passed in it are not made up for.

        Raises NotFound, and Conflict `not_paused`.
        """
        known = await self.get(name)
        if known.held is None:
            raise Conflict(f"the schedule {name!r} is not paused", code="not_paused",
                           hint="stepwell schedules tells which are")  # fmt: skip
        await self._ports.notes.drop_note(HELD, name)
        return replace(known, held=None)

    async def rearm(self) -> None:
        """Sets every schedule that a caller made once more: the scheduler may have lost it."""
        for body in (await self._ports.notes.notes(SCHEDULE)).values():
            made = _read(body)
            if self._schedules is not None:
                await self._schedules.set(made, to_json(Scheduled(made.name, made=made)))

    async def remove(self, name: str) -> None:
        """Deletes a caller's schedule. Raises NotFound, and Conflict for a definition's."""
        if self.named(name) is not None:
            raise Conflict(f"the schedule {name!r} is of its workflow's definition", code="of_definition",
                           hint="take it out of `triggers` and deploy again")  # fmt: skip
        await self.get(name)
        if self._schedules is not None:
            await self._schedules.drop(name)
        for kind in (FIRING, HELD):
            await self._ports.notes.drop_note(kind, name)
        await self._ports.notes.drop_note(SCHEDULE, name)  # last: until then the call can be repeated

    def named(self, name: str) -> tuple[Graph, ScheduleTrigger] | None:
        """Returns a definition's schedule as it is deployed now; None if there is none."""
        graph = self._catalog.current.get(name.rpartition(":")[0])
        found = [one for one in graph.schedules if one.name == name] if graph is not None else []
        return (graph, found[0]) if graph is not None and found else None

    async def _known(self, schedule: Schedule, *, of_definition: bool) -> Known:
        firing = await self._ports.notes.get_note(FIRING, schedule.name)
        return Known(schedule, _firing(firing), of_definition, await self.held(schedule.name))

    def _check(self, schedule: Schedule) -> None:
        if not _NAME.fullmatch(schedule.name):
            hint = "letters, digits and . _ - are allowed, at most 64"
            raise InvalidInput(f"{schedule.name[:80]!r} cannot be a schedule's name", code="bad_name", hint=hint)
        if schedule.overlap not in OVERLAPS:
            raise InvalidInput(f"overlap is {' or '.join(OVERLAPS)}, not {schedule.overlap[:80]!r}", code="bad_overlap")
        if schedule.catch_up_ms is not None and not 0 <= schedule.catch_up_ms <= LONGEST_MS:
            raise InvalidInput("catch_up cannot be negative, or over 100 years", code="bad_duration")
        parse_schedule(schedule.expression, schedule.timezone)
        check_json(schedule.input, "input")
        size = len(encode(schedule.input).encode())
        if size > SCHEDULE_INPUT_BYTES:
            raise InvalidInput(f"the input of a schedule has at most {SCHEDULE_INPUT_BYTES} bytes, not {size}",
                               code="input_too_large", hint="send a reference to what is large")  # fmt: skip
        graph = self._catalog.named(schedule.workflow)
        if graph.internal:
            raise Conflict(f"{graph.name} is internal: only another run can start it", code="internal_workflow")


def of_trigger(graph: Graph, trigger: ScheduleTrigger) -> Schedule:
    """Returns a definition's schedule. Its input is an expression, which is evaluated when it fires."""
    return Schedule(trigger.name, graph.name, trigger.expression, trigger.timezone, None, trigger.overlap,
                    trigger.catch_up_ms)  # fmt: skip


def plan_of(schedule: Schedule) -> str:
    """Returns the part of a schedule that decides its times."""
    return f"{schedule.expression} {schedule.timezone}"


def next_ms(known: Known, now_ms: int, count: int = 1) -> list[int]:
    """Returns the next times; none for a rate whose beginning is not known."""
    found: list[int] = []
    table = parse_schedule(known.schedule.expression, known.schedule.timezone)
    since_ms = known.schedule.since_ms or (known.last.at_ms if known.last else 0)
    if not since_ms and table.aws.startswith("rate"):
        return found
    while len(found) < count:
        at_ms = table.after(found[-1] if found else now_ms, since_ms)
        if at_ms is None:
            break
        found.append(at_ms)
    return found


def due_ms(schedule: Schedule, last_ms: int, now_ms: int) -> Sequence[int]:
    """Returns the times after `last_ms` to handle now: the last one that has come, and those to be made up for.

    It looks back from now, so that it takes no longer after a long outage.
    """
    times = parse_schedule(schedule.expression, schedule.timezone).back(now_ms, schedule.since_ms or last_ms)
    latest_ms = next(times, None)
    if latest_ms is None or latest_ms <= last_ms:
        return ()
    after_ms = max(last_ms, now_ms - _late_ms(schedule) - 1)
    earlier = list(takewhile(lambda at_ms: at_ms > after_ms, islice(times, FIRINGS_MADE_UP)))
    return (*reversed(earlier), latest_ms)


def is_missed(schedule: Schedule, at_ms: int, now_ms: int) -> bool:
    """Tells whether it is too late for this firing."""
    if now_ms - at_ms <= _late_ms(schedule):
        return False
    if schedule.catch_up_ms is not None:
        return True
    following_ms = parse_schedule(schedule.expression, schedule.timezone).after(at_ms, schedule.since_ms or at_ms)
    return following_ms is not None and following_ms <= now_ms


def read_firing(notes: Mapping[str, str], name: str) -> Firing | None:
    """Returns the last firing of a schedule from its note; None if there is none."""
    return _firing(notes.get(name))


def firing_text(firing: Firing) -> str:
    """Returns the note of a firing, for `read_firing`."""
    return encode(asdict(firing))


def _firing(body: str | None) -> Firing | None:
    return None if body is None else Firing(**decode(body))


def _held(body: str | None) -> Held | None:
    return None if body is None else Held(**decode(body))


def _read(body: str) -> Schedule:
    return Schedule(**decode(body))


def _late_ms(schedule: Schedule) -> int:
    return max(schedule.catch_up_ms or 0, FIRING_LATE_MS)
