"""What can end a wait: the law that every open run has something durable that wakes it.

`stepwell explain` shows it, and the sweeper checks it: a token without a waker is driven again, and raises an alarm.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.engine.records import Parked
from stepwell.engine.waits.kind import Waker, kind_named


def wakers_of(parked: Parked, node: str, run_id: str, branch: str = "") -> list[Waker]:
    """Returns what can end the wait beside child runs, each once. `branch` names the token to callers; "": the root."""
    reason = kind_named(parked.kind).reason(parked, node, run_id)
    if reason is not None:
        return list(reason.wakers)
    found = [waker for arm in parked.arms for waker in kind_named(arm.kind).wakers(arm, run_id, branch)]
    if parked.until_ms is not None:
        ends = "the wait times out" if parked.timer_arm is None else "the time it waits for is over"
        found.append(Waker("timer", f"{ends} then", parked.until_ms))
    return list(dict.fromkeys(found))


def can_wake(parked: Parked, wakers: Sequence[Waker]) -> bool:
    """Tells whether anything can end the wait. A lock that nobody holds is about to be granted."""
    return bool(wakers or parked.children or parked.locks)
