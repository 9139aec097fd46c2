"""Left parts: events that a failed visit's waits had taken. A redriven run is sent them again.

    failed run   WAITING ── RECEIVED (cv) ── RECEIVED (photo) ── RESUMED (timeout): the end
    mailbox                     └── cv, for the new run alone ─────┐
    new run      REDRIVEN ── WAITING, with its whole time ── RECEIVED (cv) ── …

So the new wait takes what it is for, as it takes any event that came before it. Those of a branch are sent to that
branch alone: an event for the run might reach another one. Votes are not sent again: who agreed, agreed to what the
failed run asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.engine.records import Kind, Parked, Record, Resumption, RetryAt
from stepwell.engine.redriving import Kept
from stepwell.engine.waits.aside import is_aside
from stepwell.engine.waits.topics import run_topic

_SENT = frozenset({"event"})  # what came through the mailbox, and can go there again
_BEGIN = frozenset({Kind.STEP, Kind.BEGAN, Kind.WAITING, Kind.MOVED})  # of a function, another operation may
_Place = tuple[int, int, str]  # the number of the wait in the visit, the arm, and the document or event


def left_parts(run_id: str, kept: Kept, records: Sequence[Record]) -> list[tuple[int, Resumption]]:
    """Returns the events with when they came, oldest first, no two at once; of a document the last one alone.

    `kept`, `records`: of the run's root, or of a branch that goes on. One that goes on in a fork of its own, or amid
    tasks, has no wait of its own.
    """
    if kept.reopens is not None or not kept.node:
        return []
    found, at_ms = list[tuple[int, Resumption]](), 0
    for came_ms, one in _last_of_each(run_id, kept.node, records[len(kept.records) :]).values():
        at_ms = max(came_ms, at_ms + 1)
        found.append((at_ms, one))
    return found


def _last_of_each(run_id: str, node: str, records: Sequence[Record]) -> dict[_Place, tuple[int, Resumption]]:
    """Returns what the visit's last attempt had taken. It begins anew, so it waits again for all of that."""
    wait: Parked | None = None
    found, number, is_beside = dict[_Place, tuple[int, Resumption]](), 0, False
    for record in records:
        one = record.resumption
        if record.kind is Kind.WAITING and is_aside(record):
            is_beside = True  # it waits for code, or for a permit
        elif record.kind in _BEGIN and record.node not in ("", node):
            break
        elif record.kind is Kind.WAITING:
            wait, number = record.parked, number + (record.attempt == 0)
        elif record.kind is Kind.STEP and isinstance(record.next, RetryAt):
            wait, found = None, {}
        elif one is not None and is_beside:
            is_beside = record.kind is not Kind.RESUMED
        elif one is not None and wait is not None:
            if _is_sent(run_id, wait, one):
                key = number, one.arm, one.part or one.event_id
                found.pop(key, None)  # so that it is the newest
                found[key] = record.at_ms, one
            if record.kind is Kind.RESUMED and wait.of_function:  # what follows is another operation
                break
    return found


def _is_sent(run_id: str, wait: Parked, one: Resumption) -> bool:
    """Tells whether the new run needs it sent: not that of a callback, nor what is still there for everybody."""
    is_there = bool(one.seen) and not one.seen.startswith(f"{one.name}#@")
    return one.kind in _SENT and run_topic(one.name, run_id) in wait.arms[one.arm].topics and not is_there
