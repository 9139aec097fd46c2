"""Finds the newest entry of a run's history from its last two records, however long its log is.

A snapshot is the token after a record, and narrating the record needs the token before it. For most kinds of records,
the record before tells enough of that.
"""

from __future__ import annotations

from stepwell.engine.entries import Entry
from stepwell.engine.fold import signals
from stepwell.engine.records import Fork, Kind, Record, RunInfo
from stepwell.engine.table import Phase, walk
from stepwell.engine.token import Token
from stepwell.errors import EngineFault
from stepwell.runtime.log.conditions import narrate

_OF_A_WAIT = frozenset({Kind.RECEIVED, Kind.RESUMED})  # their entries say how which wait ended
_OF_MORE = frozenset({Kind.ACTED, Kind.REDRIVEN})  # their entries count, or name the node before


def newest_of(token: Token, records: tuple[Record, Record], run: RunInfo) -> Entry | None:
    """Returns the last entry of the token's last record; None if its last two records do not tell.

    None also if branches or tasks may have written since.
    """
    previous, record = records
    if token.tasks or isinstance(record.next, Fork) or isinstance(previous.next, Fork):
        return None
    before = _before(token, record, previous)
    entries = narrate(record, before, token, run) if before is not None else ()
    return entries[-1] if entries else None


def _before(token: Token, record: Record, previous: Record) -> Token | None:
    """Returns what narrating the last record needs of the token before it; None if that is unknown."""
    is_known = record.kind not in _OF_A_WAIT or previous.kind is Kind.WAITING
    rests = {_walked(phase, previous) for phase in Phase}
    phases = [phase for phase in rests if phase is not None and _walked(phase, record) is token.phase]
    if record.kind in _OF_MORE or not is_known or len(phases) != 1:
        return None
    locks = token.released[-1] if token.released else token.locks
    return Token(token.id, previous.slot, previous, phases[0], parked=previous.parked, locks=locks)


def _walked(phase: Phase, record: Record) -> Phase | None:
    """Returns the phase after a record; None if the record cannot follow this phase."""
    try:
        return walk(phase, signals(record, phase))[-1]
    except EngineFault:
        return None
