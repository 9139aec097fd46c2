"""The ports: what the runtime needs of the world. Every adapter passes one contract suite (tests/contract).

All are `async` so that the simulator can stop an actor at every call; adapters that block simply do not suspend. Any
call may raise PortError: the outcome is then unknown, and the caller's message is redelivered. A value that is not JSON
raises InvalidInput. Bodies are JSON text, opaque to the adapters. One adapter may be several ports.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, field
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeAlias

from stepwell.definition.graph import Json
from stepwell.engine.durable.transact import Refusal, TableWrite
from stepwell.engine.records import Topic
from stepwell.engine.stored import formats
from stepwell.limits import EVENT_PENDING
from stepwell.runtime.ports.headers import Header, RunPage, RunQuery, StatusChange
from stepwell.values import dataclass

EVERY = "*"  # in place of a workflow's name: all workflows


@dataclass(frozen=True, slots=True)
class Saved:
    """One stored record or snapshot: its slot and its body."""

    slot: int
    body: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """The data to fold a token from: its last snapshot, the records after it by slot, and whether a mark follows."""

    snapshot: Saved | None
    records: Sequence[Saved]
    is_marked: bool = False


@dataclass(frozen=True, slots=True)
class Joined:
    """A join: the members that have arrived, and numbers by place, each of which only grows."""

    members: frozenset[str] = frozenset()
    numbers: Mapping[int, int] = field(default_factory=dict)
    order: Sequence[str] = ()  # the members in order of arrival, if they were added `in_order`; else empty
    lanes: Mapping[str, Sequence[Saved]] = field(default_factory=dict)  # those that were asked for, if they have any


@dataclass(frozen=True, slots=True)
class Event:
    """An event from outside, kept under its topic until it is consumed or expires."""

    topic: Topic
    id: str
    payload: Json
    at_ms: int
    expires_ms: int
    consumed_by: str = ""  # "<run>|<token>|<slot>" of the `resumed` record that took it; "" while pending
    format: int = field(default_factory=lambda: formats.FORMAT)  # of the code that wrote it


@dataclass(frozen=True, slots=True)
class Waiter:
    """A wait's registration under one topic. `slot` is that of the `waiting` record."""

    topic: Topic
    run_id: str
    token: str
    slot: int
    since_ms: int
    arm: int = 0
    match: str = ""


@dataclass(frozen=True, slots=True)
class EventTaken:
    """The event that a record was to consume is consumed already, unknown, or expired and gone."""


EventRef: TypeAlias = tuple[Topic, str]  # an event's topic and id
Forks: TypeAlias = Sequence[tuple[str, int, int]]  # (id, width, pages), the innermost first


@dataclass(frozen=True, slots=True)
class Marked:
    """A mark holds up the record: its writer has to read the run's header first."""


class Pause(NamedTuple):
    """Who paused a run, and why. `of`: the workflow whose pause it is, EVERY for a pause of all; "": the run's own."""

    by: str
    reason: str
    of: str = ""


Writes: TypeAlias = Sequence[TableWrite]  # the user's own
Appended: TypeAlias = str | Refusal | EventTaken | Marked | None
"""None: appended. Else nothing was written: the body that holds the slot, or another reason."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The times at which runs of a workflow start: from a definition, or made by a caller."""

    name: str
    workflow: str
    expression: str
    timezone: str = "UTC"
    input: Json = None  # if a caller made it; a definition's has an expression
    overlap: str = "skip"
    catch_up_ms: int | None = None
    since_ms: int = 0  # when a caller made it; 0 for a definition's
    version: str = ""  # the version of its runs, as a start names it, resolved at each time

    def stored(self) -> dict[str, Json]:
        """Returns the schedule as a note or a message keeps it; without a version if "", for older releases."""
        body: dict[str, Json] = asdict(self)
        return body if self.version else {name: one for name, one in body.items() if name != "version"}


class Log(Protocol):
    """The records and snapshots of tokens, and the joins where branches meet. Reads are strongly consistent."""

    async def append(
        self, run_id: str, token: str, slot: int, body: str, *, consumes: EventRef | None = None, also: Writes = ()
    ) -> Appended:
        """Writes the record if its slot is free. Durable when it returns.

        In the same transaction the event is marked as consumed by the record, and the user's own writes are made. If
        the slot is taken, that is the answer, whatever else is in the way: the token has moved on, maybe by this very
        call, whose answer was lost.
        """

    async def load(self, run_id: str, token: str, after: int | None = None) -> Loaded:
        """Returns the last snapshot and all records after it; if `after` is given, those after that slot alone."""

    async def read_log(self, run_id: str, token: str, after: int = -1, limit: int | None = None) -> Sequence[Saved]:
        """Returns the records with slot > after, in order: the history."""

    async def read_logs(self, run_id: str, tokens: Sequence[str]) -> Mapping[str, Sequence[Saved]]:
        """Returns all records of these tokens, branches of one fork; tokens without records are left out."""

    async def save_snapshot(self, run_id: str, token: str, slot: int, body: str) -> None:
        """Saves a snapshot; only the newest (greatest slot) is kept."""

    async def arrive(self, run_id: str, join: str, member: str, *, in_order: bool = False) -> Joined:
        """Adds a member to the join's set, idempotently; returns the join as it is right after this addition.

        `in_order`: the join keeps the order, in which a member never changes its place; it holds for all members of a
        join, or for none.
        """

    async def report(self, run_id: str, join: str, place: int, value: int) -> Joined:
        """Sets the place's number unless it is as great already; returns the join as it is right after."""

    async def read_join(self, run_id: str, join: str, lanes: Sequence[str] = ()) -> Joined:
        """Returns the join; with the logs of these `lanes` of its page, each as it is at some instant of this call."""


