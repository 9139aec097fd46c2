"""Computes when a schedule fires: cron and rate expressions in a time zone, as EventBridge Scheduler documents them.

    a local time that does not exist (the clock goes forward)      does not fire
    a local time that occurs twice (the clock goes back)           fires once, the first time
    rate(…)                                                        whole periods of elapsed time, whatever the clock

cronsim walks the calendar in local time without a zone; this module applies the zone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import TypeAlias
from zoneinfo import ZoneInfo, available_timezones

from stepwell.definition.patterns import lazy
from stepwell.definition.text import counted, did_you_mean
from stepwell.errors import InvalidInput
from stepwell.limits import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, YEAR_MS
from stepwell.values import dataclass

HINT = "write cron(0 9 * * ? *), rate(5 minutes), or the five fields of a crontab: 0 9 * * *"
UNITS_MS = {"minute": MINUTE_MS, "hour": HOUR_MS, "day": DAY_MS}
LONGEST_MS = 10 * YEAR_MS  # between two firings of a rate
LONGEST_TEXT = 256  # the limit of EventBridge Scheduler
_LONGEST_SHIFT = timedelta(hours=3)  # of a zone's clock at once; no zone has moved by more than two hours
_NEAR = 0.8  # how alike a zone and its misspelling are
_RATE = lazy(r"rate\(\s*(\d{1,7})\s+(minute|hour|day)s?\s*\)", re.ASCII)
_CRON = lazy(r"cron\((.*)\)", re.ASCII)
_ITEM = lazy(r"(\*|[0-9A-Z]+)(?:-([0-9A-Z]+))?(?:/([0-9]+))?", re.ASCII)
_NTH = lazy(r"([0-9A-Z]+)#([1-5])", re.ASCII)
_LAST = lazy(r"([0-9]|SUN|MON|TUE|WED|THU|FRI|SAT)L", re.ASCII)
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_MONTHS = {name: at for at, name in enumerate(_MONTH_NAMES, 1)}


@dataclass(frozen=True, slots=True)
class Rate:
    """A schedule that fires after each period since `since_ms`, which the caller gives."""

    aws: str  # the expression for EventBridge Scheduler
    period_ms: int

    def after(self, time_ms: int, since_ms: int) -> int:
        """The first firing later than this time."""
        return since_ms + max((time_ms - since_ms) // self.period_ms + 1, 1) * self.period_ms

    def until(self, time_ms: int, since_ms: int) -> int | None:
        """The last firing at this time or before; None where there was none."""
        return next(self.back(time_ms, since_ms), None)

    def back(self, time_ms: int, since_ms: int) -> Iterator[int]:
        """Yields the firings at this time and before, the last first."""
        periods = (time_ms - since_ms) // self.period_ms
        return iter(range(since_ms + periods * self.period_ms, since_ms, -self.period_ms))


@dataclass(frozen=True, slots=True)
class Cron:
    """A schedule that fires at local times of a zone. It ignores `since_ms`."""

    aws: str
    line: str  # minute, hour, day of month, month and day of week, for cronsim
    years: frozenset[int] | None  # None: all
    zone: ZoneInfo

    def after(self, time_ms: int, since_ms: int = 0) -> int | None:
        """Returns the first firing after this time, or None."""
        for local in self._forward(self._local(time_ms)):
            at_ms = self._instant_ms(local)
            if at_ms is not None and at_ms > time_ms:
                return at_ms
        return None

    def until(self, time_ms: int, since_ms: int = 0) -> int | None:
        """The last firing at this time or before; None where there was none."""
        return next(self.back(time_ms, since_ms), None)

    def back(self, time_ms: int, since_ms: int = 0) -> Iterator[int]:
        """Yields the firings at this time and before, the last first."""
        for local in self._backward(self._local(time_ms) + _LONGEST_SHIFT):
            at_ms = self._instant_ms(local)
            if at_ms is not None and at_ms <= time_ms:
                yield at_ms

    def _local(self, time_ms: int) -> datetime:
        """Returns the local time of the zone."""
        return datetime.fromtimestamp(time_ms // SECOND_MS, self.zone).replace(tzinfo=None, fold=0)

    def _instant_ms(self, local: datetime) -> int | None:
        """Returns when the zone's clocks first show this time, or None if they never do."""
        moment = local.replace(tzinfo=self.zone, fold=0).astimezone(UTC)
        shown = moment.astimezone(self.zone).replace(tzinfo=None, fold=0)
        return int(moment.timestamp()) * SECOND_MS if shown == local else None

    def _forward(self, start: datetime) -> Iterator[datetime]:
        from cronsim import CronSim  # noqa: PLC0415 - only needed with a schedule

        while True:
            for local in CronSim(self.line, start):
                if self.years is None or local.year in self.years:
                    yield local
                    continue
                later = [year for year in self.years if year > local.year]
                if not later:
                    return
                start = datetime(min(later), 1, 1) - timedelta(seconds=1)
                break
            else:
                return

    def _backward(self, start: datetime) -> Iterator[datetime]:
        from cronsim import CronSim  # noqa: PLC0415 - see above

        while True:
            for local in CronSim(self.line, start, reverse=True):
                if self.years is None or local.year in self.years:
                    yield local
                    continue
                earlier = [year for year in self.years if year < local.year]
                if not earlier:
                    return
                start = datetime(max(earlier) + 1, 1, 1)
                break
            else:
                return


