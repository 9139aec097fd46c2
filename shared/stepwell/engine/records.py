"""Records: the entries of a token's log. One record is one commit; everything else is computed from them.

A record holds a step's result, the token's next node and the rules that selected it, so that a step costs
one write. Records hold the changes of a token's state, never the state itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import TypeAlias

from stepwell import limits
from stepwell.definition.graph import Json
from stepwell.engine.copying import quick
from stepwell.engine.stored.formats import EVALUATOR
from stepwell.values import dataclass

ROOT = "0"
TASKS = "tasks"  # of a durable function: the kind of their wait, and where the branches of their operations meet
ENDED = "ended"  # of a Resumption: an operation of a durable function's tasks has ended
ALONE = "alone"  # of a Pause: what comes is the step's result by itself
UPDATE = "update"  # of a Resumption: what a caller had a durable function's handler do, while it waited
CALLERS = ("cancel:", "terminate:")  # how the `by` of a record begins with which a caller ended the run


Place: TypeAlias = tuple[int, int]  # of an operation of a function's tasks: the slot that began it, and its index there


class Status(StrEnum):
    """The status of a run, for lists and for people. The statuses from `completed` on are final."""

    IDLE = "idle"
    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    PAUSED = "paused"
    COMPENSATING = "compensating"
    COMPLETED = "completed"
    COMPENSATED = "compensated"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        return self in TERMINAL


TERMINAL = frozenset({Status.COMPLETED, Status.COMPENSATED, Status.FAILED, Status.TIMED_OUT, Status.CANCELLED})


class Kind(StrEnum):
    """The kind of a record, which tells what happened."""

    STARTED = "started"  # an idle run was started
    JOINED = "joined"  # the join of a fork is complete
    BEGAN = "began"  # an at_most_once step is about to run
    STEP = "step"  # an attempt of a step ended
    MOVED = "moved"  # a node without user code was left: a routing node, or the end of a wait
    WAITING = "waiting"  # the token is parked
    RECEIVED = "received"  # a part of the wait arrived
    RESUMED = "resumed"  # the wait ended, by its event or by its timer
    ACTED = "acted"  # one of a timeout's actions ended
    ENDED = "ended"  # cancelled, terminated, or out of time from outside
    UNDONE = "undone"  # an attempt of a compensation ended
    RETURNED = "returned"  # a durable function ended, or continues as new
    REDRIVEN = "redriven"  # the run goes on from where another failed, whose records it has until here
    REOPENED = "reopened"  # after REDRIVEN in a fork: the branches go on that had not completed
    GATHERED = "gathered"  # a start became part of the run, which has not begun


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as data: `category` a row of the table of error categories, `type` a class name or one of our codes."""

    type: str
    category: str
    message: str
    step: str = ""
    attempts: int = 1
    data: Json = None
    retry_after_ms: int = 0  # what the other side asked for
    traceback: str = ""  # for people; no expression, parent or subscriber gets it
    raised: Json = None  # how a durable function makes the step's exception again: its class, arguments and fields
    is_thrown: bool = False  # by the function itself, where the step asks who failed


@dataclass(frozen=True, slots=True)
class Goto:
    """Enter this node."""

    node: str


@dataclass(frozen=True, slots=True)
class RetryAt:
    """Try the same node's step again, not before `at_ms`. `used`: how often each of its retriers has been used."""

    at_ms: int
    used: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Pause:
    """Park on the step's directive, or for the callback of a step that is answered.

    `then`: next (continue) | again (run the step again) | alone (continue with what came, and nothing else).
    """

    kind: str  # sleep | approval | event | children | callback
    name: str = ""
    key: str = ""
    data: Json = None
    timeout_ms: int | None = None
    result: Json = None
    then: str = "next"
    heartbeat_ms: int | None = None  # of a callback
    failing: Failure | None = None  # of the step, which has failed: what it ends with if nothing has come


@dataclass(frozen=True, slots=True)
class End:
    """The token ends. `error` is None after a completion, and after a cancel unless the clean-up failed.

    `at_join`: the branch reached its fork's join, which merges its output.
    """

    status: Status
    error: Failure | None = None
    at_join: bool = False


@dataclass(frozen=True, slots=True)
class Compensate:
    """Undo the run's steps before it ends; `status` is the one that it would have ended with.

    `error` is left out if the record itself holds it.
    """

    status: Status
    error: Failure | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """The branches of one rule: each begins at `node`. Without a rule: a node's members, or a function's operations."""

    rule: str
    node: str
    count: int
    max_concurrency: int = 0  # 0: all at once
    is_apart: bool = False  # each has its own message, so that they overlap
    tolerated: int = 0  # how many may fail, where that was evaluated; of what a function awaits, they are results
    of_operations: bool = False  # of what a function awaits: none is a coroutine, as before 0.2 some were


@dataclass(frozen=True, slots=True)
class Finished:
    """A step that one of a function's tasks had completed in the run that failed, after that had failed."""

    task: str  # the name of the task
    what: str  # the operation's kind and name
    place: str  # run:token@slot of the record with its result
    arguments: int = 0  # their checksum; 0: it has none


