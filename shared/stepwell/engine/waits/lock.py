"""A wait for locks: to be first in the queue of each. `stepwell.engine.limits.locks` has what a token holds."""

from __future__ import annotations

from typing import Any

from stepwell.engine.limits import locks
from stepwell.engine.names import iso
from stepwell.engine.records import Arm, Failure, Parked, Record, Resumption
from stepwell.engine.token import Token
from stepwell.engine.waits.kind import Began, Coming, Reason, WaitKind, Waker


class LockWait(WaitKind):
    """Only a release by the first in the queue ends it."""

    def failure(self, parked: Parked, resumption: Resumption, node: str, waited: int) -> Failure | None:
        if resumption.kind != locks.REFUSED:
            return super().failure(parked, resumption, node, waited)
        lock = resumption.payload.get("lock")
        return Failure(
            locks.REFUSED, "transient", f"the lock {lock!r} cannot be waited for", node, data=resumption.payload
        )

    def parked(self, token: Token, record: Record, parked: Parked) -> dict[str, Any]:
        return locks.asked(token, record, parked)

    def resumed(self, token: Token, record: Record, parked: Parked) -> dict[str, Any]:
        return locks.answered(token, record)

    def began(self, record: Record, parked: Parked, run_id: str, token: str) -> Began:
        return Began(self.entry, parked.data)

    def reason(self, parked: Parked, node: str, run_id: str) -> Reason:
        """Names the lock and its owner; between two owners, there is none."""
        lock, owner, ahead = (parked.data.get(name) for name in ("lock", "owner", "ahead"))
        text = f"It waits{f' at {node}' if node else ''} since {iso(parked.since_ms)} for"
        if lock is None:
            return Reason(f"{text} {' and '.join(parked.locks)}, which it is about to get.")
        others = f", with {ahead - 1} more in front of it" if ahead > 1 else ""
        waker = Waker("lock", f"GET /runs/{owner}/explain shows the state of that run")
        return Reason(f"{text} the lock {lock}, which {owner} has{others}.", (waker,))


LOCK_WAIT = LockWait(
    locks.LOCK,
    entry="lock.requested",
    comings={locks.LOCKED: Coming("lock.granted"), locks.REFUSED: Coming("lock.refused")},
)


def park_for_locks(names: tuple[str, ...], now_ms: int, *, of_function: bool = False) -> Parked:
    """Returns the wait for these locks, which are taken in this order."""
    data = {"locks": list(names)}
    return Parked(
        LOCK_WAIT.name, (Arm(LOCK_WAIT.name),), data=data, since_ms=now_ms, locks=names, of_function=of_function
    )
