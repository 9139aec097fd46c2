"""Gathering: a start of a workflow with `debounce` or `batch` joins the run that gathers the starts of its key.

    start ── home: where it was put before ── is a record there? that run answers
      └── the place of its key ── a run that is open ── home ── its record ── full? it is woken
            └── none: another run is named there, made, and woken for when it is due

A home is an event that names the run of a start with a key or an id, so that a repeated start becomes no second record.
A new home is added only if the run of the last one has begun without the start, which is for good. The place is only
where to look: the run's log has the last word. A crash on the way leaves a run that the next start, or the sweeper,
creates, wakes and names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from stepwell.definition.graph import Graph
from stepwell.engine.actions import Refuse
from stepwell.engine.gathering import IS_DUE, due_ms, is_full
from stepwell.engine.inputs import GatheringOver, StartGathered
from stepwell.engine.records import ROOT, Topic
from stepwell.engine.starts import is_open
from stepwell.errors import Conflict, InvalidInput, PortError, RunDeleted
from stepwell.limits import LOCK_TRIES
from stepwell.runtime.log.door import Answer, Door
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.advance import Advance
from stepwell.runtime.ports import Event, Ports
from stepwell.runtime.ports.headers import Header
from stepwell.runtime.starts import places
from stepwell.runtime.starts.places import KEYED
from stepwell.runtime.starts.starting import Start, Started, Starter

_HOMES = "stepwell.start"  # the topic of a start's homes


def check_gathered(graph: Graph, request: Start) -> None:
    """Raises InvalidInput for options that a gathered start cannot have."""
    mode = graph.gathering.mode if graph.gathering is not None else ""
    named = {"start_at": request.start_at_ms, "create_only": request.create_only, "event": request.event}
    for name, given in named.items():
        if given:
            raise InvalidInput(f"{graph.name} has a `{mode}`, so a start of it has no `{name}`", code="gathered_start",
                               hint="the definition says when its runs begin; leave it out")  # fmt: skip


async def gathered_in(ports: Ports, start_id: str) -> Sequence[Event]:
    """Returns the homes of a start, oldest first, by the id of the run that it would make by itself."""
    events = await ports.mailbox.pending_events(Topic(_HOMES, start_id), ports.clock.now_ms())
    return sorted(events, key=lambda one: int(one.id))


class Gatherer:
    """Adds starts to the runs that gather them. Every operation may be repeated."""

    def __init__(
        self, ports: Ports, logbook: Logbook, starter: Starter, door: Door, advance: Advance, new_id: Callable[[], str]
    ) -> None:
        self._ports, self._logbook, self._starter = ports, logbook, starter
        self._door, self._advance, self._new_id = door, advance, new_id

    async def take(self, graph: Graph, given: Header, *, is_keyed: bool) -> Started:
        """Adds the start to an open run, or makes a new one for it. Raises InvalidInput, Conflict (key or id reused).

        `given`: the header of the run that the start would make by itself. `is_keyed`: the start has a key or an id, so
        it may be repeated.
        """
        origin = places.origin_at(graph, given)
        for _ in range(LOCK_TRIES):
            homes = await self._homes(given) if is_keyed else ()
            at = await self._open_run(graph, given, homes[-1], origin) if homes else None
            if is_keyed and (started := await self._started(at, given)) is not None:
                return started
            self._starter.check_one(graph, given)  # of a repeated start the first run answers, whatever it has
            if at is None or not is_open(at.run, at.token):
                at = await self._opened(graph, given, origin)
            if at is None or (is_keyed and not await self._moved_in(graph, given, homes, at.run_id)):
                continue
            by = _by(given) if is_keyed else f"offer:{given.run_id}"
            if (started := await self._added(at, given, by)) is not None:
                return started
        raise PortError(f"the starts of {graph.name} were gathered by others {LOCK_TRIES} times")

    async def before(self, given: Header) -> Started | None:
        """Returns what this start led to while its workflow gathered starts. Raises Conflict for another body."""
        homes = await self._homes(given)
        there = await self._ports.runs.get_run(homes[-1]) if homes else None
        return None if there is None else Started(there, created=False, folded=there.run_id != given.run_id)

    async def _started(self, at: Standing | None, given: Header) -> Started | None:
        """Returns what the same start led to before; None if nothing. `at`: the run of its last home."""
        if at is None:
            there = await self._before(given)
            return None if there is None else Started(there, created=False)
        slot = await self._slot_of(at, given)
        return None if slot is None else Started(at.header, created=False, folded=slot > 0)

    async def _added(self, at: Standing, given: Header, by: str) -> Started | None:
        """Adds the start to the run. Returns None if that takes no more: one that is due is closed."""
        answer = await self._door.put(at, StartGathered(given.input), by)
        if answer.is_mine:
            return await self._took(answer)
        if isinstance(answer.action, Refuse) and answer.action.code == IS_DUE:
            await self._closed(answer.at)
        return None

    # -- homes

    async def _homes(self, given: Header) -> Sequence[str]:
        """Returns the runs that this start was assigned to, oldest first. Raises Conflict for another body."""
        found = await gathered_in(self._ports, given.run_id)
        if found:
            _check_same(found[0].payload["fingerprint"], given)
        return [one.payload["run_id"] for one in found]

    async def _before(self, given: Header) -> Header | None:
        """Returns the run that the same start made before the workflow gathered any; None if there is none."""
        there = await self._ports.runs.get_run(given.run_id)
        if there is None or there.origin:
            return None
        _check_same(there.fingerprint, given)
        return there

    async def _moved_in(self, graph: Graph, given: Header, homes: Sequence[str], run_id: str) -> bool:
        """Adds a home for the start. Returns False if the same start, repeated, was put elsewhere meanwhile."""
        if homes and homes[-1] == run_id:
            return True
        now_ms = self._ports.clock.now_ms()
        payload = {"run_id": run_id, "fingerprint": given.fingerprint}
        topic = Topic(_HOMES, given.run_id)
        return await self._ports.mailbox.put_event(
            Event(topic, str(len(homes)), payload, now_ms, now_ms + graph.retention_ms)
        )

    async def _slot_of(self, at: Standing, given: Header) -> int | None:
        """Returns the slot of the start's record in the run's log; None if it has none."""
        records = await self._logbook.history(at.run_id, ROOT, -1, None)
        return next((record.slot for record in records if record.by == _by(given)), None)

    # -- the run

    async def _opened(self, graph: Graph, given: Header, origin: str) -> Standing | None:
        """Returns the run that gathers this place's starts. None: another caller was faster, so look again."""
        named = await places.found(self._ports.notes, origin)
        at = await self._open_unless_deleted(graph, given, named, origin) if named is not None else None
        if at is not None and is_open(at.run, at.token):
            return at
        is_taken = await self._ports.runs.get_run(given.run_id) is not None
        run_id = f"run_{self._new_id()}" if is_taken else given.run_id
        if not await places.name(self._ports.notes, origin, run_id, named):
            return None
        return await self._open_run(graph, given, run_id, origin)

    async def _open_unless_deleted(self, graph: Graph, given: Header, run_id: str, origin: str) -> Standing | None:
        try:
            return await self._open_run(graph, given, run_id, origin)
        except RunDeleted:
            return None

    async def _open_run(self, graph: Graph, given: Header, run_id: str, origin: str) -> Standing:
        """Loads the run; creates and wakes it if nobody has yet.

        It is dated now: a caller that was held up for the whole period would make a run that is due at once.
        """
        at = await self._logbook.load(run_id)
        if at is None:
            now_ms = max(given.created_ms, self._ports.clock.now_ms())
            dated = replace(given, created_ms=now_ms, changed_ms=now_ms)
            await self._starter.create(graph, replace(dated, run_id=run_id, input=None, fingerprint="", origin=origin))
            at = await self._logbook.load(run_id)
        if at is None:
            raise PortError(f"run {run_id} is not there")
        if at.token.last is None and is_open(at.run, at.token):
            await self._starter.set_going(at.header, due_ms(at.graph, at.run, at.token))
        return at

    async def _took(self, answer: Answer) -> Started:
        at = await self._logbook.save_if_due(answer.at)
        slot = at.token.slot
        if is_open(at.run, at.token) and is_full(at.graph, at.token):
            await self._advance.wake(at, yields=True)
        return Started(at.header, created=slot == 0, folded=slot > 0)

    async def _closed(self, at: Standing) -> None:
        """Records that a run takes no more starts, in the name of its wake, which is late, and goes on from there.

        The wake of a full run may have been lost when the caller that filled it crashed, so it is sent again.
        """
        if is_full(at.graph, at.token):
            await self._advance.wake(at, yields=True)
        by = at.wake().id
        answer = await self._door.put(at, GatheringOver(at.token.slot), by)
        if answer.is_mine:
            await self._advance.settle(answer.at, by)


def _check_same(fingerprint: str, given: Header) -> None:
    if fingerprint != given.fingerprint:
        raise Conflict("this idempotency key, or run id, started another run, with another body",
                       code="already_used", hint="repeat the first body, or take a new one")  # fmt: skip


def _by(given: Header) -> str:
    return f"{KEYED}{given.run_id}"
