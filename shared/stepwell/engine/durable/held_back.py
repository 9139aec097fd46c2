"""Locks of the run that a durable function's tasks take and let go: each waits until nothing is in progress beside it.

task a    ──▶ step ▒▒▒▒▒▒▒▒▒▒▒▒ ended
task b    ──▶ lock ── held back ─────▶ begins, alone
"""

from __future__ import annotations

from collections.abc import Iterable

from stepwell.engine.durable.asking import OF_LOCKS, ends_by_itself
from stepwell.engine.durable.runner import Pending
from stepwell.engine.limits.locks import UNLOCK


class HeldBack:
    """The operations on locks that wait for what is in progress beside them."""

    def __init__(self) -> None:
        self.waiting: list[Pending] = []
        self.is_held = False  # a lock of the run

    def hold_back(
        self, fresh: list[Pending], under_way: Iterable[Pending], cancelled: list[Pending], *, has_timer: bool
    ) -> None:
        """Takes out of `fresh` the operations that are to wait, and puts in the one that may begin.

        An operation that only the outside world ends would hold them up too long, so they fail beside one. `cancelled`:
        operations that are under way until a record ends them, so those that waited here are taken out: they never
        began. `has_timer`: a timer of the tasks may let one go on.
        """
        cancelled[:] = [one for one in cancelled if one not in self.waiting]
        of_lock = [one for one in fresh if one.asked.kind in OF_LOCKS]
        waiting = [one for one in (*self.waiting, *of_lock) if one.task.pending is one]
        fresh[:] = [one for one in fresh if one not in of_lock]
        given_up = {id(one) for one in cancelled}
        beside = [*fresh, *(one for one in under_way if id(one) not in given_up)]
        following = next((one for one in waiting if one.asked.kind == UNLOCK or not self.is_held), None)
        if beside and following is not None and not any(ends_by_itself(one.asked) for one in beside):
            fresh.append(following)  # which is told as a failure
        elif not (beside or given_up) and (following is not None or (waiting and not has_timer)):
            fresh.append(following or waiting[0])  # within itself: that is told, too
        self.waiting = [one for one in waiting if one not in fresh]