class Slots(Protocol):
    """Single slots of logs: their records, and their marks, which hold up a record and are none."""

    async def read_bodies(self, run_id: str, places: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], str]:
        """Returns the bodies in these slots of these tokens, of any forks; places without a record are left out."""

    async def mark(self, run_id: str, token: str, slot: int) -> bool:
        """Puts a mark into the slot, which holds up its record. Returns False if a record has the slot."""

    async def rest(self, run_id: str, token: str, slot: int, told: str, before: str = "") -> bool:
        """Puts a mark into the slot, or changes the one there, to tell whether its token rests.

        Returns False if a record has the slot. `before`: only if the mark tells this, or `told` already; else nothing
        is changed and it returns False.
        """

    async def unmark(self, run_id: str, token: str, slot: int) -> None:
        """Removes the mark from the slot; a record stays. Idempotent."""

    async def is_blank(self, run_id: str, token: str) -> bool:
        """Tells whether the token has neither a record nor a mark."""


class Mailbox(Protocol):
    """Events and the waits that want them, by topic. Reads are strongly consistent."""

    async def put_event(self, event: Event, most: int = EVENT_PENDING) -> bool:
        """Stores an event. Returns False, and changes nothing, if an event of this id is there, consumed or not.

        `most`: how many events may be pending in its topic. Raises Conflict `too_many_pending` for a full topic;
        between processes that bound may be approximate.
        """

    async def get_event(self, topic: Topic, event_id: str) -> Event | None:
        """Returns the event; None if it is not there. Raises EngineFault if it cannot be read.

        Here and below, an event of newer code raises NewerFormat.
        """

    async def pending_events(self, topic: Topic, now_ms: int, after: str = "") -> Sequence[Event]:
        """Returns events neither consumed nor expired, oldest first (at_ms, then id), with ids after `after`.

        An event that cannot be read is skipped: others may wait for those beside it.
        """

    async def put_waiter(self, waiter: Waiter) -> None:
        """Registers a wait. Idempotent by (topic, run, token, slot, arm)."""

    async def waiters(self, topic: Topic) -> Sequence[Waiter]:
        """Returns the registered waits, oldest first (since_ms, then run, token, slot, arm)."""

    async def count_waiters(self, topic: Topic, most: int) -> int:
        """Counts the registered waits, up to `most`. It may lag a moment behind."""

    async def forget_waiter(self, waiter: Waiter) -> None: ...


class Runs(Protocol):
    """The headers of runs. `create_run` and `get_run` are strongly consistent; the lists and `stats` are not."""

    async def create_run(self, header: Header) -> Header | None:
        """Creates the header. Returns None, or the header that has this run id already.

        Raises RunDeleted if the id is held for longer than `header.created_ms`.
        """

    async def get_run(self, run_id: str) -> Header | None: ...

    async def change_status(self, change: StatusChange) -> bool:
        """Applies the change. Returns False if the stored `rev` is not behind: no change undoes a newer one."""

    async def watch(self, run_id: str, due_ms: int | None, seen: Header | None = None) -> bool:
        """Sets `watched` and `due_ms`. Returns False if there is no such run, or it has changed.

        With `seen`: only while the header has the `rev` and `due_ms` of that one.
        """

    async def hold(self, seen: Header, pause: Pause | None, at_ms: int) -> bool:
        """Pauses the run, or with None resumes it, due at once.

        Returns False if its status is not that of `seen`, or another pause has begun since.
        """

    async def list_due(self, before_ms: int, limit: int, cursor: str = "") -> RunPage:
        """Returns watched runs that are due before this time, the longest overdue first (due_ms, then run_id)."""

    async def list_runs(self, query: RunQuery) -> RunPage:
        """Returns runs, newest first (created_ms, then run_id, descending), or by deadline.

        By deadline means by waiting_until_ms, then run_id. Raises InvalidInput for a cursor that a list in this order
        did not make.
        """

    async def stats(self) -> Json:
        """Returns counts: a list of {workflow, status, count, sum_created_ms, oldest_created_ms, waiting_for} rows.

        There is one row for each (workflow, status, waiting_for). A row with `at_least` counts the newest runs alone.
        """


