"""Kinship: a run below one with the same limit needs no permit of its own while that one has it, and waits for it."""

from __future__ import annotations

from stepwell.engine import permits, shares
from stepwell.engine.actions import Share
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import run_info
from stepwell.runtime.ports import Ports
from stepwell.runtime.ports.headers import Header
from stepwell.runtime.starts.starting import Caller
from stepwell.runtime.waits.claimants import may_release


class Kinship:
    """Looks at the runs above a run."""

    def __init__(self, ports: Ports, logbook: Logbook) -> None:
        self._ports, self._logbook = ports, logbook

    async def is_under_holder(self, header: Header, share: Share) -> bool:
        """Whether a run above this one is under the same limit: it waits for this run, so it would wait for ever."""
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
        """Whether the run has a permit of this limit. By its log, where it may have given it back."""
        graph = await self._logbook.graph_of(above)
        other = permits.share_of(graph, run_info(above))
        if other is None or other.name != share.name:
            return False
        if not may_release(graph):
            return True
        at = await self._logbook.load(above.run_id)
        return at is not None and shares.holds(at.token)
