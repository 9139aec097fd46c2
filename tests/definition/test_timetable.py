"""When schedules fire: the expressions of EventBridge and of crontabs, and the two nights when clocks are changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.definition.timetable import Cron, Rate, parse_schedule
from stepwell.errors import UserError

MADRID, NEW_YORK = "Europe/Madrid", "America/New_York"
MINUTE_MS = 60_000


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1_000)


def firings(text: str, zone: str, after: str, count: int) -> list[str]:
    """The next times in UTC."""
    table, at_ms, found = parse_schedule(text, zone), ms(after), []
    for _ in range(count):
        following_ms = table.after(at_ms, 0)
        assert following_ms is not None
        at_ms = following_ms
        found.append(f"{datetime.fromtimestamp(at_ms / 1_000, UTC):%m-%d %H:%M}")
    return found


# -- the two nights

SPRING = [  # Madrid goes from 02:00 to 03:00 on 31 March 2030, New York on 10 March
    pytest.param(
        "cron(30 2 * * ? *)", MADRID, "2030-03-29T12:00", ["03-30 01:30", "04-01 00:30"], id="madrid, skipped"
    ),
    pytest.param("cron(30 3 * * ? *)", MADRID, "2030-03-30T12:00", ["03-31 01:30", "04-01 01:30"], id="madrid, after"),
    pytest.param("30 2 * * *", NEW_YORK, "2030-03-08T12:00", ["03-09 07:30", "03-11 06:30"], id="new york, skipped"),
    pytest.param(
        "0 * * * *", NEW_YORK, "2030-03-10T05:30", ["03-10 06:00", "03-10 07:00", "03-10 08:00"], id="new york, hourly"
    ),
]
AUTUMN = [  # Madrid goes from 03:00 back to 02:00 on 27 October 2030, New York from 02:00 to 01:00 on 3 November
    pytest.param("cron(30 2 * * ? *)", MADRID, "2030-10-26T12:00", ["10-27 00:30", "10-28 01:30"], id="madrid, once"),
    pytest.param("30 1 * * *", NEW_YORK, "2030-11-02T12:00", ["11-03 05:30", "11-04 06:30"], id="new york, once"),
    pytest.param(
        "*/20 1 * * *", NEW_YORK, "2030-11-03T05:10", ["11-03 05:20", "11-03 05:40", "11-04 06:00"], id="several"
    ),
    pytest.param("0 * * * *", MADRID, "2030-10-26T23:30", ["10-27 00:00", "10-27 02:00"], id="madrid, hourly"),
]


@pytest.mark.parametrize(("text", "zone", "after", "expected"), SPRING)
def test_a_local_time_that_does_not_exist_does_not_fire(text: str, zone: str, after: str, expected: list[str]) -> None:
    assert firings(text, zone, after, len(expected)) == expected


@pytest.mark.parametrize(("text", "zone", "after", "expected"), AUTUMN)
def test_a_local_time_that_comes_twice_fires_the_first_time(
    text: str, zone: str, after: str, expected: list[str]
) -> None:
    assert firings(text, zone, after, len(expected)) == expected


@pytest.mark.parametrize("zone", [MADRID, NEW_YORK])
def test_a_rate_takes_no_notice_of_clocks_that_are_changed(zone: str) -> None:
    table, since_ms = parse_schedule("rate(1 day)", zone), ms("2030-03-09T12:00")
    assert [table.after(since_ms + days * 86_400_000, since_ms) for days in range(3)] == [
        since_ms + days * 86_400_000 for days in (1, 2, 3)
    ]


NIGHTS = [
    (MADRID, "2030-03-30T20:00"),
    (MADRID, "2030-10-26T20:00"),
    (NEW_YORK, "2030-03-10T00:00"),
    (NEW_YORK, "2030-11-03T00:00"),
    ("Australia/Lord_Howe", "2030-04-06T10:00"),  # by half an hour
    ("UTC", "2030-01-01"),
]


@settings(max_examples=60, deadline=None)
@given(
    st.sets(st.integers(0, 59), min_size=1, max_size=3),
    st.sets(st.integers(0, 4), min_size=1, max_size=4),
    st.sampled_from(NIGHTS),
    st.integers(0, 600),
)
def test_the_times_are_those_that_looking_at_each_minute_finds(
    minutes: set[int], hours: set[int], night: tuple[str, str], late_minutes: int
) -> None:
    """A day around a change of clocks, minute by minute: a minute fires when the zone's clocks first show it."""
    zone_name, begin = night
    zone, begin_ms = ZoneInfo(zone_name), ms(begin)
    table = parse_schedule(f"{','.join(map(str, minutes))} {','.join(map(str, hours))} * * *", zone_name)
    assert isinstance(table, Cron)
    looked_at = [begin_ms + minute * MINUTE_MS for minute in range(24 * 60)]
    shown: dict[datetime, int] = {}
    for at_ms in looked_at:
        local = datetime.fromtimestamp(at_ms / 1_000, zone).replace(tzinfo=None, fold=0)
        if local.minute in minutes and local.hour in hours:
            shown.setdefault(local, at_ms)
    found, at_ms = [], begin_ms - 1
    while (following_ms := table.after(at_ms)) is not None and following_ms <= looked_at[-1]:
        found.append(following_ms)
        at_ms = following_ms
    assert found == sorted(shown.values())
    asked_ms = begin_ms + late_minutes * MINUTE_MS
    before = [one for one in found if one <= asked_ms]
    assert not before or table.until(asked_ms) == before[-1]


