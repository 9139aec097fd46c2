"""Effects: what a record demands of the world.

A function of the record, repeatable at will, performed before the next append.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from stepwell.definition.graph import Graph, Json
from stepwell.engine.records import Kind, Parked, Pause, Record, Status
from stepwell.engine.token import Token


@dataclass(frozen=True, slots=True)
class ShowStatus:
    """The run's header is to say this. `rev` orders it among the others: twice the slot, plus one when picked up."""

    rev: int
    status: Status
    at_ms: int
    parked: Parked | None = None
    node: str = ""
    expires_ms: int = 0
    picked_up: bool = False


@dataclass(frozen=True, slots=True)
class Register:
    """Put the wait down under its topics: after the record, before the mailbox is read."""

    parked: Parked
    slot: int


@dataclass(frozen=True, slots=True)
class SetTimer:
    """The wait's time is up then."""

    slot: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class TakePending:
    """Read the mailbox: an event that came before the wait ends it now."""

    parked: Parked
    slot: int


@dataclass(frozen=True, slots=True)
class Forget:
    """Take the wait's registrations away."""

    parked: Parked
    slot: int


@dataclass(frozen=True, slots=True)
class Escalate:
    """Tell whoever listens that a step is blocked."""

    name: str
    payload: Json
    event_id: str


Effect: TypeAlias = ShowStatus | Register | SetTimer | TakePending | Forget | Escalate


def picked_up(token: Token, now_ms: int) -> ShowStatus:
    """A worker has the run: before its first step."""
    return ShowStatus(2 * token.slot + 1, Status.RUNNING, now_ms, picked_up=True)


def effects(graph: Graph, token: Token) -> tuple[Effect, ...]:
    """What the token's last record demands, in order."""
    record = token.last
    if record is None:
        return ()
    if token.end is not None:
        return _of_end(graph, token, record)
    match record.kind, record.next:
        case Kind.STARTED, _:
            return (ShowStatus(2 * record.slot, Status.PENDING, record.at_ms),)
        case Kind.WAITING, _ if record.parked:
            return _of_wait(record, record.parked)
        case Kind.RESUMED, _ if token.parked:
            running = ShowStatus(2 * record.slot, Status.RUNNING, record.at_ms)
            return (running, Forget(token.parked, record.slot - 1))
        case Kind.STEP, Pause() if record.error is not None:
            payload = {"node": record.node, "reason": record.error.message, "data": record.error.data}
            return (Escalate("governance.blocked", payload, f"{token.id}@{record.slot}"),)
        case _:
            return ()


def _of_wait(record: Record, parked: Parked) -> tuple[Effect, ...]:
    timer = () if parked.until_ms is None else (SetTimer(record.slot, parked.until_ms),)
    shown = ShowStatus(2 * record.slot, Status.WAITING, record.at_ms, parked, record.node)
    return (Register(parked, record.slot), *timer, shown, TakePending(parked, record.slot))


def _of_end(graph: Graph, token: Token, record: Record) -> tuple[Effect, ...]:
    if token.end is None:
        return ()
    expires_ms = record.at_ms + graph.retention_ms
    shown = ShowStatus(2 * record.slot, token.end.status, record.at_ms, expires_ms=expires_ms)
    left = (Forget(token.parked, record.slot - 1),) if token.parked and record.kind is Kind.ENDED else ()
    return (shown, *left)
