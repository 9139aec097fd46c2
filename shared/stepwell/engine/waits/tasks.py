"""A wait of a durable function's tasks: for operations that it has begun, and for its next timer."""

from __future__ import annotations

from typing import Any

from stepwell.engine.names import iso
from stepwell.engine.records import ENDED, TASKS, Parked, Record
from stepwell.engine.table import Signal
from stepwell.engine.token import Token
from stepwell.engine.waits.kind import Began, Coming, Reason, WaitKind, Waker


class TasksWait(WaitKind):
    """Each part that comes gives the function a turn; it is over when no operation is under way."""

    def parked(self, token: Token, record: Record, parked: Parked) -> dict[str, Any]:
        """Returns the token's changes. There is no step to show: the operations are branches."""
        return {"parked": parked, "resumption": None, "received": (), "received_slot": -1, "fork": None,
                **({"scope": {**token.scope, **record.writes}} if record.writes else {})}  # fmt: skip

    def began(self, record: Record, parked: Parked, run_id: str, token: str) -> Began:
        until = None if parked.until_ms is None else iso(parked.until_ms)
        cancelled = [f"{token}/{place}" for place in parked.cancelled]
        return Began(self.entry, {"begun": parked.data["begun"], "cancelled": cancelled, "until": until})

    def reason(self, parked: Parked, node: str, run_id: str) -> Reason:
        """Of a function with nothing under way."""
        wakers = [Waker("call", f"an update (POST /runs/{run_id}/updates/NAME)")]
        if parked.until_ms is not None:
            wakers.insert(0, Waker("timer", "a timer of the function's own", parked.until_ms))
        return Reason(f"The function waits for something to change, since {iso(parked.since_ms)}.", tuple(wakers))


TASKS_WAIT = TasksWait(
    TASKS, Signal.SPREAD, "tasks.waiting", comings={ENDED: Coming("operation.ended")}, thing="its tasks"
)


def is_of_tasks(kind: str) -> bool:
    """Tells whether this kind of wait is that of a function's tasks. A header names it where they await a condition."""
    return kind == TASKS
