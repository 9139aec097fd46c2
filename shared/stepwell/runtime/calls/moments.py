"""A run as it stood at one slot of its log, folded anew from its records."""

from __future__ import annotations

from dataclasses import replace

from stepwell.engine.fold import apply, fold
from stepwell.engine.records import Fork, Status
from stepwell.engine.token import Token
from stepwell.errors import InvalidInput
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing


async def as_of(logbook: Logbook, at: Standing, slot: int | None) -> tuple[Standing, Standing]:
    """Returns the run before and after the record of `slot`: twice the same for a run without a record.

    None means the last record, with what branches have done since; for a slot, nothing after it is shown. Nothing is
    written. It costs one read of the log from the last snapshot before the slot, at most of the whole log. Raises
    InvalidInput for a slot that the log does not have.
    """
    last_slot = max(at.token.slot, 0)
    if slot is not None and slot > last_slot:
        hint = f"its last slot is {at.token.slot}; an entry's id has its slot behind the @"
        raise InvalidInput(f"the run's log has no slot {slot}", code="unknown_slot", hint=hint)
    after = last_slot if slot is None else slot
    begun = await logbook.token_before(at.run_id, after) or Token()
    records = await logbook.history(at.run_id, at.token.id, begun.slot, after - begun.slot)
    if not records:
        return (_then(at, begun, is_now=True),) * 2
    before = fold(records[:-1], begun)
    then = apply(before, records[-1])
    return _then(at, before), _then(at, then, is_now=slot is None or (after == last_slot and not _has_open_fork(then)))


def _has_open_fork(token: Token) -> bool:
    return token.has_open_tasks or (not token.ended and token.last is not None and isinstance(token.last.next, Fork))


def _then(at: Standing, token: Token, *, is_now: bool = False) -> Standing:
    """Returns the run with this token; for an earlier moment without the status and branches that it has now."""
    if is_now:
        return replace(at, token=token)
    return replace(at, token=token, branches=(), rollback=None, header=replace(at.header, status=Status.RUNNING))
