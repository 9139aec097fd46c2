"""The sweeper handler: every few minutes it wakes stuck runs, and publishes lost messages again.

In a healthy system it finds neither.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

from stepwell.aws.batches import Delivery
from stepwell.aws.dead_letters import open_dead_letters
from stepwell.aws.entry import Context, TimeLeft, open_entry
from stepwell.aws.packed import package_root
from stepwell.limits import MINUTE_MS
from stepwell.runtime.dispatch import republish
from stepwell.runtime.loop.driving import run_now

STILL_MS = 5 * MINUTE_MS
A_PAGE_MS = MINUTE_MS // 2  # the most time for one page of runs
METRICS = {
    "overdue": "Overdue",
    "no_progress": "NoProgress",
    "nothing_wakes": "NothingWakes",
    "unreadable": "Unreadable",
}
log = logging.getLogger("stepwell.sweeper")

entry = open_entry(package_root())
dead_letters = open_dead_letters(entry.aws)


@entry.observing.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, int]:
    """Emits the counts, zeros included, because an alarm needs data."""
    found = run_now(entry.parts.sweeper.sweep(STILL_MS, TimeLeft(context, reserve_ms=A_PAGE_MS).left_ms))
    for one in found:
        log.warning("the run stood still: %s", one.why, extra={"run_id": one.run_id, "why": one.why})
    counts = Counter(one.why for one in found)
    told = {name: counts[why] for why, name in METRICS.items()}
    told["Republished"] = dead_letters.each(_republish, TimeLeft(context).left_ms)
    for name, count in told.items():
        entry.observing.count(name, count)
    return told


def _republish(delivery: Delivery) -> bool:
    is_sent = run_now(republish(entry.parts, delivery.message()))
    if is_sent:
        log.warning("message %s of the dead-letter queue is published again", delivery.id)
    return is_sent
