"""The journal of a durable function: its token's log as the operations that the function awaited."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from stepwell.definition.graph import Json
from stepwell.engine.copying import quick
from stepwell.engine.durable.tasks import place_of
from stepwell.engine.limits.locks import UNLOCK
from stepwell.engine.records import (
    ENDED,
    TASKS,
    UPDATE,
    CleanUp,
    Failure,
    Fork,
    Goto,
    Kind,
    Parked,
    Place,
    Record,
    Resumption,
)
from stepwell.engine.waits.aside import is_aside
from stepwell.engine.waits.outcome import arm_value, failure_of
from stepwell.engine.waits.several import operation_of
from stepwell.values import dataclass

PATCH = "patch:"  # among a record's rules: a patch in force from there on
INTERRUPTED = "interrupted"  # the run is to end: whatever is awaited then is over
TRANSACT = "transact"  # among a record's rules: it was written with the user's own writes, or in place of them
RUN = "run"  # among a record's rules: a function of the durable function's own was called, in place of a step's
CONTINUED_AS = "as:"  # among a record's rules: the function's path, with which the run begins anew
TIMER = "timer"  # of the function's tasks
INPUTS = frozenset({INTERRUPTED, ENDED, TIMER})  # what comes to the function; it writes all other entries itself
LOST = "lost"  # the operation that killed its workers: which one it was, nobody lived to tell


@quick
@dataclass(frozen=True)
class Entry:
    """One operation, as the log has it."""

    kind: str
    name: str
    slot: int  # of its first record
    patches: tuple[str, ...] = ()
    width: int = 0  # of several at once: how many
    ended_ms: int | None = None  # None: it is under way
    value: Json = None
    error: Failure | None = None
    place: Place | None = None  # of an operation of the function's tasks that has ended
    begun: tuple[str, ...] = ()  # the operations that its tasks began
    may_be_coroutines: bool = False  # its branches, in a fork that a release before 0.2 recorded
    arguments: int = 0  # of a step, or of those of a fork or of tasks: their checksum, if the record has one

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.kind != self.name else self.kind


class Journal:
    """Reads records in order, and holds the operation in progress."""

    def __init__(self, *, has_tasks: bool = False) -> None:
        self._open: Entry | None = None
        self.has_tasks = has_tasks  # they wait
        self._parked: Parked | None = None  # the wait that the function itself asked for
        self._received: tuple[Resumption, ...] = ()
        self._is_aside = False  # the wait is not an operation

    @property
    def open(self) -> Entry | None:
        return self._open

    def take(self, record: Record) -> Entry | None:
        """Returns the operation that this record begins, continues or ends; None if it concerns none."""
        match record.kind:
            case Kind.STEP | Kind.BEGAN:
                return self._step(record)
            case Kind.WAITING | Kind.RECEIVED | Kind.RESUMED:
                return self._wait(record)
            case Kind.ENDED if isinstance(record.next, CleanUp):
                self._open, self._parked, self.has_tasks = None, None, False
                return Entry(INTERRUPTED, record.reason, record.slot, ended_ms=record.at_ms)
            case Kind.MOVED if UNLOCK in record.rules:
                self._began(record, UNLOCK)
                self.has_tasks = False
                return self._ended(record, None, None)
            case Kind.MOVED if isinstance(record.next, Fork):
                began = self._began(record, record.next.join, record.next.width)
                return replace(began, may_be_coroutines=not record.next.groups[0].of_operations)
            case Kind.REOPENED if self._open is not None:  # its branches are those of this record
                self._open = replace(self._open, slot=record.slot)
            case Kind.MOVED | Kind.JOINED:
                return self._ended(record, record.output, record.error)
        return None

    def _step(self, record: Record) -> Entry:
        is_over = record.kind is Kind.STEP and isinstance(record.next, Goto)
        if self._open is None and is_over and not record.rules:  # most of all records: one attempt, and no more
            return Entry("step", record.node, record.slot, (), 0, record.at_ms, record.output, record.error,
                         arguments=record.arguments)  # fmt: skip
        if self._open is None:
            self._began(record, next((kind for kind in (LOST, TRANSACT, RUN) if kind in record.rules), "step"))
        return self._ended(record, record.output, record.error) if is_over else self._now()

    def _wait(self, record: Record) -> Entry | None:
        if record.resumption is not None and record.resumption.kind == ENDED:
            return self._operation_ended(record, record.resumption)
        if record.parked is not None:  # WAITING
            self._is_aside = is_aside(record)
            if self._is_aside:
                return None
            if record.parked.of_tasks:
                return self._tasks_wait(record, record.parked)
            if record.parked.of_function:
                self._parked, self._received, self.has_tasks = record.parked, (), False
                return self._began(record, operation_of(record.parked), _width(record.parked))
            return self._now()  # a step's own
        if self._is_aside:
            self._is_aside = record.kind is not Kind.RESUMED
            return None
        if self.has_tasks and record.resumption is not None and record.resumption.kind != UPDATE:
            self.has_tasks = record.kind is not Kind.RESUMED
            return Entry(TIMER, TIMER, record.slot, ended_ms=record.at_ms)
        if self._parked is None or record.resumption is None or record.resumption.kind == UPDATE:
            return None
        if record.kind is Kind.RECEIVED:
            self._received = (*self._received, record.resumption)
            return self._now()
        parked, self._parked = self._parked, None
        value, failure = brought(parked, record.resumption, self._received, self._now().name)
        return self._ended(record, value, failure)

    def _tasks_wait(self, record: Record, parked: Parked) -> Entry:
        self.has_tasks = True
        return Entry(TASKS, TASKS, record.slot, _patches(record), begun=tuple(parked.data["begun"]),
                     arguments=record.arguments)  # fmt: skip

    def _operation_ended(self, record: Record, resumption: Resumption) -> Entry:
        self.has_tasks = self.has_tasks and record.kind is not Kind.RESUMED
        return Entry(ENDED, ENDED, record.slot, ended_ms=record.at_ms, value=record.output, error=record.error,
                     place=place_of(resumption.part))  # fmt: skip

    def _began(self, record: Record, kind: str, width: int = 0) -> Entry:
        self._open = Entry(kind, record.node, record.slot, _patches(record), width, arguments=record.arguments)
        return self._open

    def _ended(self, record: Record, value: Json, error: Failure | None) -> Entry:
        was, self._open = self._now(), None
        return Entry(was.kind, was.name, was.slot, was.patches, was.width, record.at_ms, value, error,
                     arguments=was.arguments)  # fmt: skip

    def _now(self) -> Entry:
        return self._open or Entry("", "", -1)


def entries(records: Iterable[Record], *, has_tasks: bool) -> Iterator[Entry]:
    """Yields what these records hold, where no operation is in progress but those of tasks."""
    journal = Journal(has_tasks=has_tasks)
    return (entry for record in records if (entry := journal.take(record)) is not None)


def first_own(found: Iterator[Entry]) -> Entry | None:
    """Returns the first operation that the function asked for."""
    return next((entry for entry in found if entry.kind not in INPUTS), None)


def continued_as(record: Record) -> str:
    """Returns the path of the function with which the run begins anew; "" for the workflow's own."""
    return next((rule.removeprefix(CONTINUED_AS) for rule in record.rules if rule.startswith(CONTINUED_AS)), "")


def _patches(record: Record) -> tuple[str, ...]:
    rules = record.rules
    return tuple(rule.removeprefix(PATCH) for rule in rules if rule.startswith(PATCH)) if rules else ()


def _width(parked: Parked) -> int:
    return len(parked.children) or (len(parked.arms) if len(parked.arms) > 1 else 0)


def brought(
    parked: Parked, resumption: Resumption, received: tuple[Resumption, ...], name: str
) -> tuple[Json, Failure | None]:
    """Returns (value, failure) of an ended wait."""
    failure = failure_of(parked, resumption, name, 0)
    return (None, failure) if failure else (_value(parked, resumption, received), None)


def _value(parked: Parked, resumption: Resumption, received: tuple[Resumption, ...]) -> Json:
    """Returns a wait's value, a list of the values of `all`, or the name and value of `any`."""
    if parked.children or len(parked.arms) == 1:
        return arm_value(parked, resumption.arm, resumption, received)
    if parked.is_all:
        return [arm_value(parked, index, resumption, received) for index in range(len(parked.arms))]
    return [resumption.arm, arm_value(parked, resumption.arm, resumption, received)]
