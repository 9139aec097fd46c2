"""A run as it stood at one slot of its log, folded anew from its records."""

from __future__ import annotations

from dataclasses import replace

from stepwell.engine.fold import apply, fold
from stepwell.engine.records import Status
from stepwell.engine.token import Token
from stepwell.errors import InvalidInput
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing


async def as_of(logbook: Logbook, at: Standing, slot: int) -> tuple[Standing, Standing]:
    """Returns the run before and after the record of `slot`: twice the same for a run without one.

    Nothing is written. It costs one read of the log from the last snapshot before the slot, at most of the whole log.
    Raises InvalidInput for a slot that the log does not have.
    """
    last_slot = at.token.slot
    if slot > max(last_slot, 0):
        raise InvalidInput(f"the run's log has no slot {slot}", code="unknown_slot",
                           hint=f"its last slot is {last_slot}; an entry's id has its slot behind the @")  # fmt: skip
    begun = await logbook.token_before(at.run_id, slot) or Token()
    records = await logbook.history(at.run_id, at.token.id, begun.slot, slot - begun.slot)
    if not records:
        return _then(at, begun), _then(at, begun)
    before = fold(records[:-1], begun)
    return _then(at, before), _then(at, apply(before, records[-1]))


def _then(at: Standing, token: Token) -> Standing:
    """The header knows of today alone: what it says of waits does not hold for an earlier slot."""
    if token.slot == at.token.slot:
        return replace(at, token=token)
    return replace(at, token=token, branches=(), rollback=None, header=replace(at.header, status=Status.RUNNING))
