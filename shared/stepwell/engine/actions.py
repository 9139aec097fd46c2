"""Actions: the answers of `decide`, and the outcome of an attempt. The interface from the engine to the runtime."""

from __future__ import annotations

from typing import TypeAlias

from stepwell.definition.graph import Json, Step
from stepwell.engine.copying import quick
from stepwell.engine.durable.transact import TableWrite
from stepwell.engine.names import Undo
from stepwell.engine.records import Failure, Pause, Record, Topic
from stepwell.engine.token import Locks, Permit
from stepwell.values import dataclass


@quick
@dataclass(frozen=True)
class RunStep:
    """Run this step, then `commit` its outcome."""

    node: str
    step: Step
    input: Json
    attempt: int
    key: str  # the idempotency key: the same in every attempt of a visit
    resumed: Json = None  # the result of the wait that the step asked for
    action: bool = False  # one of a timeout's actions, not the node's own step
    undo: Undo | None = None  # the compensation of this
    request: Json = None  # of an HTTP step, its secrets still references
    at_ms: int = 0  # when the attempt began: `now` in its input
    taken: str = ""  # the place of its result in the run that failed; "": it is to run


@quick
@dataclass(frozen=True)
class Write:
    """Append this record. `also` (the user's own writes) and the event that it `consumes` join the transaction."""

    record: Record
    also: tuple[TableWrite, ...] = ()
    consumes: tuple[Topic, str] | None = None  # the event's topic and id


@dataclass(frozen=True, slots=True)
class Rest:
    """Do nothing now. Look again at `until_ms`; None if a wait's timer or a caller wakes the token."""

    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class AskFunction:
    """Ask the durable function for its next operation, then decide again with its turn."""


@dataclass(frozen=True, slots=True)
class PickUp:
    """Show the run as picked up, then decide again, so that its first record holds the start time."""


@dataclass(frozen=True, slots=True)
class Share:
    """One of the `most` runs that may be under way at once under the limit of this name."""

    name: str
    most: int
    on_limit: str  # queue | cancel_newest | cancel_oldest


@dataclass(frozen=True, slots=True)
class Pace:
    """A turn under the rate limit of this name: a run each `interval_ms`, up to `burst` at once."""

    name: str
    interval_ms: float
    burst: int


@dataclass(frozen=True, slots=True)
class AskPermit:
    """Ask whether the run may begin, then decide again. `may_refuse`: it may be cancelled for its limit's sake."""

    share: Share | None
    pace: Pace | None
    may_refuse: bool = True


@dataclass(frozen=True, slots=True)
class AskCost:
    """Ask what the run has cost, then decide again. `cap_usd`: what it may cost without an approval.

    For a branch it is the definition's limit: a branch does not see the approvals of its run.
    """

    cap_usd: float


@dataclass(frozen=True, slots=True)
class Look:
    """Look into the mailbox, then decide again: an event may have arrived before the time-out."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Pause the run, or have it go on: in its header, because a pause is no record.

    `by` and `reason` are of a pause that the engine itself asks for.
    """

    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Drop:
    """Write nothing: the input is late or a duplicate."""

    is_over: bool = False  # the wait that it is for has ended
    lets_go: Locks | Permit | None = None  # what the token was granted and no longer wants


@dataclass(frozen=True, slots=True)
class Refuse:
    """Write nothing, and tell the caller why."""

    message: str
    code: str
    hint: str = ""


Action: TypeAlias = RunStep | Write | Rest | AskFunction | AskCost | AskPermit | PickUp | Look | Hold | Drop | Refuse


@quick
@dataclass(frozen=True)
class Outcome:
    """The outcome of an attempt: a value, a directive, or a failure."""

    value: Json = None
    pause: Pause | None = None
    failure: Failure | None = None
    started_ms: int = 0
    is_stuck: bool = False  # the step's code cannot be loaded, so nothing ran
    is_taken: bool = False  # from the run that failed, so nothing ran
    bases: tuple[str, ...] = ()  # the names of the classes above that of the exception, which `on` may name; not stored
