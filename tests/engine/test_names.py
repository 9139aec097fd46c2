"""What definitions and answers call things: here, times."""

from __future__ import annotations

import pytest

from stepwell.engine.names import iso


@pytest.mark.parametrize(
    ("at_ms", "expected"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (253_402_300_799_000, "9999-12-31T23:59:59.000Z"),
        (1_001_800_000_000_000, "9999-12-31T23:59:59.000Z"),
        (10**30, "9999-12-31T23:59:59.000Z"),
    ],
)
def test_a_time_beyond_the_calendar_is_shown_as_its_end(at_ms: int, expected: str) -> None:
    """One run with such a time made the list of all runs fail."""
    assert iso(at_ms) == expected
