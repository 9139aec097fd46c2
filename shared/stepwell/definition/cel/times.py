"""CEL's timestamps and durations: how text is read and written, and their parts in a time zone."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from stepwell.definition.cel.values import duration_text, timestamp_text
from stepwell.errors import ExpressionError

_SPACE = " \t\n\v\f\r"
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_FIRST, _LAST = -62_135_596_800, 253_402_300_799  # seconds since 1970 of the years 1 to 9999
_LONGEST_SECONDS = 315_576_000_000  # ten thousand years
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097  # after which the calendar repeats itself, with the days of the week
_PART = re.compile(r"(?P<number>\d{1,18}\.?\d*|\.\d+)(?P<unit>ns|us|ms|s|m|h)", re.A)
_UNITS = {"ns": Fraction(1, 1000), "us": Fraction(1), "ms": Fraction(1000), "s": Fraction(1_000_000),
          "m": Fraction(60_000_000), "h": Fraction(3_600_000_000)}  # fmt: skip
_DIGITS = 40  # of one number that count
_TIMESTAMP = re.compile(
    r"(?P<year>-?\d{1,9})-(?P<month>\d{1,2})-(?P<day>\d{1,2})[Tt](?P<hour>\d{1,2}):(?P<minute>\d{1,2})"
    r":(?P<second>\d{1,2})(?:\.(?P<part>\d+))?"
    r"(?:[Zz]|(?P<sign>[+-])(?P<hours>\d\d)(?::?(?P<minutes>\d\d)(?::?(?P<seconds>\d\d))?)?)",
    re.A,
)


def duration_of(text: str) -> datetime.timedelta:
    """Reads `1h30m`, `1.5s` or `-20ms`. Raises ExpressionError."""
    micros = _micros(text)
    if micros is None:
        raise ExpressionError("String to Duration conversion failed")
    if abs(micros) >= (_LONGEST_SECONDS + 1) * 1_000_000:
        side = "above maximum" if micros > 0 else "below minimum"
        raise ExpressionError(f'Duration "{text[:80]}" {side} allowed duration of {_LONGEST_SECONDS} s')
    return datetime.timedelta(microseconds=micros)


def _micros(text: str) -> int | None:
    """Reads a duration of any length, which is cut to microseconds."""
    sign, rest = (-1 if text[:1] == "-" else 1), text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    if rest == "inf":
        return sign * _LONGEST_SECONDS * 2_000_000
    total, at = Fraction(0), 0
    while at < len(rest) or not rest:
        part = _PART.match(rest, at)
        if part is None:
            return None
        total += Fraction(part["number"][:_DIGITS].rstrip(".")) * _UNITS[part["unit"]]
        at = part.end()
    return sign * int(total)


def timestamp_of(text: str) -> datetime.datetime:
    """Reads RFC 3339, as generously as the library. Raises ExpressionError."""
    found = _TIMESTAMP.fullmatch(text.strip(_SPACE))
    if found is None:
        if text.strip(_SPACE) in ("infinite-future", "infinite-past"):
            raise ExpressionError("timestamp overflow")
        raise ExpressionError("String to Timestamp conversion failed")
    year, second = int(found["year"]), int(found["second"])
    if not -10 < year < 10_010:
        raise ExpressionError("timestamp overflow")
    cycles = 1 if year < 10 else -1 if year > 9_000 else 0
    month, day, hour, minute = (int(found[name]) for name in ("month", "day", "hour", "minute"))
    offset = [int(found[name] or 0) for name in ("hours", "minutes", "seconds")]
    try:
        held = year + cycles * _CYCLE_YEARS
        moment = datetime.datetime(held, month, day, hour, minute, min(second, 59), tzinfo=datetime.UTC)
        if second > 60 or offset[0] > 23 or offset[1] > 59 or offset[2] > 59:
            raise ValueError("out of range")
    except ValueError:
        raise ExpressionError("String to Timestamp conversion failed") from None
    away = offset[0] * 3600 + offset[1] * 60 + offset[2]
    seconds = (moment - _EPOCH) // datetime.timedelta(seconds=1) - cycles * _CYCLE_DAYS * 86_400
    seconds += (second == 60) - (-away if found["sign"] == "-" else away)
    part = "" if second == 60 else (found["part"] or "")[:6]
    return _moment(seconds, int(part.ljust(6, "0")))


def _moment(seconds: int, micros: int = 0) -> datetime.datetime:
    if not _FIRST <= seconds <= _LAST:
        raise ExpressionError("timestamp overflow")
    return _EPOCH + datetime.timedelta(seconds=seconds, microseconds=micros)


def unix_seconds(value: datetime.datetime) -> int:
    return (value - _EPOCH) // datetime.timedelta(seconds=1)


def timestamp_string(value: datetime.datetime) -> str:
    """Writes a timestamp as protobuf does, with no, three or six digits of a second."""
    return _fraction(timestamp_text(value).removesuffix("Z")) + "Z"


def duration_string(value: datetime.timedelta) -> str:
    return _fraction(duration_text(value).removesuffix("s")) + "s"


def _fraction(text: str) -> str:
    whole, point, part = text.partition(".")
    part = part.rstrip("0")
    return whole if not part else f"{whole}{point}{part.ljust(3 if len(part) <= 3 else 6, '0')}"


# -- parts


def _local(value: datetime.datetime, zone: str) -> tuple[datetime.datetime, int]:
    """Returns the time in a zone, and by how many years it was moved so that Python can hold it."""
    moved = _CYCLE_YEARS if value.year < 5 else -_CYCLE_YEARS if value.year > 9_990 else 0
    cycle = datetime.timedelta(days=_CYCLE_DAYS if moved > 0 else -_CYCLE_DAYS if moved else 0)
    return (value + cycle).astimezone(_zone(zone)), moved


def _zone(name: str) -> datetime.tzinfo:
    if name in ("", "UTC"):
        return datetime.UTC
    if ":" in name:
        micros = _micros(name.replace(":", "h") + "m")
        if micros is None:
            raise ExpressionError("Invalid timezone")
        return _Away(datetime.timedelta(microseconds=micros))
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # noqa: PLC0415 - few expressions name a zone

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ExpressionError("Invalid timezone") from None


class _Away(datetime.tzinfo):
    """A fixed offset, which may be days: `datetime.timezone` takes less than one."""

    def __init__(self, offset: datetime.timedelta) -> None:
        self._offset = offset

    def fromutc(self, moment: datetime.datetime) -> datetime.datetime:
        return moment + self._offset

    def utcoffset(self, moment: datetime.datetime | None) -> datetime.timedelta:
        return datetime.timedelta(0)  # asked only of what fromutc has moved

    def dst(self, moment: datetime.datetime | None) -> None:
        return None

    def tzname(self, moment: datetime.datetime | None) -> None:
        return None


def _getter(read: Callable[[datetime.datetime], int], *, moves: bool = False) -> Mapping[str, Callable[..., int]]:
    def get(value: datetime.datetime, zone: str = "") -> int:
        try:
            local, moved = _local(value, zone)
        except OverflowError:
            raise ExpressionError("timestamp overflow") from None
        return read(local) - (moved if moves else 0)

    return {"t": get, "ts": get}


def _part(unit: datetime.timedelta) -> Callable[[datetime.timedelta], int]:
    """Counts the whole units of a duration, toward zero."""
    return lambda value: abs(value) // unit * (-1 if value < datetime.timedelta(0) else 1)


def _milliseconds(value: datetime.timedelta) -> int:
    thousandths = abs(value) // datetime.timedelta(milliseconds=1) % 1000
    return -thousandths if value < datetime.timedelta(0) else thousandths


FUNCTIONS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "duration": {"p": lambda value: value, "s": duration_of},
    "getDate": _getter(lambda local: local.day),
    "getDayOfMonth": _getter(lambda local: local.day - 1),
    "getDayOfWeek": _getter(lambda local: local.isoweekday() % 7),
    "getDayOfYear": _getter(lambda local: local.timetuple().tm_yday - 1),
    "getFullYear": _getter(lambda local: local.year, moves=True),
    "getHours": {**_getter(lambda local: local.hour), "p": _part(datetime.timedelta(hours=1))},
    "getMilliseconds": {**_getter(lambda local: local.microsecond // 1000), "p": _milliseconds},
    "getMinutes": {**_getter(lambda local: local.minute), "p": _part(datetime.timedelta(minutes=1))},
    "getMonth": _getter(lambda local: local.month - 1),
    "getSeconds": {**_getter(lambda local: local.second), "p": _part(datetime.timedelta(seconds=1))},
    "timestamp": {"i": _moment, "s": timestamp_of, "t": lambda value: value},
}
