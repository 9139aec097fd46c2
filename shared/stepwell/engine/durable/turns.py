"""Turns: a durable function's answer when it is asked for its next operation. Data only; the session makes them.

Suspended    it awaits one operation, and nothing else is under way
Together     its tasks await several operations, or an operation and a time
Completed    it returned
Failed       it raised
ContinueAs   it begins anew, and forgets what it did
Stuck        it cannot go on with the code that is deployed
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias
from zlib import crc32

from stepwell.definition.graph import Call, Json, Step, Wait
from stepwell.engine.copying import quick
from stepwell.engine.durable.transact import TableWrite
from stepwell.engine.records import Failure, Place
from stepwell.engine.stored.jsons import fast_encoder
from stepwell.values import dataclass

IN_SESSION = "run:"  # a step whose `run` begins so is a function of the durable function's own
SENDS = "event:"  # a step whose `run` begins so sends an event
_encode = fast_encoder(json.JSONEncoder(sort_keys=True, check_circular=False))


@dataclass(frozen=True, slots=True)
class Given:
    """A value that a function gives where a definition has an expression. It is the value of no name in scope."""

    value: Json
    text: str = ""
    names: frozenset[str] = frozenset()
    reads_error: bool = False

    def evaluate(self, names: Mapping[str, Json]) -> Json:
        return self.value


@quick
@dataclass(frozen=True)
class Asked:
    """An operation that a function awaits: a step, a wait, child runs, locks, writes, or branches. One is there."""

    kind: (
        str  # step | run | lock | unlock | children | transact | the kind of a wait | any | all; a fork's: all | first
    )
    name: str  # what it is called in the log
    step: Step | None = None
    wait: Wait | None = None
    call: Call | None = None
    branches: Sequence[Awaitable[object]] = ()
    transact: tuple[TableWrite, ...] = ()
    max_concurrency: int = 0  # of the branches; 0: all at once
    is_apart: bool = False  # each branch has a message of its own, so that they overlap
    tolerated: int = 0  # of the branches: how many may fail
    locks: tuple[str, ...] = ()  # of `lock`, in the order in which they are taken
    callbacks: tuple[str, ...] = ()  # of a wait's arms that are callbacks, in order
    function: Callable[[], object] | None = None  # of `run`: what its own session calls, in place of a step's function

    @property
    def width(self) -> int:
        """Returns the number of concurrent operations."""
        if self.call is not None:
            return len(self.call.children)
        return len(self.branches) or (len(self.wait.arms) if self.wait is not None else 0)

    @property
    def arguments(self) -> int:
        """Returns a checksum of a step's arguments, or of those of a fork's steps; 0 for operations of other kinds."""
        if isinstance(self.branches, tuple) and self.branches:
            return checksum_of(getattr(one, "asked", None) for one in self.branches)
        if self.branches:  # of a step for each of many items
            found: int = getattr(self.branches, "arguments", 0)
            return found
        if self.kind != "step" or self.step is None or self.step.input is None:
            return 0
        return crc32(_encode(self.step.input.evaluate({})).encode()) or 1

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.kind != self.name else self.kind


def checksum_of(asked: Iterable[Asked | None]) -> int:
    """Returns a checksum of the arguments of several operations; 0 if there is no step among them."""
    found = [0 if one is None else one.arguments for one in asked]
    return (crc32(repr(found).encode()) or 1) if any(found) else 0


@dataclass(frozen=True, slots=True)
class Suspended:
    """It awaits this; `slot` is that of the operation's first record, -1 where it has none yet."""

    asked: Asked
    slot: int = -1
    is_whole: bool = False  # the operation is all that this branch does
    by: str = ""  # which of the function's tasks awaits it; "": the function itself


@dataclass(frozen=True, slots=True)
class Together:
    """Its tasks wait. The operations that have no record yet begin together; those that it cancelled end.

    `due_ms`: the time of its next timer. `by`: for each that begins, which of the tasks awaits it.
    """

    begun: tuple[Asked, ...] = ()
    cancelled: tuple[Place, ...] = ()
    due_ms: int | None = None
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Completed:
    value: Json


@dataclass(frozen=True, slots=True)
class Failed:
    """It raised. `is_cancel`: the cancel of its run, and no error of its own."""

    failure: Failure
    is_cancel: bool = False


@dataclass(frozen=True, slots=True)
class ContinueAs:
    """It begins anew. `function`: as another function than the workflow's own, by its path."""

    input: Json
    function: str = ""


@dataclass(frozen=True, slots=True)
class Stuck:
    """What is wrong with the code, for the person who fixes it.

    `parts`: of several operations that the log has with other arguments, what each one is now, and its checksum.
    """

    failure: Failure
    parts: tuple[tuple[str, int], ...] = ()


Result: TypeAlias = Suspended | Together | Completed | Failed | ContinueAs | Stuck


@dataclass(frozen=True, slots=True)
class Turn:
    """A result, and what the function did on the way to it that its next record is to tell."""

    result: Result
    writes: Mapping[str, Json] = field(default_factory=dict)  # of its state, what has changed; all of it for ContinueAs
    patches: tuple[str, ...] = ()  # that it asked for and found in force
    answers: Mapping[str, Json] = field(default_factory=dict)  # to updates whose handlers have ended