# -- expressions


@pytest.mark.parametrize(
    ("text", "aws"),
    [
        ("cron(0 9 * * ? *)", "cron(0 9 * * ? *)"),
        ("cron(0/15 8-17 ? * mon-fri 2030-2031)", "cron(0/15 8-17 ? * MON-FRI 2030-2031)"),
        ("0 9 * * *", "cron(0 9 * * ? *)"),
        ("*/20 9 1 jan,JUL *", "cron(0,20,40 9 1 1,7 ? *)"),
        ("0 9 * * 1-5", "cron(0 9 ? * 2,3,4,5,6 *)"),
        ("0 9 * * 5-7", "cron(0 9 ? * 1,6,7 *)"),
        ("0 9 * * 0", "cron(0 9 ? * 1 *)"),
        ("0 9 * * FRI#2", "cron(0 9 ? * 6#2 *)"),
        ("0 9 * * 5L", "cron(0 9 ? * 6L *)"),
        ("0 9 L * *", "cron(0 9 L * ? *)"),
        ("rate(1 minute)", "rate(1 minute)"),
        ("rate( 1  hours )", "rate(1 hour)"),
        ("rate(5 days)", "rate(5 days)"),
    ],
)
def test_what_eventbridge_scheduler_is_told(text: str, aws: str) -> None:
    table = parse_schedule(text)
    assert table.aws == aws
    again = parse_schedule(aws)
    assert table.after(ms("2030-05-05"), 0) == again.after(ms("2030-05-05"), 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cron(0 9 ? * 6L *)", ["01-25 09:00", "02-22 09:00"]),
        ("cron(0 9 ? * MON#1 *)", ["01-07 09:00", "02-04 09:00"]),
        ("cron(0 9 L * ? *)", ["01-31 09:00", "02-28 09:00"]),
        ("cron(0 9 ? * 1 *)", ["01-06 09:00", "01-13 09:00"]),
        ("0 9 29 2 *", ["02-29 09:00", "02-29 09:00"]),
    ],
)
def test_days_are_counted_as_eventbridge_counts_them(text: str, expected: list[str]) -> None:
    assert firings(text, "UTC", "2030-01-01T00:00", len(expected)) == expected


def test_years_end_a_schedule() -> None:
    table = parse_schedule("cron(0 9 1 1 ? 2031,2040)")
    assert table.after(ms("2030-06-01"), 0) == ms("2031-01-01T09:00")
    assert table.after(ms("2031-06-01"), 0) == ms("2040-01-01T09:00")
    assert table.after(ms("2040-06-01"), 0) is None
    assert table.until(ms("2039-06-01"), 0) == ms("2031-01-01T09:00")
    assert table.until(ms("2030-06-01"), 0) is None


