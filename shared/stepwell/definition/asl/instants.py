"""Reads timestamps as Amazon States Language writes them: RFC 3339 with `T` and `Z` in upper case."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

_WRITTEN = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:)(\d\d)(?:\.(\d{1,64}))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017 - `datetime.UTC` is this too


def instant(text: object) -> tuple[int, str] | None:
    """Returns seconds since 1970 and the digits after the point, which compare as times do; None: no timestamp."""
    found = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    minute, second, fraction, sign, hours, minutes = found.groups()
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    if int(second) > 60 or offset >= timedelta(days=1) or int(minutes or 0) > 59:
        return None
    try:
        local = datetime.fromisoformat(f"{minute}00Z")
    except ValueError:  # a month 13
        return None
    since = local - _EPOCH + timedelta(seconds=int(second))  # 60: RFC 3339 writes a leap second so
    seconds = since + offset if sign == "-" else since - offset
    return seconds.days * 86_400 + seconds.seconds, (fraction or "").rstrip("0")


def milliseconds(text: object) -> int | None:
    """Returns milliseconds since 1970, without what is finer; None: no timestamp."""
    found = instant(text)
    return None if found is None else found[0] * 1000 + int((found[1] + "000")[:3])
