"""The sweeper handler: wakes stuck runs every few minutes. In a healthy system it finds none."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

from stepwell.aws.entry import Context, TimeLeft, open_door
from stepwell.aws.packed import package_root
from stepwell.limits import MINUTE_MS
from stepwell.runtime.loop.driving import run_now

STILL_MS = 5 * MINUTE_MS
A_PAGE_MS = MINUTE_MS // 2  # the most time for one page of runs
METRICS = {"overdue": "Overdue", "no_progress": "NoProgress", "unreadable": "Unreadable"}
log = logging.getLogger("stepwell.sweeper")

door = open_door(package_root())


@door.observing.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, int]:
    """Emits the counts, zeros included, because an alarm needs data."""
    found = run_now(door.parts.sweeper.sweep(STILL_MS, TimeLeft(context, reserve_ms=A_PAGE_MS).left_ms))
    for one in found:
        log.warning("the run stood still: %s", one.why, extra={"run_id": one.run_id, "why": one.why})
    counts = Counter(one.why for one in found)
    for why, name in METRICS.items():
        door.observing.count(name, counts[why])
    return {name: counts[why] for why, name in METRICS.items()}
