"""The forks of a token whose branches may be running: where it stands, and those that let branches go on after it."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.engine.forks.branches import abandoned_forks, live_forks, may_abandon
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing


async def running_forks(logbook: Logbook, at: Standing) -> Sequence[int]:
    """Returns their slots. Reads the token's log only if it has passed a join that abandons branches."""
    live = live_forks(at.token)
    if not may_abandon(at.graph, at.token):
        return live
    records = await logbook.lanes.token(at.run_id, at.token.id, -1, None)
    return sorted({*live, *abandoned_forks(at.graph, records)})
