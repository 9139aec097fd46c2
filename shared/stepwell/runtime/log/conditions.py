"""A durable function's wait for a condition or a timer of its own (`ctx.until`), as histories and graphs show it.

    3: WAITING (begins nothing, until 14:00) ── 4: RECEIVED (an update) ── 5: WAITING (begins a)
       until: waiting                           still waiting              until: completed, a: running

It waits so while nothing that it began is under way. The log has no operation for it: its tasks wait, and any of their
records ends it. A wait beside the work (for code, for a permit) does not.
"""

from __future__ import annotations

from dataclasses import replace

from stepwell.engine import history
from stepwell.engine.entries import Entry
from stepwell.engine.records import TASKS, Kind, Parked, Record, RunInfo
from stepwell.engine.token import Token
from stepwell.engine.waits.tasks import is_of_tasks

UNTIL = "until"  # what it is called where operations have their names


def own_wait(token: Token) -> Parked | None:
    """Returns the wait of a function that waits for itself alone; None if it does not."""
    at = token.aside or token
    parked = at.parked
    if token.ended or token.has_open_tasks or parked is None or not parked.of_tasks or at.resumption is not None:
        return None
    return parked


def step_shown(kind: str, node: str) -> str:
    """Returns where a run waits, by its header. A wait for a condition is named as the run itself names it."""
    return UNTIL if is_of_tasks(kind) else node


def narrate(record: Record, before: Token, after: Token, run: RunInfo) -> tuple[Entry, ...]:
    """Returns the entries of a record, those of such a wait under its name."""
    entries = history.narrate(record, before, after, run)
    if not _is_of_own_wait(record, before, after):
        return entries
    return tuple(replace(entry, step=UNTIL) if entry.step == TASKS else entry for entry in entries)


def _is_of_own_wait(record: Record, before: Token, after: Token) -> bool:
    """Tells whether a record begins such a wait, reaches it or times it out."""
    is_coming = record.kind in {Kind.RECEIVED, Kind.RESUMED} and own_wait(before) is not None
    return record.node == TASKS and (is_coming or own_wait(after) is not None)