@dataclass(frozen=True, slots=True)
class Fork:
    """The token waits while its branches run. They exist because this is recorded: none is written before it moves.

    `join` is the node where they meet; "" for the end of the fork. `needs`: of each branch, those that end before it
    begins; then the branches are a node's members, one in each group. Empty for all other forks. `page` and `chunk`
    stay as they were recorded, when the limits of the code change. `by_arrival`: the joins keep the order in which
    branches end, where that decides which of them begins another one: with `needs`, and with `max_concurrency`
    (`engine/forks/lines.py`); not in forks of earlier releases. `lane`: so many branches share a log
    (`engine/forks/lanes.py`); 0: each has one of its own from the start.

    Of a fork that was reopened: `kept` are the branches that had completed in the run that failed, and `since_ms` is
    when that run forked, for which the collections are evaluated. Of a function's tasks: `taken` are the operations
    that were finished in the run that failed, each with the place of its result. `by_result`: the join gets the
    branches' results, not what they have written.
    """

    groups: tuple[Group, ...]
    join: str = ""
    needs: tuple[tuple[int, ...], ...] = ()
    page: int = field(default_factory=lambda: limits.PAGE_BRANCHES)  # branches that share a join set
    chunk: int = field(default_factory=lambda: limits.FORK_CHUNK)  # branches that one message wakes
    by_arrival: bool = False
    kept: tuple[int, ...] = ()
    since_ms: int = 0
    lane: int = 0
    taken: tuple[tuple[int, str], ...] = ()
    by_result: bool = False
    # asked for by each branch several times, so they are worked out once
    width: int = field(init=False, repr=False, compare=False)
    pages: range = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        width = sum(group.count for group in self.groups)
        object.__setattr__(self, "width", width)
        object.__setattr__(self, "pages", range(-(-width // self.page)))

    @property
    def is_reopened(self) -> bool:
        """Tells whether a redriven run opened it for the branches that had not completed."""
        return self.since_ms > 0

    @property
    def is_awaited(self) -> bool:
        """Tells whether a durable function awaits the branches, which have no rule and are no node's members."""
        return bool(self.join) and bool(self.groups) and not self.groups[0].rule

    @property
    def is_of_tasks(self) -> bool:
        """Tells whether the function's tasks await the branches, each by itself: there is no join."""
        return self.is_awaited and self.join == TASKS

    def page_of(self, index: int) -> int:
        return index // self.page

    def page_indexes(self, page: int) -> range:
        return range(page * self.page, min((page + 1) * self.page, self.width))


@dataclass(frozen=True, slots=True)
class CleanUp:
    """A durable function is told of its run's end, and may clean up until a deadline."""

    status: Status
    until_ms: int


Next: TypeAlias = Goto | RetryAt | Pause | End | Fork | Compensate | CleanUp


@dataclass(frozen=True, slots=True)
class Topic:
    """The meeting point of events and waits: one partition of the mailbox."""

    name: str
    key: str = ""

    def __str__(self) -> str:
        return f"{self.name}#{self.key}"


@dataclass(frozen=True, slots=True)
class Arm:
    """One of the things that can end a wait."""

    kind: str
    topics: tuple[Topic, ...] = ()
    match: str = ""  # CEL over `event`
    name: str = ""  # of its result among those of the others
    parts: tuple[str, ...] = ()  # who or what may come: approvers, documents; empty: anything, once
    need: int = 1  # how many of them
    heartbeat_ms: int | None = None  # of a callback among several arms: it fails after this time without one of its own


@dataclass(frozen=True, slots=True)
class Called:
    """A child run as its parent started it. Its id is computed from the wait's place in the parent's log."""

    name: str  # of its result, among those of its siblings
    workflow: str
    input: Json = None
    run_id: str = ""  # of one that another run started, whose records its parent keeps; "": as computed


@quick
@dataclass(frozen=True)
class Parked:
    """A wait as it was registered: what ends it, and when it times out."""

    kind: str
    arms: tuple[Arm, ...]
    until_ms: int | None = None
    timer_arm: int | None = None  # the arm that the timer completes; None: the timer means a timeout
    data: Json = None
    since_ms: int = 0
    asked_by_step: Pause | None = None  # set when a step asked for this wait
    children: tuple[Called, ...] = ()  # of a wait for child runs, which it starts
    is_all: bool = False  # every arm must end, not only the first
    heartbeat_ms: int | None = None  # it fails after this time without a heartbeat
    escalate_ms: int | None = None  # when the approval escalates
    escalate_to: tuple[str, ...] = ()
    of_function: bool = False  # a durable function awaits it
    locks: tuple[str, ...] = ()  # of a wait for locks: their names, in the order in which they are taken
    of_tasks: bool = False  # the tasks of a durable function wait: it goes on with each part that comes
    cancelled: tuple[str, ...] = ()  # operations that the tasks have cancelled, as `slot.index`
    limit_arm: int | None = None  # of a function's several waits: the one whose time limit `until_ms` is

    @property
    def is_nap(self) -> bool:
        """Tells whether this is a sleep of the definition: it is no step, so the last step's result stands."""
        return self.timer_arm is not None and len(self.arms) == 1 and self.asked_by_step is None


@dataclass(frozen=True, slots=True)
class Resumption:
    """The end or a part of a wait: its kind, arm and payload.

    kind: event | timer | timeout | approved | rejected | children (their results) | child_failed | child_refused
    | locked | lock_refused | heartbeat | escalated | delegated | update | ended, the last five of which may end nothing
    """

    kind: str
    arm: int = 0
    name: str = ""
    payload: Json = None
    event_id: str = ""
    by: str = ""  # the person or system that answered
    part: str = ""  # which of the parts of its arm this is; of an operation that ended: `slot.index`
    seen: str = ""  # of an event that is not consumed: its topic and place among the others there

    @property
    def has_answer(self) -> bool:
        """Tells of an update whether its handler answered at once. Else a later record has the answer."""
        return "output" in self.payload or "error" in self.payload


@dataclass(frozen=True, slots=True)
class Tally:
    """The counts of a fork's branches. Each number only grows, whatever the order of arrival."""

    arrived: int = 0
    failed: int = 0
    without_output: int = 0  # ended before the join
    calls: int = 0  # attempts of users' code in the branches that were merged


@dataclass(frozen=True)  # no slots: `made` builds it at every reading
class Record:
    """One entry of a token's log. The comment at each field names the kinds that use it."""

    slot: int
    kind: Kind
    by: str  # the wake, timer, event or call under which it was written
    at_ms: int  # never behind what it follows from
    node: str = ""  # JOINED: the fan-in node, or the forking one where there is none
    attempt: int = 0  # STEP, BEGAN, ACTED, UNDONE: the try; WAITING: how often it was waited before
    started_ms: int = 0  # STEP, ACTED, UNDONE: when the attempt began; REDRIVEN: when `first_run` did
    output: Json = None  # STEP, MOVED, ACTED, UNDONE: the result; RECEIVED, RESUMED: an operation's; GATHERED: an input
    output_at: int = (
        -1
    )  # RECEIVED, RESUMED: the slot of the operation's log whose record holds the output; -1: this one
    error: Failure | None = (
        None  # STEP, MOVED, ACTED, JOINED, UNDONE, REDRIVEN: what failed; RECEIVED, RESUMED: an operation
    )
    skipped: bool = False  # STEP: the failure was passed over (on_failure: skip)
    is_done: bool = False  # STEP, MOVED: it has a compensation, and only what it was to write failed: it is undone
    writes: Mapping[str, Json] | None = (
        None  # STEP, MOVED, JOINED: into the scope; None: the output under the node's name. ACTED, REDRIVEN: or nothing
    )
    rules: tuple[str, ...] = ()  # STEP, MOVED: the rules taken, in order; GATHERED: `debounce` or `batch`
    next: Next | None = None  # STEP, MOVED, JOINED, ENDED, UNDONE: where the token goes; WAITING: what tasks began
    parked: Parked | None = None  # WAITING
    resumption: Resumption | None = None  # RECEIVED, RESUMED
    answers: Mapping[str, Json] | None = None  # of a durable function: of updates by id, whose handlers have ended
    tally: Tally | None = None  # JOINED; RECEIVED, RESUMED: of an operation that ended
    undid: str = ""  # UNDONE: the token and slot of what it undoes; "" where nothing is left to undo
    reason: str = ""  # ENDED: why
    arguments: int = 0  # STEP, BEGAN: of a durable function's step, a checksum of its arguments; 0: not known
    who: str = ""  # ENDED, STARTED, REDRIVEN: who asked
    origin: str = ""  # REDRIVEN: the run that failed
    first_run: str = ""  # REDRIVEN: the run in which this log began
    keyed_by: str = (
        ""  # REDRIVEN: the run, or run:branch, whose key this visit of the node keeps; "": it gets a new one
    )
    instead: Mapping[str, Json] | None = None  # REDRIVEN: {"output": …}: of the step that follows, which does not run
    reopens: Fork | None = None  # REDRIVEN: the fork in which the run failed, whose branches go on
    finished: tuple[Finished, ...] = ()  # REDRIVEN: what other tasks of the function had completed after the failure
    task: str = ""  # STEP, BEGAN, WAITING: of a function, which of its tasks awaits the operation; "": itself
    taken: str = ""  # STEP: the place of the result in the run that failed: the step did not run again
    evaluator: int = EVALUATOR  # of its node's expressions: a fork's collection, a step's input are evaluated again
    together: int = 0  # of the last one of a batch: how many records one append wrote; 0: this one alone


@quick
@dataclass(frozen=True)
class RunInfo:
    """The data of a run that is fixed at its start."""

    run_id: str
    workflow: str
    version: str
    input: Json
    created_ms: int
    started_ms: int = 0  # when a worker first picked it up; 0: not yet
    idle: bool = False  # created, to be started later
    start_at_ms: int = 0  # not before
    is_paused: bool = False  # when its header was last looked at
    gathers: bool = False  # its starts are records of its log; `input` is what they were when it was read
    tags: Mapping[str, str] = field(default_factory=dict)
