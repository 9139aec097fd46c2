"""Which times of a schedule are due after an outage: the last one, and those that `catch_up` makes up for."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime

import cronsim
import pytest

from stepwell.definition.timetable import parse_schedule
from stepwell.limits import DAY_MS, FIRING_LATE_MS, FIRINGS_MADE_UP, HOUR_MS, MINUTE_MS, YEAR_MS
from stepwell.runtime.ports import Schedule
from stepwell.runtime.starts.schedules import due_ms

NOW_MS = int(datetime(2027, 1, 5, 12, 0, 30, tzinfo=UTC).timestamp() * 1_000)
ZONES = ("UTC", "Europe/Madrid", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia")
PLANS = ("* * * * *", "*/7 * * * *", "30 2 * * *", "0 9 * * 1-5", "0 0 1 * *", "15,45 1-3 * * *", "rate(7 minutes)",
         "cron(0 3 L * ? *)", "cron(30 2 ? * SUN#1 2026-2028)", "rate(3 days)")  # fmt: skip


def schedule(plan: str, zone: str = "UTC", catch_up_ms: int | None = None) -> Schedule:
    return Schedule("s", "w", plan, zone, None, "allow", catch_up_ms)


def looked_for(one: Schedule, last_ms: int, now_ms: int) -> Sequence[int]:
    """The same times, found one after the other from the first that was missed."""
    table = parse_schedule(one.expression, one.timezone)
    missed, late_ms = deque[int](maxlen=FIRINGS_MADE_UP + 1), max(one.catch_up_ms or 0, FIRING_LATE_MS)
    at_ms = table.after(last_ms, last_ms)
    while at_ms is not None and at_ms <= now_ms:
        missed.append(at_ms)
        at_ms = table.after(at_ms, last_ms)
    return [at_ms for at_ms in missed if at_ms >= now_ms - late_ms or at_ms == missed[-1]]


@pytest.mark.parametrize("plan", PLANS)
def test_the_times_that_are_due_are_those_that_looking_at_each_missed_one_finds(plan: str) -> None:
    chance = random.Random(plan)
    for _ in range(12):
        away_ms = chance.choice([MINUTE_MS, HOUR_MS, DAY_MS, 3 * DAY_MS])
        catch_up_ms = chance.choice([None, 0, HOUR_MS, DAY_MS, 30 * DAY_MS])
        one, now_ms = schedule(plan, chance.choice(ZONES), catch_up_ms), NOW_MS + chance.randrange(YEAR_MS)
        assert list(due_ms(one, now_ms - away_ms, now_ms)) == looked_for(one, now_ms - away_ms, now_ms), one


@pytest.mark.parametrize(("catch_up_ms", "due"), [(None, 2), (YEAR_MS, FIRINGS_MADE_UP + 1)])
def test_a_year_of_missed_minutes_takes_one_computation(
    monkeypatch: pytest.MonkeyPatch, catch_up_ms: int | None, due: int
) -> None:
    """It took one for each of half a million times."""
    made = list[object]()

    class Counted(cronsim.CronSim):
        def __init__(self, *given: object, **options: object) -> None:
            made.append(given)
            super().__init__(*given, **options)  # type: ignore[arg-type]  # as they are given

    monkeypatch.setattr(cronsim, "CronSim", Counted)
    times = due_ms(schedule("* * * * *", catch_up_ms=catch_up_ms), NOW_MS - YEAR_MS, NOW_MS)
    assert (len(times), len(made)) == (due, 1)
    assert times[-1] == NOW_MS - 30_000
