"""Computes when a run is due: the sweeper looks at it then, and not before."""

from __future__ import annotations

from stepwell.engine.decide import due_ms
from stepwell.engine.durable.tasks import await_runs, due_first_ms
from stepwell.engine.effect_kinds import ShowStatus
from stepwell.engine.limits import throttles
from stepwell.engine.records import Parked, Status
from stepwell.engine.writing import deadline_ms
from stepwell.limits import CHECK_RUNS_MS, MINUTE_MS
from stepwell.runtime.log.standing import Standing

_UNDER_WAY = frozenset({Status.PENDING, Status.RUNNING, Status.COMPENSATING})
_PART_OF_WAIT = 4


def whole_minute(at_ms: int) -> int:
    """Returns the start of the minute. A run that becomes due again within it keeps its index entry."""
    return at_ms - at_ms % MINUTE_MS


def earliest(*times_ms: int | None) -> int | None:
    """Returns the earliest of these times; None if all are None."""
    return min((at_ms for at_ms in times_ms if at_ms is not None), default=None)


def waits_until_ms(at: Standing, parked: Parked) -> int | None:
    """Returns when a wait of this run, or of its branch, ends at the latest: at its own time limit, or the run's."""
    return earliest(parked.until_ms, deadline_ms(at.graph, at.run, at.token))


def due_when_shown(at: Standing, shown: ShowStatus) -> int | None:
    """Returns when the header says that the run is due; None for an ended run.

    A run under way is due at once: the sweeper computes by when it should have moved. One that waits for a permit is
    due at once, too: mostly it waits for a moment, and its entry in the index stays.
    """
    if shown.status.terminal:
        return None
    is_under_way = shown.status in _UNDER_WAY or throttles.waits(at.token)
    own_ms = shown.at_ms if is_under_way else due_of_wait(at, shown.at_ms)
    due = earliest(own_ms, deadline_ms(at.graph, at.run, at.token))
    return None if due is None else whole_minute(due)


def due_of_wait(at: Standing, now_ms: int) -> int | None:
    """Returns when a parked token is due: at its timer, or when the runs that it waits for are to be checked.

    Whoever cancels a child run, or the owner of a lock or a permit, may die before it tells those who wait, and a limit
    may be removed. Such a wait is checked each time that it has lasted a quarter longer: about 20 times in a day. None:
    the token is not parked, or nothing is due.
    """
    parked = at.token.parked
    if parked is None:
        return None
    depends = parked.children or parked.locks or throttles.waits(at.token) or await_runs(at.token)
    check_ms = now_ms + max((now_ms - parked.since_ms) // _PART_OF_WAIT, CHECK_RUNS_MS) if depends else None
    return earliest(due_ms(at.token), check_ms, due_first_ms(at.token))
