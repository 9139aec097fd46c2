"""Reads how long to wait before the next attempt, from the header Retry-After or a step's `retry_after`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, timedelta
from email.utils import parsedate_to_datetime

from stepwell.limits import SECOND_MS, YEAR_MS

ASKS_TO_WAIT = frozenset({429, 503})
_NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?", re.ASCII)


def retry_after_ms(status: int, headers: Mapping[str, str], now_ms: int) -> int:
    """Returns how many ms an answer asks to wait; 0 if its status does not ask, or the header is invalid."""
    return asked_ms(headers, now_ms) if status in ASKS_TO_WAIT else 0


def given_ms(given: float | timedelta | str | None, now_ms: int) -> int:
    """Returns the ms of a step's `retry_after`: seconds, a timedelta, or the text of the header; 0 if invalid."""
    if isinstance(given, str):
        return asked_ms({"retry-after": given}, now_ms)
    seconds = given.total_seconds() if isinstance(given, timedelta) else given
    if not isinstance(seconds, int | float) or not seconds > 0:  # NaN is not
        return 0
    return int(min(seconds, YEAR_MS / SECOND_MS) * SECOND_MS)


def asked_ms(headers: Mapping[str, str], now_ms: int) -> int:
    """Returns how many ms the headers ask to wait; 0 if they do not. `headers`: with lower-case names.

    A date is compared with the answer's own, if it has one: the other's clock may differ from ours.
    """
    given, exact = headers.get("retry-after", "").strip(), headers.get("retry-after-ms", "").strip()
    if _NUMBER.fullmatch(exact):
        return min(int(float(exact)), YEAR_MS)
    if _NUMBER.fullmatch(given):
        return int(min(float(given), YEAR_MS / SECOND_MS) * SECOND_MS)
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
