"""The header Retry-After: how long whoever answered wants to be left alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

from stepwell.limits import SECOND_MS, YEAR_MS

ASKS_TO_WAIT = frozenset({429, 503})
_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)


def retry_after_ms(status: int, headers: Mapping[str, str], now_ms: int) -> int:
    """0 where it does not say, or not in a way that can be read. `headers`: their names in small letters.

    A date is compared with the answer's own, where it has one: the other's clock may be another than ours.
    """
    given = headers.get("retry-after", "").strip()
    if status not in ASKS_TO_WAIT or not given:
        return 0
    if _SECONDS.fullmatch(given):
        return min(int(given) * SECOND_MS, YEAR_MS)
    until_ms, answered_ms = _date_ms(given), _date_ms(headers.get("date", ""))
    if until_ms is None:
        return 0
    return min(max(until_ms - (now_ms if answered_ms is None else answered_ms), 0), YEAR_MS)


def _date_ms(text: str) -> int | None:
    try:
        found = parsedate_to_datetime(text)
        return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * SECOND_MS)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
