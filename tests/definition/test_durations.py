"""Durations as users write them."""

from __future__ import annotations

import pytest

from stepwell.definition.durations import parse_duration, show_duration
from stepwell.errors import UserError


@pytest.mark.parametrize(
    ("written", "milliseconds"),
    [
        ("30s", 30_000),
        ("5m", 300_000),
        ("24h", 86_400_000),
        ("7d", 604_800_000),
        ("1.5h", 5_400_000),
        ("250ms", 250),
        ("PT5M", 300_000),
        ("P1DT2H", 93_600_000),
        ("PT0.5S", 500),
        ("P2W", 1_209_600_000),
        (90, 90_000),
        (0.25, 250),
        ("90", 90_000),
        (0, 0),
    ],
)
def test_every_spelling_is_milliseconds(written: object, milliseconds: int) -> None:
    assert parse_duration(written) == milliseconds


@pytest.mark.parametrize(
    "written",
    [
        *("", "abc", "5 minutes", "-5m", "P", "PT", "P1M", "P1Y", "1e3s", "9" * 200 + "s", "PT5M garbage", "5m\n5m"),
        *(-1, float("nan"), float("inf"), True, None, 10**400, -(10**400), 1e300, "\u0661s"),
        [],
        {},
    ],
)
def test_what_is_no_duration_is_refused_with_a_hint(written: object) -> None:
    with pytest.raises(UserError) as caught:
        parse_duration(written)
    assert caught.value.code == "bad_duration"
    assert "30s" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("milliseconds", "shown"), [(86_400_000, "1d"), (90_000, "90s"), (1_500, "1500ms"), (0, "0ms")]
)
def test_a_duration_is_shown_in_its_shortest_spelling(milliseconds: int, shown: str) -> None:
    assert show_duration(milliseconds) == shown
