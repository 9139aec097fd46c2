"""Forking a run: how much of its log another run keeps, and what is other there.

    run        0 charge ── 1 decide ── 2 ship ── 3 tell …
    its fork   0 charge ── 1 REDRIVEN, with another state, or a result for decide ── 2 decide ── …

A slot amid a step, a wait or a fork means the slot where that began. Amid a function's tasks, what is under way begins
anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.definition.text import counted
from stepwell.engine.durable.redriven import before_aside, is_amid_tasks
from stepwell.engine.fold import fold
from stepwell.engine.records import Kind, Record
from stepwell.engine.redriving import Kept, check_locks, check_start, check_undoing, visits_of
from stepwell.engine.token import Token
from stepwell.errors import InvalidInput


def kept_before(run_id: str, records: Sequence[Record], at: int) -> Kept:
    """Returns what a fork of this run in slot `at` keeps. Raises Conflict, InvalidInput."""
    if not 0 <= at <= len(records):
        raise InvalidInput(f"the run has no slot {at}: it has {counted(len(records), 'record')}", code="unknown_slot",
                           hint="GET /runs/{id}/history: the slot of an entry is in its id, 2 in 0@2.0")  # fmt: skip
    ended = fold(records, Token())
    check_undoing(ended)
    if is_amid_tasks(fold(records[:at], Token())):
        return _kept_amid_tasks(run_id, records, at, ended)
    began = [slot for slot, _ in visits_of(records) if slot <= at]
    slot = max([*began, 0])
    if slot == 0 and at and records[0].kind is Kind.STARTED:
        slot = 1
    token = fold(records[:slot], Token())
    check_start(token)
    return Kept(tuple(records[:slot]), token, "", "", ended.first_run or run_id, ended.first_ms)


def _kept_amid_tasks(run_id: str, records: Sequence[Record], at: int, ended: Token) -> Kept:
    """Operations that were under way there begin anew, whatever has become of them since."""
    slot = before_aside(records, at, Token())
    token = fold(records[:slot], Token())
    check_locks(token)
    return Kept(tuple(records[:slot]), token, "", "", ended.first_run or run_id, ended.first_ms)
