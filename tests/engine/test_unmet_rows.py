"""Rows of the reception table that no message meets: its sender has read the token, and one record leads elsewhere.

reads the token ── writes ── another's record is in the slot ── decides again, after that one record
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from stepwell.engine.fold import signals
from stepwell.engine.records import Compensate, Kind, Record
from stepwell.engine.table import ENDED, RECEPTION, UNMET, Message, Phase, Verdict, walk
from stepwell.errors import EngineFault
from tests.engine.test_table import RESTING, WAYS

P, M = Phase, Message


@dataclass(frozen=True)
class Sender:
    """What a sender of a message knows when it puts it."""

    reads: frozenset[Phase]  # the phases in which it puts the message
    writes: frozenset[Phase]  # those of them in which the message may write, and so may be decided on again
    but: Callable[[Record], bool] = lambda _: False  # the records that nobody writes meanwhile


def _sender(*reads: Phase, writes: tuple[Phase, ...] = (), but: Callable[[Record], bool] = lambda _: False) -> Sender:
    return Sender(frozenset(reads), frozenset(writes or reads), but)


def _is_wait_of_definition(record: Record) -> bool:
    """Where a step is next, the only waits are those for code and for permits."""
    return record.parked is not None and record.parked.kind not in {"code", "limit"}


def _is_of_function(record: Record) -> bool:
    return record.kind in {Kind.WAITING, Kind.RETURNED}


def _is_none_of_tasks(record: Record) -> bool:
    """While its tasks wait, a function waits for them, or for code or a permit, and is not undone."""
    is_other = record.parked is not None and record.parked.kind not in {"tasks", "code", "limit"}
    return is_other or isinstance(record.next, Compensate)


def _undoes(record: Record) -> bool:
    return isinstance(record.next, Compensate)


def _is_no_redrive(record: Record) -> bool:
    """Nobody loads a run before it has this record (`Standing.is_whole`), so that only a repeated call writes it."""
    return record.kind is not Kind.REDRIVEN


_BEGUN = [phase for phase in RESTING if phase is not P.INITIALIZING]
_NOT_UNDONE = [phase for phase in RESTING if phase not in {P.COMPENSATING, P.WAITING_TO_COMPENSATE}]
_OWN_WAITS = (P.SLEEPING, P.WAITING_FOR_APPROVAL, P.WAITING_FOR_EVENT, P.WAITING_FOR_CHILDREN)
SENDERS = {
    M.STEP: _sender(P.INITIALIZING, P.EXECUTING_STEP, P.COMPENSATING, but=_is_wait_of_definition),
    M.EVENT: _sender(*_BEGUN),  # it is offered to a wait that was registered
    M.CHILD: _sender(P.WAITING_FOR_CHILDREN),  # a child reads whether its parent still waits
    M.LOCKS: _sender(P.WAITING_FOR_EVENT),  # it is found by the effect of that wait
    M.PERMIT: _sender(P.WAITING_FOR_EVENT, P.WAITING_TO_COMPENSATE),  # so is it
    M.JOIN: _sender(P.WAITING_AT_FAN_IN, but=_is_of_function),  # who arrives last reads the parent
    M.OPERATION: _sender(P.EXECUTING_STEP, P.WAITING_FOR_EVENT, P.WAITING_AT_FAN_IN, but=_is_none_of_tasks),
    M.UPDATE: _sender(*(phase for phase in _NOT_UNDONE if phase not in ENDED), writes=_OWN_WAITS, but=_undoes),
    M.HEARTBEAT: _sender(P.WAITING_FOR_EVENT, P.WAITING_FOR_APPROVAL),  # who beats reads whether the callback waits
    M.REDRIVE: _sender(P.INITIALIZING, P.EXECUTING_STEP, P.WAITING_AT_FAN_IN, but=_is_no_redrive),
    M.LIMIT: _sender(P.INITIALIZING),
    M.CLOSE: _sender(*_NOT_UNDONE, but=_undoes),  # a branch is not undone by itself
}


def _after_one_record(phase: Phase, but: Callable[[Record], bool]) -> set[Phase]:
    found = set()
    for _, record in WAYS:
        if but(record):
            continue
        try:
            found.add(walk(phase, signals(record, phase))[-1])
        except EngineFault:
            continue
    return found


def _met(message: Message) -> set[Phase]:
    if message not in SENDERS:
        return set(RESTING)
    sender = SENDERS[message]
    return set(sender.reads).union(*(_after_one_record(phase, sender.but) for phase in sender.writes))


@pytest.mark.parametrize("message", Message)
def test_the_rows_that_no_message_meets_are_those_that_its_sender_cannot_find(message: Message) -> None:
    assert {phase for phase, one in UNMET if one is message} == set(RESTING) - _met(message)


def test_a_row_that_no_message_meets_takes_none_unless_it_is_told_otherwise() -> None:
    """Were the proof wrong, nothing would happen."""
    assert {RECEPTION[row] for row in UNMET} <= {Verdict.DROP, Verdict.REFUSE}
