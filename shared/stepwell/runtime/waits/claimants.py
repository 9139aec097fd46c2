"""Claimants: the entries in the lines of limits. A run for its first permit, a slot of a token's log for others.

A claim is valid as long as the log that it names wants the permit; once it does not, it never does again. So a claim
that a late worker leaves behind harms nobody: whoever finds it reads that log, and removes the claim.
"""

from __future__ import annotations

from dataclasses import replace

from stepwell.definition.graph import Graph
from stepwell.engine.limits import permits, shares, throttles
from stepwell.engine.limits.share_records import RELEASE
from stepwell.engine.token import Permit
from stepwell.limits import REMIND_MS
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.messages import to_json
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.ports import Lane, Ports
from stepwell.runtime.waits.lines import Members

_BETWEEN = "|"  # separates a claim's run, token and slot


class Runs:
    """Runs that stand in lines for the permit that they begin with, by their ids."""

    def __init__(self, ports: Ports, logbook: Logbook) -> None:
        self._ports, self._logbook = ports, logbook

    async def lives(self, who: str) -> bool:
        header = await self._ports.runs.get_run(who)
        if header is None or header.status.terminal:
            return False
        return not may_release(await self._logbook.graph_of(header)) or not await self.has_ended(who)

    async def has_ended(self, who: str) -> bool:
        """Tells whether the run gave its permit back: at its end, before the header shows that, or for a wait."""
        at = await self._logbook.load(who)
        return at is None or not shares.holds_first(at.token)

    async def tell(self, who: str) -> bool:
        return await self._tell(who)

    async def remind(self, who: str) -> bool:
        return await self._tell(who, self._ports.clock.now_ms() + REMIND_MS)

    async def _tell(self, who: str, at_ms: int = 0) -> bool:
        granted = await self._logbook.load(who)
        if granted is None or not shares.holds_first(granted.token):  # it gave the permit back before it was granted
            return False
        if permits.begins(granted.run, granted.token):  # else it found its permit by itself, or is just about to
            wake = replace(granted.wake(), yields=not granted.header.started_ms)
            await self._ports.queue.send(Lane.WORK, to_json(wake), at_ms)
        return True


class Claims:
    """Tokens that stand in lines: the slot of a token's log whose wait asked for the permit."""

    def __init__(self, ports: Ports, logbook: Logbook) -> None:
        self._ports, self._logbook = ports, logbook

    async def lives(self, who: str) -> bool:
        return await self._wanting(who) is not None

    async def has_ended(self, who: str) -> bool:
        return not await self.lives(who)

    async def tell(self, who: str) -> bool:
        return await self._tell(who)

    async def remind(self, who: str) -> bool:
        return await self._tell(who, self._ports.clock.now_ms() + REMIND_MS)

    async def _tell(self, who: str, at_ms: int = 0) -> bool:
        at = await self._wanting(who)
        if at is not None and throttles.waits(at.token):
            await self._ports.queue.send(Lane.WORK, to_json(at.wake()), at_ms)
        return at is not None

    async def _wanting(self, who: str) -> Standing | None:
        """Returns the token if it still wants the permit, else None. In a paused run it does until its turn comes."""
        run_id, token, slot = parts_of(who)
        at = await self._logbook.load(run_id, token)
        return at if at is not None and throttles.wants(at.token, slot) else None


class Claimants:
    """Runs and tokens, in any line."""

    def __init__(self, ports: Ports, logbook: Logbook) -> None:
        self._runs, self._claims = Runs(ports, logbook), Claims(ports, logbook)

    async def lives(self, who: str) -> bool:
        return await self._of(who).lives(who)

    async def has_ended(self, who: str) -> bool:
        return await self._of(who).has_ended(who)

    async def tell(self, who: str) -> bool:
        return await self._of(who).tell(who)

    async def remind(self, who: str) -> bool:
        return await self._of(who).remind(who)

    def _of(self, who: str) -> Members:
        return self._claims if _BETWEEN in who else self._runs


def may_release(graph: Graph) -> bool:
    """Tells whether the graph's runs give back their permits while they wait."""
    return graph.concurrency is not None and graph.concurrency.while_waiting == RELEASE


def claim_of(run_id: str, token_id: str, permit: Permit) -> str:
    """Returns the claimant of the permit. For a run's first permit that is the run's id."""
    return run_id if permit.slot < 0 else _BETWEEN.join((run_id, token_id, str(permit.slot)))


def parts_of(claim: str) -> tuple[str, str, int]:
    """Returns the run, the token and the slot of a claim."""
    run_id, token, slot = claim.split(_BETWEEN)
    return run_id, token, int(slot)


def run_of(who: str) -> str:
    """Returns the run of a claimant."""
    return who.partition(_BETWEEN)[0]
