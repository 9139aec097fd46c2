"""The kinds of side effects, as values: what a record may ask of whoever performs it."""

from __future__ import annotations

from typing import TypeAlias

from stepwell.definition.graph import Json
from stepwell.engine.limits.permits import ReturnPermit
from stepwell.engine.records import Fork, Parked, Status
from stepwell.engine.token import Locks, Permit
from stepwell.values import dataclass


@dataclass(frozen=True, slots=True)
class ShowStatus:
    """Update the run's header. `rev` orders the updates: twice the slot, plus one when picked up.

    `unless_paused`: of a paused run nothing is changed.
    """

    rev: int
    status: Status
    at_ms: int
    parked: Parked | None = None
    node: str = ""
    expires_ms: int = 0
    picked_up: bool = False
    unless_paused: bool = False


@dataclass(frozen=True, slots=True)
class Register:
    """Register the wait under its topics: after the record, before the mailbox is read."""

    parked: Parked
    slot: int


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Set the timer of the wait."""

    slot: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class SetDeadline:
    """Set the timer of the run's own time-out."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class TakePending:
    """Read the mailbox: an event that arrived before the wait ends it now."""

    parked: Parked
    slot: int


@dataclass(frozen=True, slots=True)
class Forget:
    """Remove the wait's registrations."""

    parked: Parked
    slot: int


@dataclass(frozen=True, slots=True)
class StartChildren:
    """Start the child runs that the wait is for."""

    parked: Parked
    slot: int


@dataclass(frozen=True, slots=True)
class EndChildren:
    """End these child runs if they still run, because no run waits for them."""

    parked: Parked
    slot: int


@dataclass(frozen=True, slots=True)
class LeaveChildren:
    """Let these child runs continue without a parent, including one that has not begun yet."""

    parked: Parked
    slot: int


@dataclass(frozen=True, slots=True)
class TakeLocks:
    """Take a place in each lock's queue; being first in all of them ends the wait, else `shown` is shown."""

    names: tuple[str, ...]
    slot: int
    shown: ShowStatus


@dataclass(frozen=True, slots=True)
class ReleaseLocks:
    """Leave the locks' queues; the next run in each queue continues."""

    locks: tuple[Locks, ...]


@dataclass(frozen=True, slots=True)
class TakePermit:
    """Ask for a permit of a named limit, or of the workflow's own, which ends the wait; else `shown` is shown."""

    permit: Permit
    shown: ShowStatus


@dataclass(frozen=True, slots=True)
class GiveBackPermits:
    """Give back permits of named limits; the next step in each line goes on."""

    permits: tuple[Permit, ...]


@dataclass(frozen=True, slots=True)
class LeaveGathering:
    """The run takes no start any more: the next one makes another run."""


@dataclass(frozen=True, slots=True)
class Announce:
    """Send an event of Stepwell's own to whoever listens."""

    name: str
    payload: Json
    event_id: str
    is_keyed: bool = False  # by the run's id


@dataclass(frozen=True, slots=True)
class Open:
    """Let the fork's branches begin."""

    fork: Fork
    slot: int
    only: tuple[int, ...] = ()  # of what tasks began: those that have not ended; empty for all


@dataclass(frozen=True, slots=True)
class Arrive:
    """Tell the join that this branch has ended. The arrival that completes the join continues as the parent."""

    parent: str
    slot: int
    index: int


@dataclass(frozen=True, slots=True)
class Close:
    """End the running branches of the fork in this slot: its join is complete, or its token has ended."""

    slot: int
    only: tuple[int, ...] = ()  # these branches; empty for all


Effect: TypeAlias = (
    ShowStatus
    | Register
    | SetTimer
    | SetDeadline
    | TakePending
    | Forget
    | StartChildren
    | EndChildren
    | LeaveChildren
    | TakeLocks
    | ReleaseLocks
    | TakePermit
    | GiveBackPermits
    | ReturnPermit
    | LeaveGathering
    | Announce
    | Open
    | Arrive
    | Close
)
