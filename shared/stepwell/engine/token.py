"""A token's state: the fold of its records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from stepwell.definition.graph import Json
from stepwell.engine.copying import quick
from stepwell.engine.records import (
    ROOT,
    Called,
    End,
    Failure,
    Finished,
    Fork,
    Kind,
    Parked,
    Place,
    Record,
    Resumption,
    Status,
)
from stepwell.engine.table import Phase
from stepwell.values import dataclass


@quick
@dataclass(frozen=True)
class StepView:
    """The outcome of a node's step or wait, in its latest visit."""

    status: str  # running | waiting | completed | failed | skipped | cancelled | compensated
    output: Json = None
    error: Failure | None = None
    attempts: int = 0
    started_ms: int = 0
    ended_ms: int = 0
    children: tuple[Called, ...] = ()  # the child runs it started, without their inputs
    called_slot: int = -1  # of the wait that started them


@quick
@dataclass(frozen=True)  # no slots: `changed` copies it for each branch
class Branch:
    """A branch's data from its parent, which stands still meanwhile. It is in the parent's log, not the branch's."""

    index: int
    total: int
    fork: str  # the forking node
    start: str  # the node where the branch begins
    join: str  # the node where it ends; "" where the fork has none
    item: Json = None
    item_name: str = ""
    state: Mapping[str, Json] = field(default_factory=dict)  # as the parent's expressions see it
    steps: Mapping[str, StepView] = field(default_factory=dict)
    within: Mapping[str, Json] = field(default_factory=dict)  # what the parent, and those around it, have written
    result: Json = None
    started_ms: int = 0  # when it was forked, or the last before it ended: no record of the branch is older
    needs: tuple[str, ...] = ()  # the nodes that end before it begins
    taken: str = ""  # of a function's operation that was finished in the run that failed: the place of its result
    rules: tuple[str, ...] = ()  # of the record that forked it


@dataclass(frozen=True, slots=True)
class Undoing:
    """Why a run is compensating, and how far it is."""

    status: Status  # what it would have ended with
    error: Failure | None = None
    reason: str = ""
    who: str = ""
    undone: tuple[str, ...] = ()  # token@slot of what has been undone, in that order


@dataclass(frozen=True, slots=True)
class Cleaning:
    """Why a durable function's run ends, and its deadline."""

    status: Status
    until_ms: int
    reason: str = ""
    who: str = ""


@dataclass(frozen=True, slots=True)
class Locks:
    """Locks that a token requested together, by name."""

    names: tuple[str, ...]
    slot: int  # of the wait that asked for them
    node: str = ""  # whose step holds them; "": the run
    held: bool = False
    of_function: bool = False  # a durable function says itself when it lets them go


@dataclass(frozen=True, slots=True)
class Permit:
    """A permit of a named limit that a token waits for, or holds for an attempt of its step; or a run's own share."""

    limit: str
    key: str  # the limit is for each value by itself; "" without one
    slot: int  # of the wait that asked for it
    since_ms: int = 0
    state: str = ""  # "" while it waits; then what came of it: permitted | limit_refused; of a share also: freed
    is_shared: bool = True  # it is one of so many; else a turn, which is not given back

    @property
    def name(self) -> str:
        return f"{self.limit}/{self.key}" if self.key else self.limit


@dataclass(frozen=True, slots=True)
class Aside:
    """The place of a token before it began to wait for code or for a limit."""

    last: Record
    parked: Parked | None = None
    resumption: Resumption | None = None
    received: tuple[Resumption, ...] = ()
    received_slot: int = -1
    looks: int = 0  # how often its code has been tried
    entered: int = -1  # of a durable function: the slot that keys what it goes on with; -1: its next record's


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a list of runs shows of a wait that a function's task has begun."""

    kind: str
    name: str
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Begun:
    """What one record of a durable function's tasks began, and what it cancelled."""

    by: str  # who wrote it
    at_ms: int
    open: tuple[int, ...] = ()  # operations that have not ended, by index
    cancelled: tuple[Place, ...] = ()
    waits: Mapping[int, Outlook] = field(default_factory=dict)  # by index: the operations that are waits
    is_held: bool = False  # the run was redriven, and nobody has let them go on
    let_on_slot: int = -1  # of the record that did so


@dataclass(frozen=True, slots=True)
class Gathered:
    """The starts that have become one run. `given`: their inputs; of a `debounce` the last one."""

    mode: str  # debounce | batch
    count: int
    since_ms: int  # when the first one came
    last_ms: int
    given: tuple[Json, ...]


