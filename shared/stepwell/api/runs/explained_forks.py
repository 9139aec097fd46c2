"""Explains the tokens beside others that stand at forks of their own."""

from __future__ import annotations

from stepwell.api.runs.explained_waits import Waker, Why
from stepwell.api.runs.states import fork_at
from stepwell.engine.forks.branches import fork_id
from stepwell.engine.forks.marks import is_waiting
from stepwell.engine.names import node_of
from stepwell.runtime.log.standing import Standing


def at_forks(at: Standing) -> list[Why]:
    """Explains the tokens beside others that stand at a fork of their own, and wait for its branches."""
    found: list[Why] = []
    for one in at.branches:
        fork = fork_at(one)
        if fork is None or is_waiting(one):
            continue
        name = at.graph.seen_as(node_of(at.graph, one))
        listed = f"GET /runs/{at.run_id}/branches?fork={fork_id(one.id, one.slot)} lists the branches of {name}"
        waker = Waker(what="branch", at=None, detail=listed)
        found.append(Why(f"It waits for the {fork.width} branches of {name}.", (waker,), one.last_ms))
    return found
