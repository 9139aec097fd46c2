"""What there is to do for a token, and what came of an attempt: the words between the engine and the runtime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from stepwell.definition.graph import Json, Step
from stepwell.engine.names import Undo
from stepwell.engine.records import Failure, Pause, Record
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
    """Append this record: no user code is needed to know it. `also`: the user's own writes, in one transaction."""

    record: Record
    also: tuple[TableWrite, ...] = ()


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing to do now; `until_ms` is when to look again, None where a wait's own timer or a caller does that."""

    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class AskFunction:
    """Ask the durable function what is next, then decide again with its turn."""


Action: TypeAlias = RunStep | Write | Rest | AskFunction


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an attempt: a value, a directive, or a failure."""

    value: Json = None
    pause: Pause | None = None
    failure: Failure | None = None
    started_ms: int = 0
    is_stuck: bool = False  # the failure is that the step's code cannot be loaded: nothing has run
