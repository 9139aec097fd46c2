"""Records of shares: the wait that gives back a run's permit, and the wait that asks for another one."""

from __future__ import annotations

from typing import Any

from stepwell.engine.copying import changed
from stepwell.engine.limits.permits import share_of
from stepwell.engine.limits.shares import OF_RUN
from stepwell.engine.limits.throttles import ASKS, FREES
from stepwell.engine.names import Moment
from stepwell.engine.records import Arm, Kind, Parked, Record
from stepwell.engine.token import Token
from stepwell.engine.waits.aside import LIMIT, is_aside

RELEASE = "release"  # of `while_waiting`


def freeing(moment: Moment, token: Token, made: Record) -> Record:
    """Returns the record of a wait as one that gives back the run's permit, where that is asked for.

    A run with a lock keeps its permit: who has a permit may wait for the lock, so nobody with a lock may
    wait for a permit.
    """
    limit, parked = moment.graph.concurrency, made.parked
    if limit is None or limit.while_waiting != RELEASE or made.kind is not Kind.WAITING or parked is None:
        return made
    is_beside = is_aside(made) or bool(parked.locks) or parked.of_tasks
    is_ending = token.undoing is not None or token.cleaning is not None
    if is_beside or is_ending or token.branch is not None or token.locks is not None:
        return made
    return changed(made, rules=(*made.rules, FREES))


def asking_record(moment: Moment, token: Token) -> Record:
    """Returns the record that parks the run until it has a permit again. Raises ExpressionError."""
    share = share_of(moment.graph, moment.run)
    name = share.name if share is not None else moment.graph.name
    data: dict[str, Any] = {"limit": name, "step": token.node, OF_RUN: True}
    parked = Parked(LIMIT, (Arm(LIMIT),), data=data, since_ms=moment.now_ms)
    node = token.node or moment.graph.start
    return Record(token.next_slot, Kind.WAITING, moment.by, moment.ms_after(token), node, parked=parked, rules=(ASKS,))
