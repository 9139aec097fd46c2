"""Left parts: events that a failed wait had taken and did not complete with. A redriven run is sent them again.

    failed run   WAITING ── RECEIVED (cv) ── RECEIVED (photo) ── RESUMED (timeout): the end
    mailbox                     └── cv, for the new run alone ─────┐
    new run      REDRIVEN ── WAITING, with its whole time ── RECEIVED (cv) ── …

So the new wait takes what it is for, as it takes any event that came before it. Votes are not sent again: who agreed,
agreed to what the failed run asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.engine.records import Kind, Parked, Record, Resumption
from stepwell.engine.redriving import Kept
from stepwell.engine.waits.aside import is_aside
from stepwell.engine.waits.topics import run_topic

_SENT = frozenset({"event"})  # what came through the mailbox, and can go there again
_COMPLETES = frozenset({"event", "timer", "approved"})  # what ends a wait that is complete


def left_parts(run_id: str, kept: Kept, records: Sequence[Record]) -> list[tuple[int, Resumption]]:
    """Returns the events with when they came, oldest first, no two at once; of a document the last one alone.

    `kept`: of the run's root, which goes on where it failed. A fork's branches are sent none: an event for the run
    alone may reach any of them. So are a function's tasks.
    """
    if kept.reopens is not None or not kept.node:
        return []
    found, at_ms = list[tuple[int, Resumption]](), 0
    for came_ms, one in _last_of_each(run_id, records[len(kept.records) :]).values():
        at_ms = max(came_ms, at_ms + 1)
        found.append((at_ms, one))
    return found


def _last_of_each(run_id: str, records: Sequence[Record]) -> dict[tuple[int, str], tuple[int, Resumption]]:
    wait: Parked | None = None
    found = dict[tuple[int, str], tuple[int, Resumption]]()
    for record in records:
        one = record.resumption
        if record.kind is Kind.WAITING and not is_aside(record):
            wait, found = record.parked, found if record.attempt else {}
        elif record.kind is Kind.STEP:  # it has the wait's result
            found = {}
        elif record.kind is Kind.RECEIVED and one is not None and wait is not None and _is_sent(run_id, wait, one):
            key = one.arm, one.part or one.event_id
            found.pop(key, None)  # so that it is the newest
            found[key] = record.at_ms, one
        elif record.kind is Kind.RESUMED and one is not None and wait is not None:
            found = {} if one.kind in _COMPLETES else found
            if wait.of_function:  # what follows is another operation
                break
    return found


def _is_sent(run_id: str, wait: Parked, one: Resumption) -> bool:
    """Tells whether the new run needs it sent: not that of a callback, nor what is still there for everybody."""
    topic = run_topic(one.name, run_id)
    is_there = bool(one.seen) and not one.seen.startswith(f"{topic}\n")
    return one.kind in _SENT and topic in wait.arms[one.arm].topics and not is_there