def test_a_rate_counts_whole_periods_since_it_was_made() -> None:
    table = parse_schedule("rate(5 minutes)")
    assert table == Rate("rate(5 minutes)", 300_000)
    assert [table.after(at, 1_000) for at in (0, 1_000, 300_999, 301_000)] == [301_000, 301_000, 301_000, 601_000]
    assert [table.until(at, 1_000) for at in (300_999, 301_000, 900_000)] == [None, 301_000, 601_000]


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        ("cron(0 9 * * * *)", "bad_schedule", "exactly one of day of month and day of week must be ?"),
        ("cron(0 9 ? * ? *)", "bad_schedule", "exactly one of day of month and day of week must be ?"),
        ("cron(0 9 * * ?)", "bad_schedule", "six fields"),
        ("cron(0 9 30 2 ? *)", "bad_schedule", "never fires"),
        ("cron(60 9 * * ? *)", "bad_schedule", "must be from 0 to 59"),
        ("cron(0 9 ? * 0 *)", "bad_schedule", "must be from 1 to 7"),
        ("cron(0 9 15W * ? *)", "unsupported_schedule", "nearest weekday"),
        ("cron(0 9 ? * L *)", "unsupported_schedule", "day of week 'L'"),
        ("0 9 1 * 1", "unsupported_schedule", "day of month and a day of week"),
        ("at(2030-01-01T09:00:00)", "unsupported_schedule", "at(…)"),
        ("*/0 9 * * *", "bad_schedule", "cannot be"),
        ("5-1 9 * * *", "bad_schedule", "cannot be"),
        ("1,,2 9 * * *", "bad_schedule", "cannot be"),
        ("rate(0 minutes)", "bad_schedule", "between 1 minute"),
        ("rate(5 seconds)", "bad_schedule", "is not a schedule"),
        ("@daily", "bad_schedule", "is not a schedule"),
        ("*/" + "9" * 5_000 + " 9 * * *", "bad_schedule", "at most 256"),
        ("² 9 * * *", "bad_schedule", "cannot be"),
    ],
)
def test_what_is_no_schedule_is_refused_by_name(text: str, code: str, told: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_schedule(text)
    assert caught.value.code == code
    assert told in caught.value.message


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("cron(0 9 * * MON *)", "write cron(0 9 ? * MON *)"),
        ("cron(0 9 1 * * 2030)", "write cron(0 9 1 * ? 2030)"),
        ("cron(0 9 * * * *)", "write cron(0 9 * * ? *)"),
        ("cron(0 9 ? * ? *)", "write cron(0 9 * * ? *)"),
        ("cron(0 9 1 * MON *)", "write two schedules: cron(0 9 1 * ? *) and cron(0 9 ? * MON *)"),
    ],
)
def test_of_two_days_in_a_cron_the_hint_keeps_the_one_that_was_written(text: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_schedule(text)
    assert caught.value.hint == hint


@pytest.mark.parametrize("zone", ["", "Mars/Base", "Europe", "../etc/passwd", "/etc/localtime", "Europe/\0", "a" * 500])
def test_what_is_no_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(UserError, match="is not a time zone") as caught:
        parse_schedule("0 9 * * *", zone)
    assert caught.value.code == "bad_timezone"


@pytest.mark.parametrize(
    ("written", "zone"),
    [
        ("Europe/Zürich", "Europe/Zurich"),
        ("europe/zurich", "Europe/Zurich"),
        ("Zurich", "Europe/Zurich"),
        ("New York", "America/New_York"),
        ("Europe/Madird", "Europe/Madrid"),
        ("CEST", ""),  # a zone's name in summer, which is not `EST`
    ],
)
def test_the_zone_that_is_meant_is_named(written: str, zone: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_schedule("0 9 * * *", written)
    assert (caught.value.hint or "").startswith(f"did you mean `{zone}`?" if zone else "write a name of the IANA")


def test_the_times_of_a_year_are_in_order() -> None:
    """No time twice, none before the one before it, whatever the zone does."""
    table, at_ms = parse_schedule("30 */2 * * *", MADRID), ms("2030-01-01")
    for _ in range(12 * 365):
        following_ms = table.after(at_ms, 0)
        assert following_ms is not None
        assert timedelta(0) < timedelta(milliseconds=following_ms - at_ms) <= timedelta(hours=4)
        at_ms = following_ms
