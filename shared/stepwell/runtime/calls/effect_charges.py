"""Charges of effects: the write units, messages and schedules that performing an effect of a record takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from stepwell.engine.effect_kinds import (
    Announce,
    Arrive,
    Close,
    Effect,
    EndChildren,
    Forget,
    GiveBackPermits,
    LeaveGathering,
    Open,
    Register,
    ReleaseLocks,
    SetDeadline,
    SetTimer,
    ShowStatus,
    StartChildren,
    TakeLocks,
    TakePending,
    TakePermit,
)
from stepwell.engine.forks.branches import first_chunks
from stepwell.engine.limits.permits import ReturnPermit
from stepwell.engine.limits.throttles import FREED
from stepwell.engine.records import TASKS, Parked, Record, Status
from stepwell.engine.token import Token
from stepwell.engine.waits.topics import own_topics, run_of
from stepwell.limits import ITEM_BYTES
from stepwell.runtime.calls.quiet import KILOBYTE
from stepwell.runtime.log.alarms import QUEUE_HORIZON_MS

Charge: TypeAlias = tuple[str, float]

_BATCH = 10  # messages that one request sends
_COMPLETED, _ENDED_ELSE = 2, 3  # write units of a run's end, with the indexes: see the table in the docs


def of_effect(token: Token, record: Record, effect: Effect) -> Iterator[Charge]:
    match effect:
        case SetTimer(_, at_ms) | SetDeadline(at_ms):
            yield from message_at(at_ms - record.at_ms)
        case EndChildren(parked):  # a refused write shows that a child is there, and it is told
            yield "write_units", len(parked.children)
            yield from messages(len(parked.children))
        case Announce():
            yield "write_units", 1
            yield from messages(1)
        case Open(fork) if fork.is_reopened:
            pass  # these wakes are counted by what they wrote
        case Open(fork, _, only):
            yield from messages(len(only) or sum(1 for _ in first_chunks(fork)))
        case Close() if token.fork is not None and len(token.fork.pages) > 1:
            yield from messages(len(token.fork.pages))
        case TakePending(parked):
            yield "read_units", sum(len(arm.topics) + len(own_topics(token, arm)) for arm in parked.arms)
        case _:
            yield from _writes_of(token, effect)


def _writes_of(token: Token, effect: Effect) -> Iterator[Charge]:
    """Yields the charges of an effect that only writes to the table."""
    match effect:
        case ShowStatus():
            yield from of_status(token, effect)
        case Register(parked) | Forget(parked):
            yield "write_units", _registrations(token, parked)
        case StartChildren(parked):
            yield "write_units", len(parked.children) if len(parked.children) > 1 else 0
        case TakeLocks(names):
            yield "write_units", len(names)
        case ReleaseLocks(locks):
            yield "write_units", sum(len(one.names) for one in locks)
        case ReturnPermit() | TakePermit() | LeaveGathering():
            yield "write_units", 1
        case GiveBackPermits(permits):
            yield "write_units", sum(one.is_shared and one.state != FREED for one in permits)
        case Arrive() if not is_of_tasks(token):
            yield "write_units", 1


def of_status(token: Token, shown: ShowStatus) -> Iterator[Charge]:
    """Yields the header's write units.

    A branch's status is a mark in its page's join instead; a run's end also updates the indexes of its header.
    """
    if token.branch is not None:
        yield "write_units", 0 if is_of_tasks(token) else 1
    elif not shown.status.terminal:
        yield "write_units", 1
    else:
        yield "write_units", _COMPLETED if shown.status is Status.COMPLETED else _ENDED_ELSE


def is_of_tasks(token: Token) -> bool:
    """Tells whether the token is an operation of a durable function's tasks: its end goes to their own log."""
    return token.branch is not None and token.branch.join == TASKS


def _registrations(token: Token, parked: Parked) -> int:
    """Counts the topics to register. A root's own topics need no item: senders look into its log instead."""
    is_branch = token.branch is not None
    return sum(is_branch or run_of(topic) is None for arm in parked.arms for topic in arm.topics)


def message_at(after_ms: int) -> Iterator[Charge]:
    """Yields the charges of a message after a delay: beyond the queue's horizon a schedule sends it."""
    if is_far(after_ms):
        yield "schedules", 1
    yield from messages(1)


def is_far(after_ms: int) -> bool:
    return after_ms > QUEUE_HORIZON_MS


def messages(count: int) -> Iterator[Charge]:
    yield "messages", count
    yield "sends", -(-count // _BATCH)


def item(size_bytes: int, times: int = 1) -> Iterator[Charge]:
    """Yields the charges of writing an item of this size: a large one is an object and a claim check."""
    if size_bytes > ITEM_BYTES:
        yield "objects", 1
        size_bytes = KILOBYTE
    yield "write_units", times * -(-size_bytes // KILOBYTE)
