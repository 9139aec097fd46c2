"""The store in plain dictionaries, for tests and the simulator: same semantics, nothing durable.

For one thread. No method suspends, so nothing comes between a check and the write that follows from it.
JSON is kept as text: a caller who changes a value later, or passes what JSON cannot say, is treated as a real
store would.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from stepwell import limits
from stepwell.definition.graph import Json
from stepwell.engine.copying import changed
from stepwell.engine.durable.transact import Refusal
from stepwell.engine.records import ROOT, Status, Topic
from stepwell.engine.waits import run_of
from stepwell.memory.items import MemoryItems, changes_of
from stepwell.memory.notes import MemoryNotes
from stepwell.runtime.ports import (
    Appended,
    Event,
    EventRef,
    EventTaken,
    Forks,
    Joined,
    Loaded,
    Marked,
    Pause,
    Saved,
    Waiter,
    Writes,
)
from stepwell.runtime.ports.headers import Header, RunPage, RunQuery, StatusChange, check_held
from stepwell.runtime.stores.answers import (
    deadline_of,
    decode_cursor,
    decode_deadline,
    due_page,
    encode_cursor,
    fits,
    if_readable,
    opened,
    page_by_deadline,
    too_many_pending,
    with_pause,
)
from stepwell.runtime.stores.jsontext import decode, encode


class _Log:
    """One token's records by slot, its marks, and its last snapshot."""

    __slots__ = ("marks", "records", "slots", "snapshot")

    def __init__(self) -> None:
        self.slots: list[int] = []  # in order
        self.records: dict[int, Saved] = {}
        self.marks: dict[int, str] = {}  # with who rests before them
        self.snapshot: Saved | None = None

    def append(self, slot: int, body: str) -> None:
        self.records[slot] = Saved(slot, body)
        insort(self.slots, slot)

    def after(self, slot: int, limit: int | None) -> list[Saved]:
        begin = bisect_right(self.slots, slot)
        end = None if limit is None else begin + limit
        return [self.records[found] for found in self.slots[begin:end]]


