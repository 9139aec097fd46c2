"""Inputs: everything that can move a token. Data only; `decide` has the reaction of each phase.

Each class names its column of the reception table (engine/table.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import ClassVar, TypeAlias

from stepwell.definition.graph import Json
from stepwell.engine.actions import Outcome, RunStep
from stepwell.engine.durable.transact import Refusal, TableWrite
from stepwell.engine.forks.join import Arrival
from stepwell.engine.records import Failure, Finished, Fork, Record, Resumption, Topic
from stepwell.engine.retry import Policy
from stepwell.engine.stored.formats import EVALUATOR
from stepwell.engine.table import Message
from stepwell.engine.token import Permit
from stepwell.values import dataclass

# -- from the worker that advances the token


@dataclass(frozen=True, slots=True)
class Woken:
    """A worker advances the token from the record in `slot`; None: only asks what would come next."""

    message: ClassVar = Message.WAKE
    slot: int | None = None


@dataclass(frozen=True, slots=True)
class StepBegins:
    """An at_most_once step is about to run, for `timeout_ms` at most."""

    message: ClassVar = Message.STEP
    action: RunStep
    timeout_ms: int
    slot: int  # of the last record when the step was decided


@dataclass(frozen=True, slots=True)
class StepEnded:
    """An attempt of a step has ended."""

    message: ClassVar = Message.STEP
    action: RunStep
    outcome: Outcome
    policy: Policy | None
    slot: int  # of the last record when the step began


@dataclass(frozen=True, slots=True)
class WritesRefused:
    """The store refused the transaction with the user's own writes, and wrote nothing."""

    message: ClassVar = Message.STEP
    writes: Sequence[TableWrite]
    refusal: Refusal
    slot: int


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """Every worker that was woken for the record in `slot` died."""

    message: ClassVar = Message.LOST
    slot: int


# -- for a wait


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The timer of the wait in `slot` fired. `looked`: in this slot the mailbox held no event that ends the wait."""

    message: ClassVar = Message.TIMER
    slot: int
    looked: int | None = None


@dataclass(frozen=True, slots=True)
class EventOffered:
    """An event for arm `arm` of the wait in `slot`."""

    message: ClassVar = Message.EVENT
    slot: int
    arm: int
    topic: Topic
    event_id: str
    payload: object
    at_ms: int
    is_consumed: bool  # by the token that takes it; else it stays for others

    @property
    def place(self) -> tuple[int, str]:
        """Its place in the order in which events came."""
        return self.at_ms, self.event_id


@dataclass(frozen=True, slots=True)
class Approved:
    """Somebody approved. `slot`: only for the wait in this slot. `name`: which of several approvals is meant."""

    message: ClassVar = Message.APPROVE
    resumption: Resumption
    slot: int | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Somebody rejected an approval."""

    message: ClassVar = Message.REJECT
    resumption: Resumption
    slot: int | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Delegated:
    """The approver `by` delegates an approval to `to`."""

    message: ClassVar = Message.DELEGATE
    by: str
    to: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class HeartBeat:
    """The system that works on a callback, arm `arm` of the wait in `slot`, is alive, which counts until `until_ms`."""

    message: ClassVar = Message.HEARTBEAT
    slot: int
    arm: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class ChildrenEnded:
    """The child runs of the wait in `slot` have ended, or one failed or could not be started."""

    message: ClassVar = Message.CHILD
    slot: int
    resumption: Resumption
    since_ms: int = 0  # no record that follows is older


@dataclass(frozen=True, slots=True)
class LocksAnswered:
    """The token got the locks that the wait in `slot` asked for, or never will."""

    message: ClassVar = Message.LOCKS
    slot: int
    names: tuple[str, ...]
    resumption: Resumption


@dataclass(frozen=True, slots=True)
class PermitAnswered:
    """The token got the permit that the wait in its slot asked for, or there is no such limit."""

    message: ClassVar = Message.PERMIT
    permit: Permit
    resumption: Resumption


