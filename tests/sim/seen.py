"""What the laws need to know of a run beside the store: noted while a schedule plays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stepwell.engine.records import Topic
from stepwell.runtime.ports import Event
from stepwell.runtime.steps.output import Emitted
from tests.sim.answering import Answering


@dataclass(frozen=True, slots=True)
class Taking:
    """An event that was consumed into a slot, and what was pending right before."""

    token: str
    slot: int
    topic: Topic
    event_id: str
    pending: Mapping[Topic, Mapping[str, Event]]
    at_ms: int
    known: int  # how many events had been stored when its taker looked


@dataclass(frozen=True, slots=True)
class Told:
    """What a client asked of a durable function, and what it was told."""

    what: str  # signal | update | answer | query
    name: str
    id: str
    given: Any
    answer: Any  # or the code of the refusal
    before: int  # records of the run's own log, when it asked
    after: int  # and when it was told


@dataclass(frozen=True, slots=True)
class Read:
    """A look of somebody who reads a run's live output along."""

    reader: str
    pieces: Sequence[Emitted]
    at_ms: int
    known: int  # how many events had been stored when it looked


@dataclass
class Seen:
    """What the checks need to know of a run beside the store."""

    ran: dict[tuple[str, str, int, int], set[str]] = field(default_factory=dict)
    """(token, node, entered, attempt) -> wakes"""
    once: dict[str, int] = field(default_factory=dict)  # idempotency key -> runs of an at_most_once step
    order: dict[tuple[str, int], int] = field(
        default_factory=dict
    )  # (token, slot) -> when it was written, in the world
    joined_on: dict[tuple[str, int], dict[str, int]] = field(default_factory=dict)  # a join -> what its writer had read
    cancelled_at_slot: int | None = None
    cancelled_after: int = 0  # records of the world, when the cancel was acknowledged
    given: dict[tuple[str, int], list[Any]] = field(default_factory=dict)  # (key, attempt) of a step -> its inputs
    undo_given: dict[tuple[str, str], list[Any]] = field(default_factory=dict)  # (key, what it undoes) -> inputs
    undo_done: set[str] = field(default_factory=set)  # what was undone by a compensation that did what it should
    undo_ran: dict[tuple[str, str, int], set[str]] = field(default_factory=dict)  # (key, node, attempt) -> wakes
    while_undone: list[tuple[str, str]] = field(default_factory=list)  # (operation, answer), before it and after
    crashes: int = 0
    answered: list[str] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    takings: list[Taking] = field(default_factory=list)
    emitted: list[Any] = field(default_factory=list)  # live output, of which its writer heard that it is stored
    reads: list[Read] = field(default_factory=list)  # of it, in the order of their answers
    committed: dict[tuple[str, int], int] = field(default_factory=dict)  # (key, attempt) of a step -> when, in records
    ahead: list[str] = field(default_factory=list)  # of open batches: what was done too soon, or again
    answering: Answering = field(default_factory=Answering)  # of answered steps
    too_dear: list[str] = field(default_factory=list)  # steps of branches that began in a run that may cost nothing
