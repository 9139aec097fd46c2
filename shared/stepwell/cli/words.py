"""Times, durations and values in the words of people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def parse_time(text: object) -> datetime | None:
    """A time of the API; None for what is no time."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def clock(moment: datetime, now: datetime) -> str:
    """In the reader's time zone: the hour if that tells which day it is, else the day too."""
    local = moment.astimezone()
    if abs(moment - now) < timedelta(minutes=1):
        return f"{local:%H:%M:%S}"
    if abs(moment - now) < timedelta(days=1):
        return f"{local:%H:%M}"
    return f"{local:%Y-%m-%d %H:%M}"


def span(seconds: float) -> str:
    """85 ms, 1.2 s, 42 s, 3 min 5 s, 23 h, 6 d 4 h: two units where the first is small."""
    if seconds < 1:
        return f"{max(round(seconds * 1000), 0)} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    for unit, name, smaller, smaller_name in (
        (_DAY, "d", _HOUR, "h"),
        (_HOUR, "h", _MINUTE, "min"),
        (_MINUTE, "min", 1, "s"),
    ):
        if seconds >= unit:
            whole, rest = divmod(int(seconds), unit)
            parts = rest // smaller
            return f"{whole} {name} {parts} {smaller_name}" if whole < 10 and parts else f"{whole} {name}"
    return f"{int(seconds)} s"


def until(moment: datetime, now: datetime) -> str:
    """until 14:02 (in 23 h); for a time that has passed: due since 14:02 (5 min ago)."""
    away = (moment - now).total_seconds()
    if away < 0:
        return f"due since {clock(moment, now)} ({span(-away)} ago)"
    return f"until {clock(moment, now)} (in {_coarse(away)})"


def ago(moment: datetime, now: datetime) -> str:
    """3 min ago; for a time to come: in 3 min."""
    away = (now - moment).total_seconds()
    if abs(away) < 1:
        return "now"
    if away < 0:
        return f"in {_coarse(-away)}"
    return f"{' '.join(_coarse(away).split()[:2])} ago"


def between(start: object, end: object, now: datetime) -> str:
    """How long something took, or has been taking; empty when it has not begun."""
    begun = parse_time(start)
    return span(((parse_time(end) or now) - begun).total_seconds()) if begun else ""


def phrase(code: object) -> str:
    """waiting_for_approval: waiting for approval."""
    return printable(str(code or "")).replace("_", " ")


BRIEF_CHARACTERS = 500  # of a value on one line


def error_words(error: Mapping[str, Any]) -> str:
    """CardDeclined: no funds (step charge, 3 tries)"""
    where = [f"step {error['step']}"] if error.get("step") else []
    tries = [f"{error['attempts']} tries"] if (error.get("attempts") or 0) > 1 else []
    told = f"{error.get('type') or 'error'}: {error.get('message') or ''}".rstrip(": ")
    return printable(f"{told} ({', '.join(where + tries)})" if where or tries else told)


def brief(value: Any) -> str:
    """JSON on one line, cut where it is long; nothing for what is empty. `--json` has all of it."""
    if value in (None, "", [], {}):
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    left_out = len(text) - BRIEF_CHARACTERS
    shown = f"{text[:BRIEF_CHARACTERS]}… ({left_out:,} characters more)" if left_out > 0 else text
    return printable(shown).replace("\n", " ")


def printable(text: str) -> str:
    """Without what a terminal would obey: data from a run must not move the cursor or change colours."""
    return "".join(
        character if character.isprintable() or character == "\n" else f"\\x{ord(character):02x}" for character in text
    )


def _coarse(seconds: float) -> str:
    """Nobody counts milliseconds of what is to come, or was."""
    return f"{int(seconds)} s" if seconds < 10 else span(seconds)