class Erasure(Protocol):
    """Deletes a run's data other than its blobs, and keeps what is needed to find it. Each call is idempotent."""

    async def erase_logs(self, run_id: str, forks: Forks) -> int:
        """Deletes the records, snapshots and joins of these forks in their order, then those of the root.

        Those of other forks stay: nobody has read what they refer to. Returns the number of items. Idempotent: a call
        that is killed leaves the logs that refer to what is left.
        """

    async def scrub(self) -> None:
        """Overwrites what deleted data has left in the store's files, if it has files."""

    async def note_topic(self, event: Event, run_id: str) -> None:
        """Keeps the topic of an event for a run that does not wait for it: else nobody would find the event."""

    async def topics_to(self, run_id: str) -> Sequence[Topic]:
        """Returns the topics that `note_topic` kept for this run or one of its branches, and maybe more."""

    async def erase_topic(self, topic: Topic) -> None:
        """Deletes all events and waits of a topic. Idempotent."""

    async def erase_event(self, topic: Topic, event_id: str, run_id: str = "") -> None:
        """Deletes the event; with `run_id`, only if this run has consumed it. Idempotent."""

    async def drop_run(self, run_id: str, held_until_ms: int) -> bool:
        """Deletes the header, input and tags, the last of a run's data, and holds its id. False: there was none."""

    async def held_until_ms(self, run_id: str) -> int:
        """Returns until when `create_run` refuses the id of a deleted run; 0 if nothing holds it."""


class Notes(Protocol):
    """Definitions, and small texts by kind and name. Reads are strongly consistent."""

    async def put_definition(self, version: str, body: str) -> None:
        """Keeps a definition under its hash, for the runs pinned to it. Idempotent."""

    async def get_definition(self, version: str) -> str | None: ...

    async def put_note(self, kind: str, name: str, body: str, before: str | None, *, replaces: bool = False) -> bool:
        """Writes a small text, unless another one than `before` is there. Returns True if it is there now.

        `replaces`: only if `before` is there.
        """

    async def get_note(self, kind: str, name: str) -> str | None: ...

    async def notes(self, kind: str, limit: int | None = None) -> Mapping[str, str]:
        """Returns the notes of a kind by name, in order of names: the first `limit`, or all if they are few."""

    async def drop_note(self, kind: str, name: str, before: str | None = None, *, once: bool = False) -> bool:
        """Deletes a note. Returns False if there was none.

        With `before`: False if another one is there, True if none is, now or before; if `once`, False then too, so that
        of many callers one deletes it, or none, if an answer was lost.
        """


class Lane(StrEnum):
    """The queues: wakes of tokens for the worker; timers, events and dead letters for the coordinator."""

    WORK = "work"
    RESUME = "resume"


class Queue(Protocol):
    async def send(self, lane: Lane, message: Mapping[str, Json], at_ms: int = 0) -> None:
        """Delivers at least once, not before `at_ms` (0: at once). Over 15 minutes ahead is an EngineFault on AWS."""

    async def send_all(self, lane: Lane, messages: Sequence[Mapping[str, Json]]) -> None:
        """Sends several messages at once, in as few calls as possible. If it raises, some may have been sent."""


class Timers(Protocol):
    async def set(self, name: str, lane: Lane, message: Mapping[str, Json], at_ms: int) -> None:
        """Sends the message at that time, however far off, and up to two minutes early: the receiver checks.

        Idempotent by name until it has fired; whether a second call fires again after that depends on the adapter.
        """


class Schedules(Protocol):
    async def set(self, schedule: Schedule, message: Mapping[str, Json]) -> None:
        """Sends the message to the resume lane at each time of the schedule. Idempotent by its name."""

    async def drop(self, name: str) -> None:
        """Stops the schedule's messages. Idempotent."""


BROKEN_BLOB = "broken_blob"


class Blobs(Protocol):
    async def put(self, data: bytes, owner: str = "") -> str:
        """Stores a blob. Returns its reference, sha256:<hex> and its owner (`runtime.stores.blobs`). Idempotent."""

    async def get(self, reference: str) -> bytes:
        """Returns the blob. Raises PortError, with BROKEN_BLOB if it is missing or damaged: no retry finds it."""

    async def link(self, reference: str) -> str:
        """Returns a URL that serves the blob for LINK_SECONDS; "" if values are sent whole."""

    async def drop(self, owner: str) -> None:
        """Deletes all blobs of the owner. Idempotent."""

    async def remove(self, reference: str) -> None:
        """Deletes one blob. Idempotent."""


class Clock(Protocol):
    def now_ms(self) -> int: ...

    async def sleep_ms(self, duration_ms: int) -> None:
        """Sleeps, for API calls that wait for an answer; the engine itself never sleeps."""


PauseUntil: TypeAlias = Callable[[str], Callable[[int], Awaitable[None]]]
"""Returns, for a run, a pause of so many ms that ends early if the run ends, in a process that sees runs end."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The world as one value, made by `wiring`. The store is the first six: five of eight methods could not hold it."""

    log: Log
    mailbox: Mailbox
    runs: Runs
    notes: Notes
    slots: Slots
    erasure: Erasure
    queue: Queue
    timers: Timers
    blobs: Blobs
    clock: Clock
