"""The newest entry of a run's history from its last two records, however long its log is.

A snapshot is the token after a record; the record's entries ask for the token before it. What they ask of it, the
record before tells, but for a few kinds of records.
"""

from __future__ import annotations

from stepwell.engine.entries import Entry
from stepwell.engine.fold import signals
from stepwell.engine.history import narrate
from stepwell.engine.records import Fork, Kind, Record, RunInfo
from stepwell.engine.table import Phase, walk
from stepwell.engine.token import Token
from stepwell.errors import EngineFault

_OF_A_WAIT = frozenset({Kind.RECEIVED, Kind.RESUMED})  # their entries say what came of which wait
_OF_MORE = frozenset({Kind.ACTED, Kind.REDRIVEN})  # and theirs count, or name the node before


def newest_of(token: Token, records: tuple[Record, Record], run: RunInfo) -> Entry | None:
    """Returns the last entry of the token's last record; None where its last two records do not tell.

    None also where branches or tasks may have written since.
    """
    previous, record = records
    if token.tasks or isinstance(record.next, Fork) or isinstance(previous.next, Fork):
        return None
    before = _before(token, record, previous)
    entries = narrate(record, before, token, run) if before is not None else ()
    return entries[-1] if entries else None


def _before(token: Token, record: Record, previous: Record) -> Token | None:
    """The token before its last record, in all that narrating the record's end asks for."""
    is_known = record.kind not in _OF_A_WAIT or previous.kind is Kind.WAITING
    rests = {_walked(phase, previous) for phase in Phase}
    phases = [phase for phase in rests if phase is not None and _walked(phase, record) is token.phase]
    if record.kind in _OF_MORE or not is_known or len(phases) != 1:
        return None
    locks = token.released[-1] if token.released else token.locks
    return Token(token.id, previous.slot, previous, phases[0], parked=previous.parked, locks=locks)


def _walked(phase: Phase, record: Record) -> Phase | None:
    """Where a record leads from a phase; None if it cannot follow there."""
    try:
        return walk(phase, signals(record, phase))[-1]
    except EngineFault:
        return None
