"""A paused run that leaves the line of a limit, by its log, which older code leaves alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwell.engine.fold import fold
from stepwell.engine.limits import shares, throttles
from stepwell.engine.stored import formats
from stepwell.engine.stored.codec import decode_record
from stepwell.engine.token import Token
from stepwell.errors import NewerFormat
from tests.engine.golden_left import FILE, recorded_left
from tests.engine.golden_logs import folded


def log() -> list[dict[str, Any]]:
    """The log of the run that leaves."""
    golden = json.loads(FILE.read_text(encoding="utf-8"))
    return list(golden["runs"]["run_000002"]["logs"]["0"])


def test_a_golden_log_of_a_run_that_leaves_its_line_is_read_as_it_was_meant_and_still_written() -> None:
    """Where this fails, stored data changes: see CONTRIBUTING, "Change stored data"."""
    golden: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    assert recorded_left() == golden
    assert folded(golden) == golden["tokens"]


def test_its_permit_is_given_back_and_wanted_no_more_and_it_asks_for_another() -> None:
    token = fold([decode_record(json.dumps(one)) for one in log()[:4]], Token())
    assert [(one.slot, one.state) for one in token.returned] == [(2, "")]
    assert not throttles.wants(token, 2)
    assert not throttles.waits(token)
    assert shares.lacks(token)


def test_the_record_with_which_it_leaves_carries_the_newer_format_and_older_code_leaves_it_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a worker of an older version would keep its place in line."""
    numbers = [one[formats.KEY] for one in log()]
    assert numbers == [5, 2, 5, formats.LEAVING, 5, 2, 2, 2]
    monkeypatch.setattr(formats, "NEWEST", formats.ANSWERED)
    with pytest.raises(NewerFormat):
        decode_record(json.dumps(log()[3]))