Timetable: TypeAlias = Rate | Cron


@lru_cache(maxsize=1_000)
def parse_schedule(text: str, timezone: str = "UTC") -> Timetable:
    """Parses a schedule. Raises InvalidInput: `bad_schedule`, `unsupported_schedule`, `bad_timezone`."""
    zone, trimmed = _zone(timezone), text.strip()
    if len(trimmed) > LONGEST_TEXT:
        raise _bad(f"a schedule has at most {LONGEST_TEXT} characters")
    if match := _RATE.fullmatch(trimmed):
        return _rate(int(match[1]), match[2])
    if trimmed.startswith("at("):
        raise _unsupported("a schedule of one time, at(…)", "start a run with start_at, or write a cron with its year")
    if match := _CRON.fullmatch(trimmed):
        return _of_aws(match[1].upper().split(), zone)
    fields = trimmed.upper().split()
    if len(fields) != 5:
        raise _bad(f"{text[:80]!r} is not a schedule")
    return _of_crontab(fields, zone)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError) as error:  # KeyError: ZoneInfoNotFoundError
        hint = _near_zone(name) or "write a name of the IANA database: Europe/Madrid, America/New_York, UTC"
        raise InvalidInput(f"{name[:80]!r} is not a time zone", code="bad_timezone", hint=hint) from error


def _near_zone(name: str) -> str:
    """Suggests the zone that is meant: `Europe/Zurich` for `Europe/Zürich`, `europe/zurich` and `Zurich`."""
    from unicodedata import normalize  # noqa: PLC0415 - of a megabyte, and only for a wrong name

    plain = normalize("NFKD", name[:80]).encode("ascii", "ignore").decode().replace(" ", "_").casefold()
    zones, cities = _known_zones()
    found = zones.get(plain) or cities.get(plain)
    near = did_you_mean(name, cities.values(), _NEAR) if "/" in name else ""
    return f"did you mean `{found}`?" if found else near


@cache
def _known_zones() -> tuple[dict[str, str], dict[str, str]]:
    """The zones by their names, and by their cities, in small letters."""
    zones = {zone.casefold(): zone for zone in sorted(available_timezones())}
    return zones, {folded.rpartition("/")[2]: zone for folded, zone in zones.items() if "/" in folded}


def _rate(value: int, unit: str) -> Rate:
    period_ms = value * UNITS_MS[unit]
    if not 0 < period_ms <= LONGEST_MS:
        raise _bad(f"rate({value} {unit}s) is not between 1 minute and 10 years")
    return Rate(f"rate({counted(value, unit)})", period_ms)


def _of_aws(fields: list[str], zone: ZoneInfo) -> Cron:
    """Parses EventBridge's six fields: weekdays are 1 to 7 from Sunday, and one of the two days is `?`."""
    if len(fields) != 6:
        raise _bad(f"cron(…) has six fields, minute to year, not {len(fields)}")
    minute, hour, day, month, weekday, year = fields
    if (day == "?") == (weekday == "?"):
        raise _bad("exactly one of day of month and day of week must be ?", _one_day(fields))
    years = None if year == "*" else frozenset(_numbers(year, "year", 1970, 2199))
    line = _line(minute, hour, "*" if day == "?" else day, month, "*" if weekday == "?" else weekday, sunday=1)
    return _checked(Cron(f"cron({' '.join(fields)})", line, years, zone))


def _one_day(fields: list[str]) -> str:
    """Returns how to write a cron whose two days are both `?`, or neither is."""
    minute, hour, day, month, weekday, year = fields
    of_month = f"cron({minute} {hour} {'*' if day == '?' else day} {month} ? {year})"
    of_week = f"cron({minute} {hour} ? {month} {weekday} {year})"
    if {day, weekday} & {"*", "?"}:
        return f"write {of_month if weekday in ('*', '?') else of_week}"
    return f"write two schedules: {of_month} and {of_week}"


