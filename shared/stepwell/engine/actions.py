"""Actions: what `decide` answers, and what came of an attempt. The words between the engine and the runtime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from stepwell.definition.graph import Json, Step
from stepwell.engine.names import Undo
from stepwell.engine.records import Failure, Pause, Record, Topic
from stepwell.engine.token import Locks
from stepwell.engine.transact import TableWrite


@dataclass(frozen=True, slots=True)
class RunStep:
    """Run this step, then `commit` what came of it."""

    node: str
    step: Step
    input: Json
    attempt: int
    key: str  # the idempotency key: the same in every try of the same visit
    resumed: Json = None  # what ended the wait that the step asked for
    action: bool = False  # one of a timeout's actions, not the node's own step
    undo: Undo | None = None  # the compensation of this
    request: Json = None  # of an HTTP step, its secrets still references
    at_ms: int = 0  # when the attempt began: `now` in its input


@dataclass(frozen=True, slots=True)
class Write:
    """Append this record. In the same transaction `also`, the user's own writes, or the event that it `consumes`."""

    record: Record
    also: tuple[TableWrite, ...] = ()
    consumes: tuple[Topic, str] | None = None  # the event's topic and id


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing to do now; `until_ms` is when to look again, None where a wait's own timer or a caller does that."""

    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class AskFunction:
    """Ask the durable function what is next, then decide again with its turn."""


@dataclass(frozen=True, slots=True)
class PickUp:
    """Show that the run has been picked up, then decide again: its first record knows when it started."""


@dataclass(frozen=True, slots=True)
class Look:
    """Look into the mailbox, then decide again: an event may have come before the wait's time was up."""


@dataclass(frozen=True, slots=True)
class Drop:
    """The input comes too late, or twice: nothing is written."""

    is_over: bool = False  # the wait that it is for has ended
    lets_go: Locks | None = None  # locks that the token was granted and no longer wants


@dataclass(frozen=True, slots=True)
class Refuse:
    """The caller hears why its input cannot be taken. Nothing is written."""

    message: str
    code: str
    hint: str = ""


Action: TypeAlias = RunStep | Write | Rest | AskFunction | PickUp | Look | Drop | Refuse


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an attempt: a value, a directive, or a failure."""

    value: Json = None
    pause: Pause | None = None
    failure: Failure | None = None
    started_ms: int = 0
    is_stuck: bool = False  # the failure is that the step's code cannot be loaded: nothing has run
