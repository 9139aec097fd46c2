"""Spending: what a run has cost so far. Its worker asks before each step of a workflow with `max_cost`.

The ledger reads the run's records. A worker that goes on with the same run reads them again once the known cost, with
the records since at twice that rate, reaches the limit; and at once after a fork or a long step.
"""

from __future__ import annotations

from dataclasses import asdict

from stepwell.engine.records import Kind
from stepwell.limits import LEDGERS_KEPT, SECOND_MS
from stepwell.prices import usd_here
from stepwell.runtime.calls.ledger import Ledger, Logs
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.log.lately import Lately
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.ports import Clock, Log

_LONG_MS = SECOND_MS  # a step that takes this long costs more than its record
_KEPT_MS = 900_000


class Spending:
    """Computes costs, and writes nothing."""

    def __init__(self, logbook: Logbook, log: Log, clock: Clock, catalog: Catalog) -> None:
        self._logbook, self._log, self._clock, self._catalog = logbook, log, clock, catalog
        self._known: Lately[str, tuple[int, float]] = Lately(LEDGERS_KEPT, LEDGERS_KEPT, _KEPT_MS)

    async def usd(self, at: Standing, cap_usd: float) -> float:
        """Returns what the run has cost in USD; for a run far from its limit, the last known cost."""
        now_ms = self._clock.now_ms()
        known = self._known.get(at.run_id, now_ms)
        if known is not None and not _is_heavy(at):
            slot, usd = known
            since = at.token.slot - slot
            if since >= 0 and usd * (1 + 2 * since / (slot + 2)) < cap_usd:
                return usd
        cost = await Ledger(Logs(self._logbook, self._log)).cost(at)
        usd = usd_here(asdict(cost), self._catalog.prices)
        self._known.keep(at.run_id, (at.token.slot, usd), 1, now_ms)
        return usd


def _is_heavy(at: Standing) -> bool:
    last = at.token.last
    if last is None or last.kind is Kind.JOINED:
        return last is not None
    return last.started_ms > 0 and last.at_ms - last.started_ms >= _LONG_MS