@dataclass(frozen=True, slots=True)
class UpdateAsked:
    """A caller asks a durable function for an update."""

    message: ClassVar = Message.UPDATE
    resumption: Resumption


@dataclass(frozen=True, slots=True)
class UpdateMade:
    """The durable function's handler made an update, which `record` holds."""

    message: ClassVar = Message.UPDATE
    record: Record
    topic: Topic


@dataclass(frozen=True, slots=True)
class JoinCompleted:
    """The join of the fork in `slot` is complete."""

    message: ClassVar = Message.JOIN
    slot: int
    branches: Sequence[Arrival]


@dataclass(frozen=True, slots=True)
class OperationEnded:
    """An operation that a durable function's tasks began in `slot` has ended."""

    message: ClassVar = Message.OPERATION
    slot: int
    arrival: Arrival


# -- for the run


@dataclass(frozen=True, slots=True)
class Started:
    """Somebody starts an idle run."""

    message: ClassVar = Message.START
    who: str = ""


@dataclass(frozen=True, slots=True)
class StartGathered:
    """A start is to become part of this run, which has not begun."""

    message: ClassVar = Message.GATHER
    given: Json = None


@dataclass(frozen=True, slots=True)
class GatheringOver:
    """The next start finds that this run, with its last record in `slot`, gathers no more of them: it begins."""

    message: ClassVar = Message.GATHER
    slot: int


@dataclass(frozen=True, slots=True)
class Change:
    """What is other in a run that is forked off another."""

    state: Mapping[str, Json] = field(default_factory=dict)  # names that are set
    result: tuple[Json, ...] = ()  # one: the step there returns it, and does not run


@dataclass(frozen=True, slots=True)
class Redriven:
    """A run that holds the first records of a failed one goes on at `node`; "" is where these records lead."""

    message: ClassVar = Message.REDRIVE
    origin: str
    first_run: str
    first_ms: int
    node: str = ""
    error: Failure | None = None  # what had failed
    keyed_by: str = ""
    who: str = ""
    reopens: Fork | None = None  # the fork in which it failed
    evaluator: int = EVALUATOR  # of that fork's record
    change: Change = Change()  # of a fork of a run
    finished: tuple[Finished, ...] = ()  # by other tasks of its function, after it had failed


@dataclass(frozen=True, slots=True)
class Paused:
    """Somebody pauses the run."""

    message: ClassVar = Message.PAUSE


@dataclass(frozen=True, slots=True)
class Unpaused:
    """Somebody has the run go on."""

    message: ClassVar = Message.UNPAUSE


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Somebody cancels the run."""

    message: ClassVar = Message.CANCEL
    reason: str = ""
    who: str = ""


@dataclass(frozen=True, slots=True)
class OverLimit:
    """No permit is free, and the run is not to wait for one."""

    message: ClassVar = Message.LIMIT
    reason: str


@dataclass(frozen=True, slots=True)
class Terminated:
    """A person or a limit ends the run now, without compensation."""

    message: ClassVar = Message.TERMINATE
    error: Failure
    reason: str = ""
    who: str = ""


@dataclass(frozen=True, slots=True)
class DeadlinePassed:
    """The timer of the run's own time-out fired."""

    message: ClassVar = Message.DEADLINE


@dataclass(frozen=True, slots=True)
class Closed:
    """No join waits for this branch any more."""

    message: ClassVar = Message.CLOSE


Input: TypeAlias = (
    Woken
    | StepBegins
    | StepEnded
    | WritesRefused
    | WorkerLost
    | TimerFired
    | EventOffered
    | Approved
    | Rejected
    | Delegated
    | HeartBeat
    | ChildrenEnded
    | LocksAnswered
    | PermitAnswered
    | UpdateAsked
    | UpdateMade
    | JoinCompleted
    | OperationEnded
    | Started
    | StartGathered
    | GatheringOver
    | Redriven
    | Paused
    | Unpaused
    | Cancelled
    | OverLimit
    | Terminated
    | DeadlinePassed
    | Closed
)