def _of_crontab(fields: list[str], zone: ZoneInfo) -> Cron:
    """Parses five fields: weekdays are 0 to 7 from Sunday. EventBridge cannot express either of two days."""
    minute, hour, day, month, weekday = fields
    if day != "*" and weekday != "*":
        raise _unsupported("a crontab with both a day of month and a day of week", "write two schedules")
    line = _line(minute, hour, day, month, weekday, sunday=0)
    minute, hour, day, month, weekday = line.split()
    days = ("?", _to_aws(weekday)) if weekday != "*" else (day, "?")
    return _checked(Cron(f"cron({minute} {hour} {days[0]} {month} {days[1]} *)", line, None, zone))


def _line(minute: str, hour: str, day: str, month: str, weekday: str, *, sunday: int) -> str:
    """Converts the fields for cronsim: every number written out, weekdays 0 to 6 from Sunday."""
    if "W" in day:
        raise _unsupported("the nearest weekday (`W`)", "write the days of the week: MON-FRI")
    return " ".join((
        _spelled(minute, "minute", 0, 59),
        _spelled(hour, "hour", 0, 23),
        "L" if day == "L" else _spelled(day, "day of month", 1, 31),
        _spelled(month, "month", 1, 12, _MONTHS),
        _weekday(weekday, sunday),
    ))  # fmt: skip


def _weekday(text: str, sunday: int) -> str:
    names = {name: at + sunday for at, name in enumerate(_DAYS)}
    low, high = (1, 7) if sunday else (0, 7)
    if match := _NTH.fullmatch(text):
        (day,) = _numbers(match[1], "day of week", low, high, names)
        return f"{(day - sunday) % 7}#{match[2]}"
    if match := _LAST.fullmatch(text):
        (day,) = _numbers(match[1], "day of week", low, high, names)
        return f"{(day - sunday) % 7}L"
    if "L" in text or "#" in text:
        raise _unsupported(f"the day of week {text[:20]!r}", "write L or # after a single day: 6L, MON#1")
    if text == "*":
        return text
    return ",".join(map(str, sorted({(day - sunday) % 7 for day in _numbers(text, "day of week", low, high, names)})))


def _to_aws(weekday: str) -> str:
    """Converts cronsim's weekdays to count from 1."""
    return re.sub(r"^\d|(?<=,)\d", lambda match: str(int(match[0]) + 1), weekday)


def _spelled(text: str, field: str, low: int, high: int, names: Mapping[str, int] | None = None) -> str:
    return text if text == "*" else ",".join(map(str, sorted(set(_numbers(text, field, low, high, names)))))


def _numbers(text: str, field: str, low: int, high: int, names: Mapping[str, int] | None = None) -> Iterator[int]:
    """Expands a list of numbers, ranges and steps."""
    for item in text.split(","):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise _bad(f"the {field} cannot be {text[:40]!r}")
        first, last, step = match[1], match[2], match[3]
        begin = low if first == "*" else _number(first, field, low, high, names)
        end = high if first == "*" or step else begin
        if last is not None:
            end = _number(last, field, low, high, names)
        if begin > end or (first == "*" and last is not None) or step == "0" * len(step or "1"):
            raise _bad(f"the {field} cannot be {item[:40]!r}")
        yield from range(begin, end + 1, int(step or 1))


def _number(text: str, field: str, low: int, high: int, names: Mapping[str, int] | None) -> int:
    number = (names or {}).get(text, -1) if not text.isdecimal() else int(text[:5])
    if not low <= number <= high:
        raise _bad(f"the {field} must be from {low} to {high}, not {text[:20]!r}")
    return number


def _checked(cron: Cron) -> Cron:
    """Refuses a schedule that never fires, such as a day that no month has."""
    from cronsim import CronSim, CronSimError  # noqa: PLC0415 - see above

    try:
        CronSim(cron.line, datetime(2000, 1, 1))
    except CronSimError as error:
        raise _bad(f"{cron.aws} never fires: {error}") from error
    return cron


def _bad(message: str, hint: str = HINT) -> InvalidInput:
    return InvalidInput(message, code="bad_schedule", hint=hint)


def _unsupported(what: str, hint: str) -> InvalidInput:
    return InvalidInput(f"{what} is not supported in a schedule", code="unsupported_schedule", hint=hint)