class MemoryStore(MemoryItems, MemoryNotes):
    """Log, mailbox, runs and notes in dictionaries. Its order is that of the data, never of hashes."""

    def __init__(self) -> None:
        MemoryItems.__init__(self)
        MemoryNotes.__init__(self)
        self._runs: dict[str, Header] = {}  # their input is JSON text
        self._held: dict[str, int] = {}  # the ids of deleted runs, with until when
        self._by_time: list[tuple[int, str]] = []
        self._logs: dict[tuple[str, str], _Log] = {}
        self._joins: dict[tuple[str, str], dict[str, bool]] = defaultdict(dict)  # whether they are in order
        self._reports: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
        self._events: dict[Topic, dict[str, Event]] = defaultdict(dict)  # their payload is JSON text
        self._pending: dict[Topic, dict[str, Event]] = defaultdict(dict)  # those not consumed
        self._waiters: dict[Topic, dict[tuple[str, str, int, int], Waiter]] = defaultdict(dict)

    async def create_run(self, header: Header) -> Header | None:
        existing = self._runs.get(header.run_id)
        if existing is not None:
            return changed(existing, input=decode(existing.input))
        check_held(header, self._held.get(header.run_id, 0))
        self._runs[header.run_id] = changed(header, input=encode(header.input), tags=dict(header.tags))
        insort(self._by_time, (header.created_ms, header.run_id))
        return None

    async def get_run(self, run_id: str) -> Header | None:
        header = self._runs.get(run_id)
        return None if header is None else changed(header, input=decode(header.input))

    async def change_status(self, change: StatusChange) -> bool:
        header = self._runs.get(change.run_id)
        if header is None or header.rev >= change.rev + change.of_branch:
            return False
        is_held = header.paused_ms > 0 and not change.ends_pause
        if is_held and change.unless_paused:
            return False
        self._runs[change.run_id] = changed(
            header,
            rev=change.rev,
            status=Status.PAUSED if is_held else change.status,
            resumes_as=change.status.value if is_held else "",
            paused_ms=header.paused_ms if is_held else 0,
            failure=change.failure,
            changed_ms=change.changed_ms,
            started_ms=header.started_ms if change.started_ms is None else change.started_ms,
            ended_ms=change.ended_ms,
            waiting_for=change.waiting_for,
            waiting_node=change.waiting_node,
            waiting_since_ms=change.waiting_since_ms,
            waiting_until_ms=change.waiting_until_ms,
            expires_ms=change.expires_ms,
            due_ms=header.due_ms if change.of_branch else change.due_ms,
        )
        return True

    async def watch(self, run_id: str, due_ms: int | None, seen: Header | None = None) -> bool:
        header = self._runs.get(run_id)
        if header is None or (seen is not None and (header.rev, header.due_ms) != (seen.rev, seen.due_ms)):
            return False
        self._runs[run_id] = changed(header, due_ms=due_ms, watched=True)
        return True

    async def hold(self, seen: Header, pause: Pause | None, at_ms: int) -> bool:
        header = self._runs.get(seen.run_id)
        if header is None or _pause_of(header) != _pause_of(seen):
            return False
        self._runs[seen.run_id] = with_pause(header, pause, at_ms)
        return True

    async def list_due(self, before_ms: int, limit: int, cursor: str = "") -> RunPage:
        after = decode_cursor(cursor) if cursor else (-1, "")
        watched = [(one.due_ms, run_id) for run_id, one in self._runs.items() if one.watched and one.due_ms is not None]
        due = sorted(place for place in watched if place > after and place[0] < before_ms)
        headers = [self._runs[run_id] for _, run_id in due[: limit + 1]]
        return due_page([changed(header, input=decode(header.input)) for header in headers], limit)

    async def list_runs(self, query: RunQuery) -> RunPage:
        if query.by_deadline:
            return self._by_deadline(query)
        found: list[Header] = []
        for header in self._newest_first(query.cursor):
            if header.created_ms < query.since_ms:
                break
            if not fits(header, query):
                continue
            if len(found) == query.limit:
                return RunPage(tuple(found), encode_cursor(found[-1].created_ms, found[-1].run_id))
            found.append(changed(header, input=decode(header.input)))
        return RunPage(tuple(found))

    def _by_deadline(self, query: RunQuery) -> RunPage:
        after = decode_deadline(query.cursor)[:2] if query.cursor else (-1, "")
        found = [one for one in self._runs.values() if one.created_ms >= query.since_ms and fits(one, query)]
        found = sorted((one for one in found if deadline_of(one) > after), key=deadline_of)[: query.limit + 1]
        return page_by_deadline([changed(one, input=decode(one.input)) for one in found], query.limit)

    def _newest_first(self, cursor: str) -> Iterator[Header]:
        end = bisect_left(self._by_time, decode_cursor(cursor)) if cursor else len(self._by_time)
        return (self._runs[self._by_time[index][1]] for index in range(end - 1, -1, -1))

    async def stats(self) -> Json:
        groups: dict[tuple[str, Status, str], list[int]] = defaultdict(list)
        for header in self._runs.values():
            groups[header.workflow, header.status, header.waiting_for].append(header.created_ms)
        return [
            {
                "workflow": workflow,
                "status": status,
                "count": len(times),
                "sum_created_ms": sum(times),
                "oldest_created_ms": min(times),
                "waiting_for": waiting_for,
            }
            for (workflow, status, waiting_for), times in sorted(groups.items())
        ]

    async def mark(self, run_id: str, token: str, slot: int) -> bool:
        log = self._log(run_id, token)
        if slot not in log.records:
            log.marks.setdefault(slot, "")
        return slot not in log.records

    async def rest(self, run_id: str, token: str, slot: int, told: str, before: str = "") -> bool:
        log = self._log(run_id, token)
        if slot in log.records or (before and log.marks.get(slot) not in (before, told)):
            return False
        log.marks[slot] = told
        return True

    async def unmark(self, run_id: str, token: str, slot: int) -> None:
        self._log(run_id, token).marks.pop(slot, None)

    async def is_blank(self, run_id: str, token: str) -> bool:
        log = self._logs.get((run_id, token))
        return log is None or not (log.records or log.marks)

    async def append(
        self, run_id: str, token: str, slot: int, body: str, *, consumes: EventRef | None = None, also: Writes = ()
    ) -> Appended:
        log = self._log(run_id, token)
        # The slot first: where the event is taken too, it is the token that has moved on.
        if slot in log.marks:
            return Marked()
        if slot in log.records:
            return log.records[slot].body
        changes = changes_of(also, self.item)
        if isinstance(changes, Refusal):
            return changes
        if consumes is not None:
            topic, event_id = consumes
            event = self._pending[topic].pop(event_id, None)
            if event is None:
                return EventTaken()
            self._events[topic][event_id] = replace(event, consumed_by=f"{run_id}|{token}|{slot}")
        log.append(slot, body)
        self.change_items(changes)
        return None

    async def load(self, run_id: str, token: str, after: int | None = None) -> Loaded:
        log = self._logs.get((run_id, token))
        if log is None:
            return Loaded(None, [])
        if after is not None:
            return Loaded(None, log.after(after, None), bool(log.marks))
        return Loaded(log.snapshot, log.after(log.snapshot.slot if log.snapshot else -1, None), bool(log.marks))

    async def read_log(self, run_id: str, token: str, after: int = -1, limit: int | None = None) -> Sequence[Saved]:
        log = self._logs.get((run_id, token))
        return [] if log is None else log.after(after, limit)

    async def save_snapshot(self, run_id: str, token: str, slot: int, body: str) -> None:
        log = self._log(run_id, token)
        if log.snapshot is None or log.snapshot.slot < slot:
            log.snapshot = Saved(slot, body)

    async def arrive(self, run_id: str, join: str, member: str, *, in_order: bool = False) -> Joined:
        self._joins[run_id, join].setdefault(member, in_order)
        return await self.read_join(run_id, join)

    async def report(self, run_id: str, join: str, place: int, value: int) -> Joined:
        numbers = self._reports[run_id, join]
        numbers[place] = max(value, numbers.get(place, value))
        return await self.read_join(run_id, join)

    async def read_join(self, run_id: str, join: str, lanes: Sequence[str] = ()) -> Joined:
        name = run_id, join
        logs = await self.read_logs(run_id, lanes) if lanes else {}
        members = self._joins.get(name, {})
        order = tuple(one for one, in_order in members.items() if in_order)
        return Joined(frozenset(members), dict(self._reports.get(name, {})), order, logs)

    async def read_logs(self, run_id: str, tokens: Sequence[str]) -> Mapping[str, Sequence[Saved]]:
        logs = {token: self._logs.get((run_id, token)) for token in tokens}
        return {token: log.after(-1, None) for token, log in logs.items() if log is not None and log.records}

    async def read_bodies(self, run_id: str, places: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], str]:
        found = {(token, slot): self._logs.get((run_id, token)) for token, slot in places}
        return {place: log.records[place[1]].body for place, log in found.items() if log and place[1] in log.records}

    async def put_event(self, event: Event, most: int = limits.EVENT_PENDING) -> bool:
        events, pending = self._events[event.topic], self._pending[event.topic]
        payload = encode(event.payload)
        if event.id in events:
            return False
        if len(pending) >= most:
            live = sum(other.expires_ms > event.at_ms for other in pending.values())
            if live >= most:
                raise too_many_pending(event.topic, most)
        events[event.id] = replace(event, payload=payload)
        if not event.consumed_by:
            pending[event.id] = events[event.id]
        return True

    async def get_event(self, topic: Topic, event_id: str) -> Event | None:
        event = self._events.get(topic, {}).get(event_id)
        return None if event is None else opened(event)

    async def pending_events(self, topic: Topic, now_ms: int, after: str = "") -> Sequence[Event]:
        found = self._pending.get(topic, {}).values()
        live = [event for event in found if event.expires_ms > now_ms and event.id > after]
        live.sort(key=lambda event: (event.at_ms, event.id))
        events: list[Event] = []
        for event in live:
            with if_readable(topic, event.id):
                events.append(opened(event))
        return events

    async def put_waiter(self, waiter: Waiter) -> None:
        self._waiters[waiter.topic].setdefault(_waiter_key(waiter), waiter)

    async def waiters(self, topic: Topic) -> Sequence[Waiter]:
        waiters = self._waiters.get(topic, {}).values()
        return sorted(waiters, key=lambda waiter: (waiter.since_ms, *_waiter_key(waiter)))

    async def count_waiters(self, topic: Topic, most: int) -> int:
        return min(most, len(self._waiters.get(topic, {})))

    async def forget_waiter(self, waiter: Waiter) -> None:
        self._waiters[waiter.topic].pop(_waiter_key(waiter), None)

    async def erase_logs(self, run_id: str, forks: Forks) -> int:
        begin = tuple(f"{fork}{mark}" for fork, _, _ in forks for mark in ".@")  # of a branch, of a page's join
        names = {ROOT, *(fork for fork, _, _ in forks)}
        kept = (*self._logs, *self._joins, *self._reports)
        gone = [place for place in kept if place[0] == run_id and (place[1] in names or place[1].startswith(begin))]
        for place in gone:
            self._joins.pop(place, None)
            self._reports.pop(place, None)
        return sum(len(log.records) for place in gone if (log := self._logs.pop(place, None)))

    async def scrub(self) -> None:
        """There are no files."""

    async def note_topic(self, event: Event, run_id: str) -> None:
        """Does nothing: `topics_to` reads the events themselves."""

    async def topics_to(self, run_id: str) -> Sequence[Topic]:
        return [topic for topic, events in self._events.items() if events and run_of(topic) == run_id]

    async def erase_topic(self, topic: Topic) -> None:
        for places in (self._events, self._pending, self._waiters):
            places.pop(topic, None)

    async def erase_event(self, topic: Topic, event_id: str, run_id: str = "") -> None:
        event = self._events.get(topic, {}).get(event_id)
        if event is not None and (not run_id or event.consumed_by.startswith(f"{run_id}|")):
            del self._events[topic][event_id]
            self._pending[topic].pop(event_id, None)

    async def held_until_ms(self, run_id: str) -> int:
        return 0 if run_id in self._runs else self._held.get(run_id, 0)

    async def drop_run(self, run_id: str, held_until_ms: int) -> bool:
        header = self._runs.pop(run_id, None)
        if header is not None:
            self._held[run_id] = held_until_ms
            self._by_time.remove((header.created_ms, run_id))
        return header is not None

    def purge(self, now_ms: int) -> int:
        """Drops ended runs whose retention is over, with their logs, and expired events. Returns how many runs."""
        for topic, events in self._events.items():
            for event_id in [event.id for event in events.values() if event.expires_ms <= now_ms]:
                del events[event_id]
                self._pending[topic].pop(event_id, None)
        gone = {
            header.run_id
            for header in self._runs.values()
            if header.status.terminal and 0 < header.expires_ms <= now_ms
        }
        self._runs = {run_id: header for run_id, header in self._runs.items() if run_id not in gone}
        self._by_time = [place for place in self._by_time if place[1] not in gone]
        self._logs = {place: log for place, log in self._logs.items() if place[0] not in gone}
        for join in [place for place in self._joins if place[0] in gone]:
            del self._joins[join]
        for join in [place for place in self._reports if place[0] in gone]:
            del self._reports[join]
        for waiters in self._waiters.values():
            for key in [key for key, waiter in waiters.items() if waiter.run_id in gone]:
                del waiters[key]
        return len(gone)

    def _log(self, run_id: str, token: str) -> _Log:
        log = self._logs.get((run_id, token))
        if log is None:
            log = self._logs[run_id, token] = _Log()
        return log


def _waiter_key(waiter: Waiter) -> tuple[str, str, int, int]:
    return waiter.run_id, waiter.token, waiter.slot, waiter.arm


def _pause_of(header: Header) -> tuple[Status, str, int]:
    """What a pause, or its end, must find as it was seen. The time tells a pause from one after it."""
    return header.status, header.resumes_as, header.paused_ms