@quick
@dataclass(frozen=True)  # no slots: `changed` copies it at every record
class Token:
    """A thread of control inside a run, as its log tells it."""

    id: str = ROOT
    slot: int = -1  # of the last record
    last: Record | None = None
    phase: Phase = Phase.INITIALIZING
    node: str = ""  # where it stands; "" before the first node
    entered_slot: int = 0  # the slot of the first record of this visit: what the idempotency key is made of
    shift: int = 0  # the slots that waits for code took, after which a visit is keyed by as much less
    keyed_slot: int = -1  # the slot that keys a function's operation which waited for code; -1: its first record's
    attempt: int = 0  # tries of this visit that ended
    origin: str = ""  # the run that this one goes on from
    first_run: str = ""  # the run in which its log began, and
    first_ms: int = 0  # when: of a durable function, whose replay has the clock and the chance of then
    keyed_by: str = ""  # the run, or run:branch, in which this visit began, whose key it keeps; "": this run
    scope: Mapping[str, Json] = field(default_factory=dict)
    steps: Mapping[str, StepView] = field(default_factory=dict)
    result: Json = None
    error: Failure | None = None  # the last one; gone when a step succeeds after it
    visits: Mapping[str, int] = field(default_factory=dict)
    rule_uses: Mapping[str, int] = field(default_factory=dict)
    parked: Parked | None = None  # the wait, until the node is left
    resumption: Resumption | None = None
    received: tuple[Resumption, ...] = ()  # the parts that have come, of a wait for several
    received_slot: int = -1  # of the wait that they came for; -1: none has
    aside: Aside | None = None  # it waits for code
    seen: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # events by topic that were not consumed
    waited: int = 0  # how often this wait was begun again after its time was up
    acted: int = 0  # actions of a timeout that ended
    calls: int = 0  # attempts of users' code that ended: what the run has cost
    started_ms: int = 0  # when an idle run was started
    began_slot: int = -1  # of the record with which a durable function began anew; -1: it has not
    fork: Fork | None = None  # whose branches are running, or that the last record closed early
    early_slot: int = -1  # of the last join that did not need all its branches
    locks: Locks | None = None  # that it holds, or waits for
    released: tuple[Locks, ...] = ()  # that the last record let go
    permit: Permit | None = None  # of a named limit, that it waits for, or holds
    share: Permit | None = None  # of its workflow's concurrency, once it has given back the one that it began with
    returned: tuple[Permit, ...] = ()  # that the last record gave back
    tasks: Mapping[int, Begun] = field(default_factory=dict)  # of a durable function: by the record's slot
    dropped: tuple[Place, ...] = ()  # operations of its tasks that the last record ended
    tasks_waited: bool = False  # before the last record, all of its tasks waited: so the header says, or may say
    finished: Mapping[str, tuple[Finished, ...]] = field(default_factory=dict)  # of a redriven function, by task
    cost_cap: float = 0.0  # USD that an approval has set in place of `max_cost`; -1: it has none any more
    gathered: Gathered | None = None  # of a run that several starts have made
    branch: Branch | None = None  # None: the root
    undoing: Undoing | None = None  # the run is being undone
    cleaning: Cleaning | None = None  # a durable function may still clean up
    end: End | None = None

    @property
    def next_slot(self) -> int:
        return self.slot + 1

    @property
    def waiting_slot(self) -> int:
        """The slot of the current wait, or of the last one before this record."""
        if self.received_slot >= 0:
            return self.received_slot
        is_there = self.last is not None and self.last.kind is Kind.WAITING
        return self.slot if is_there else self.slot - 1

    @property
    def has_open_tasks(self) -> bool:
        """Tells whether an operation of its tasks is under way."""
        return any(one.open for one in self.tasks.values())

    @property
    def open_tasks(self) -> int:
        """Counts the operations of its tasks that are under way."""
        return sum(len(one.open) for one in self.tasks.values())

    def holds(self, slot: int) -> bool:
        """Tells whether what its tasks began there is held, because the run was redriven."""
        return slot in self.tasks and self.tasks[slot].is_held

    @property
    def last_ms(self) -> int:
        """Returns when its last record was written; 0 if it has none."""
        return self.last.at_ms if self.last else 0

    @property
    def ended(self) -> bool:
        return self.end is not None

    @property
    def has_completed(self) -> bool:
        return self.end is not None and self.end.status is Status.COMPLETED


NEW = Token()  # the root before its first record
