"""The API's view of a rollback: its reason, the undone steps, and the remaining ones."""

from __future__ import annotations

from typing_extensions import TypedDict

from stepwell.api.runs.states import failed_compensation, left_to_undo
from stepwell.api.runs.steps import ErrorView, error_view
from stepwell.engine.records import Status
from stepwell.runtime.log.standing import Standing


class UndoView(TypedDict):
    """A committed step: the record in `slot` of the token's log. `step` is null if it was not read."""

    step: str | None
    token: str
    slot: int


class RollbackView(TypedDict):
    """A rollback in progress or done. `status` is what the run would have ended with, for this `reason`.

    `undone` is in the order of compensation. `not_undone` begins with the next step, and is null if the logs are too
    long to read. `error` is that of the last failed compensation.
    """

    status: str
    reason: str | None
    undone: list[UndoView]
    not_undone: list[UndoView] | None
    error: ErrorView | None


def rollback_view(at: Standing) -> RollbackView | None:
    """Returns the rollback, or None if the run never compensated."""
    undoing = at.token.undoing
    if undoing is None:
        return None
    names = {one.place: one.node for one in at.rollback or ()}
    left = left_to_undo(at)
    reason = undoing.reason or (undoing.error.message if undoing.error else "")
    return RollbackView(
        status=undoing.status.value,
        reason=reason or None,
        undone=[_undo_view(names.get(place), place) for place in undoing.undone],
        not_undone=None if left is None else [_undo_view(one.node, one.place) for one in left],
        error=error_view(failed_compensation(at.token)),
    )


def undone_steps(at: Standing) -> frozenset[tuple[str, str]]:
    """Returns (token, step) of each undone commit that was read."""
    undone = at.token.undoing.undone if at.token.undoing else ()
    return frozenset((one.token, one.node) for one in (at.rollback or ())[: len(undone)])


def node_not_undone(at: Standing) -> tuple[str, ...]:
    """Returns the node whose compensation failed, with which the rollback ended; none if there is none."""
    has_failed = at.token.end is not None and failed_compensation(at.token) is not None
    return (at.token.last.node,) if has_failed and at.token.last is not None else ()


def outcome_of(at: Standing) -> str | None:
    """Returns `rollback` if all was undone, `partial_rollback` if a compensation failed, None for other ends."""
    if at.token.end is None or at.token.undoing is None:
        return None
    return "rollback" if at.token.end.status is Status.COMPENSATED else "partial_rollback"


def _undo_view(step: str | None, place: str) -> UndoView:
    token, _, slot = place.partition("@")
    return UndoView(step=step, token=token, slot=int(slot))
