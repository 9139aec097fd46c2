"""Spending: what a run has cost so far. Its worker asks before each step of a workflow with `max_cost`.

The ledger reads the run's records. A worker that goes on with the same run reads them again once the known cost, with
the records since at twice that rate, reaches the limit; and at once after a fork or a long step. In an open fork it
counts the branches' steps that it has begun since, instead of records. It reads again after OPEN_COST_KEPT_MS too,
because other workers run branches of the same fork.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from stepwell.engine.limits.spending import cap_of_branches
from stepwell.engine.names import Spent
from stepwell.engine.records import Kind
from stepwell.limits import LEDGERS_KEPT, OPEN_COST_KEPT_MS, SECOND_MS
from stepwell.prices import usd_here
from stepwell.runtime.calls.ledger import Ledger
from stepwell.runtime.calls.logs import Logs
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.log.lately import Lately
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.ports import Clock, Log

_LONG_MS = SECOND_MS  # a step that takes this long costs more than its record
_KEPT_MS = 900_000


@dataclass(slots=True)
class _Look:
    """The cost of a run with an open fork, as last computed. `begun`: the steps that this worker has begun since."""

    spent: Spent
    steps: int
    root_slot: int
    begun: int = 0


class Spending:
    """Computes costs, and writes nothing."""

    def __init__(self, logbook: Logbook, log: Log, clock: Clock, catalog: Catalog) -> None:
        self._logbook, self._log, self._clock, self._catalog = logbook, log, clock, catalog
        self._known: Lately[str, tuple[int, float]] = Lately(LEDGERS_KEPT, LEDGERS_KEPT, _KEPT_MS)
        self._looks: Lately[str, _Look] = Lately(LEDGERS_KEPT, LEDGERS_KEPT, OPEN_COST_KEPT_MS)

    async def spent(self, at: Standing, cap_usd: float) -> Spent:
        """Returns what the token's run has cost; for a run far from its limit, the last known cost."""
        if at.token.branch is not None:
            return await self._with_open_fork(at)
        now_ms = self._clock.now_ms()
        known = self._known.get(at.run_id, now_ms)
        if known is not None and not _is_heavy(at):
            slot, usd = known
            since = at.token.slot - slot
            if since >= 0 and usd * (1 + 2 * since / (slot + 2)) < cap_usd:
                return Spent(usd)
        usd, _ = await self._look(at)
        self._known.keep(at.run_id, (at.token.slot, usd), 1, now_ms)
        return Spent(usd)

    async def _with_open_fork(self, at: Standing) -> Spent:
        now_ms = self._clock.now_ms()
        look = self._looks.get(at.run_id, now_ms)
        if look is not None and _counts_still(look, at):
            look.begun += 1
            return look.spent
        root = await self._logbook.load(at.run_id)
        if root is None or root.run.is_paused:
            return Spent(0.0, is_paused=root is not None)
        usd, steps = await self._look(root)
        spent = Spent(usd, root.token.cost_cap, paused_by=root.header.paused_by)
        self._looks.keep(at.run_id, _Look(spent, steps, _forked_in(at)), 1, now_ms)
        return spent

    async def _look(self, root: Standing) -> tuple[float, int]:
        """Returns what the run has cost in USD, and the number of its attempts."""
        cost = await Ledger(Logs(self._logbook, self._log, root)).cost(root)
        return usd_here(asdict(cost), self._catalog.prices), cost.steps


def _counts_still(look: _Look, at: Standing) -> bool:
    """Tells whether the run is below its limit even if each step since has cost twice the mean.

    A limit that an unpause lifted during one fork may hold again in the next.
    """
    cap_usd = cap_of_branches(at.graph, look.spent)
    if cap_usd is None:
        return look.root_slot == _forked_in(at)
    return look.spent.usd * (1 + 2 * look.begun / (look.steps + 1)) < cap_usd


def _forked_in(at: Standing) -> int:
    """Returns the root's slot whose fork the branch is in."""
    return int(at.token.id.split("/")[1].split(".")[0])


def _is_heavy(at: Standing) -> bool:
    last = at.token.last
    if last is None or last.kind is Kind.JOINED:
        return last is not None
    return last.started_ms > 0 and last.at_ms - last.started_ms >= _LONG_MS
