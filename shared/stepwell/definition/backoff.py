"""Backoff: the delays between the tries of a retrier. Standard library only."""

from __future__ import annotations

import math

from stepwell.definition.graph import Retrier
from stepwell.limits import YEAR_MS

_MOST_DOUBLINGS = 40  # any maximum is reached long before


def growing_ms(retrier: Retrier, count: int, jitter: float) -> int:
    """Returns the delay before the retry with this number, from 1. `jitter`: in [0, 1), what `full` multiplies by."""
    most_ms = YEAR_MS if retrier.max_delay_ms is None else retrier.max_delay_ms
    doublings = (count - 1) * math.log2(max(retrier.rate, 1.0))
    delay_ms = most_ms if doublings > _MOST_DOUBLINGS else int(retrier.initial_delay_ms * retrier.rate ** (count - 1))
    delay_ms = min(delay_ms, most_ms)
    return int(delay_ms * jitter) if retrier.jitter == "full" else delay_ms
