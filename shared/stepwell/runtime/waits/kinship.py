"""Kinship: a run under an ancestor with a permit of the same limit needs none: the ancestor waits for it."""

from __future__ import annotations

from stepwell.engine.actions import Share
from stepwell.engine.limits import permits, shares
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import run_info
from stepwell.runtime.ports import Ports
from stepwell.runtime.ports.headers import Header
from stepwell.runtime.starts.starting import Caller
from stepwell.runtime.waits.claimants import may_release


class Kinship:
    """Reads the runs above a run."""

    def __init__(self, ports: Ports, logbook: Logbook) -> None:
        self._ports, self._logbook = ports, logbook

    async def is_under_holder(self, header: Header, share: Share) -> bool:
        """Tells whether a run above this one holds a permit of the same limit.

        It waits for this run, so this run would wait for ever for a permit of its own.
        """
        caller = Caller.of(header)
        while caller is not None and caller.index >= 0:
            above = await self._ports.runs.get_run(caller.run_id)
            if above is None:
                return False
            if above.workflow == header.workflow and await self._holds(above, share):
                return True
            caller = Caller.of(above)
        return False

    async def _holds(self, above: Header, share: Share) -> bool:
        """Tells whether the run holds a permit of this limit: by its log, if it may have given it back."""
        graph = await self._logbook.graph_of(above)
        other = permits.share_of(graph, run_info(above))
        if other is None or other.name != share.name:
            return False
        if not may_release(graph):
            return True
        at = await self._logbook.load(above.run_id)
        return at is not None and shares.holds(at.token)
