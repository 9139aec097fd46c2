"""Parses durations (`30s`, `5m`, `24h`, `7d`, `PT5M`, or seconds as a number) to milliseconds; formats them."""

from __future__ import annotations

import math
import re
from datetime import datetime

from stepwell.definition.patterns import lazy
from stepwell.errors import Problem, UserError
from stepwell.limits import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, YEAR_MS

HINT = "write 30s, 5m, 24h, 7d, an ISO 8601 duration such as PT5M, or a number of seconds"
_UNTIL = "until then: let a template give a time such as 2030-01-31T12:00:00Z, or a function ctx.sleep(a datetime)"
LONGEST_MS = 100 * YEAR_MS  # a longer deadline is a typing mistake, and exceeds the calendar

_SECONDS_FROM_MS = 5 * MINUTE_MS  # a number alone from here on is surely meant as seconds
_UNITS_MS = {"ms": 1, "s": SECOND_MS, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS, "w": 7 * DAY_MS}
_PAIRS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))  # of seconds: a unit, the next one
_SHORT = lazy(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)", re.ASCII)
_DATE = lazy(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = lazy(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)", re.ASCII)
_NUMBER = lazy(r"\d+(?:\.\d+)?", re.ASCII)
_ISO = lazy(
    r"P(?!$)(?:(?P<w>\d+(?:\.\d+)?)W)?(?:(?P<d>\d+(?:\.\d+)?)D)?"
    r"(?:T(?!$)(?:(?P<h>\d+(?:\.\d+)?)H)?(?:(?P<m>\d+(?:\.\d+)?)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?",
    re.ASCII,
)


def parse_duration(value: object) -> int:
    """Parses a duration to milliseconds. Raises UserError `bad_duration` unless it is finite and not negative."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise _bad(f"a duration cannot be {_kind(value)}")
    if isinstance(value, int) and abs(value) > LONGEST_MS:  # before any arithmetic: an int has no largest value
        raise _bad("the duration is negative" if value < 0 else "the duration is longer than 100 years")
    milliseconds = _text_ms(value) if isinstance(value, str) else value * SECOND_MS
    if not math.isfinite(milliseconds):
        raise _bad(f"the duration {_shown(value)} is not finite")
    if milliseconds < 0:
        raise _bad(f"the duration {_shown(value)} is negative")
    if milliseconds > LONGEST_MS:
        raise _bad(f"the duration {_shown(value)} is longer than 100 years")
    return round(milliseconds)


def parse_wait(value: object, now_ms: int) -> int:
    """Parses a duration, or a time such as 2030-01-31T12:00:00Z: to the milliseconds until then, 0 if it has passed."""
    until_ms = _time_ms(value)
    return parse_duration(value) if until_ms is None else max(until_ms - now_ms, 0)


def show_duration(milliseconds: int) -> str:
    """Returns the shortest spelling: 86400000 is `1d`, 90000 is `90s`."""
    for unit in ("d", "h", "m", "s"):
        if milliseconds and milliseconds % _UNITS_MS[unit] == 0:
            return f"{milliseconds // _UNITS_MS[unit]}{unit}"
    return f"{milliseconds}ms"


def long_step(limit_ms: int) -> tuple[str, str]:
    """Returns the message and the hint about a step's time limit of more than a year."""
    return f"`timeout` of {show_duration(limit_ms)} is over the maximum of a step", f"at most {show_duration(YEAR_MS)}"


def without_unit(value: object, path: str = "") -> Problem | None:
    """Returns a warning about a short time limit of a wait that is written as a number alone.

    Hours or days are meant, most often. None for a longer one, which is seconds, and for one with a unit.
    """
    text = f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value).strip()
    if not _NUMBER.fullmatch(text) or not 0 < float(text) * SECOND_MS < _SECONDS_FROM_MS:
        return None
    seconds = "1 second" if float(text) == 1 else f"{text} seconds"
    message, hint = f"a `timeout` of {text} is {seconds}", f"write {text}h or {text}d, or {text}s if you mean it"
    return Problem("without_unit", message, path, hint, severity="warning")


def span(seconds: float) -> str:
    """Formats a duration, with two units if the first is small: 85 ms, 1.2 s, 42 s, 3 min 5 s, 23 h, 6 d 4 h."""
    if seconds < 1:
        return f"{max(round(seconds * 1000), 0)} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    for unit, name, smaller, smaller_name in _PAIRS:
        if seconds >= unit:
            whole, rest = divmod(int(seconds), unit)
            parts = rest // smaller
            return f"{whole} {name} {parts} {smaller_name}" if whole < 10 and parts else f"{whole} {name}"
    return f"{int(seconds)} s"


def _time_ms(value: object) -> int | None:
    """Returns milliseconds since 1970; None: no time, or one without a zone."""
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        return None
    try:
        return round(datetime.fromisoformat(value).timestamp() * SECOND_MS)
    except ValueError:  # a month 13
        return None


def _text_ms(text: str) -> float:
    trimmed = text.strip()
    if len(trimmed) > 100:
        raise _bad(f"{_shown(text)} is not a duration")
    if _NUMBER.fullmatch(trimmed):
        return float(trimmed) * SECOND_MS
    if match := _SHORT.fullmatch(trimmed):
        return float(match[1]) * _UNITS_MS[match[2]]
    if match := _ISO.fullmatch(trimmed):
        return sum(float(amount) * _UNITS_MS[unit] for unit, amount in match.groupdict().items() if amount)
    if trimmed.startswith("P") and re.search(r"\d[YM]", trimmed.split("T")[0]):
        raise _bad(f"{_shown(text)} has years or months, which have no fixed length")
    if trimmed.startswith("-"):
        raise _bad(f"the duration {_shown(text)} is negative")
    if _DATE.match(trimmed):
        raise UserError(f"{_shown(text)} is a date, not a duration", code="bad_duration", hint=_UNTIL)
    raise _bad(f"{_shown(text)} is not a duration")


def _bad(message: str) -> UserError:
    return UserError(message, code="bad_duration", hint=HINT)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _kind(value: object) -> str:
    if value is None:
        return "empty"
    names = {bool: "true or false", list: "a list", dict: "a mapping"}
    return names.get(type(value), f"a {type(value).__name__}")
