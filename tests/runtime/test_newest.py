"""The newest entry of a run, read from its last two records, is what its whole log tells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepwell.engine.fold import apply
from stepwell.engine.records import ROOT, Record, RunInfo
from stepwell.engine.stored.codec import decode_record
from stepwell.engine.token import NEW
from stepwell.runtime.calls.newest import newest_of
from stepwell.runtime.log.conditions import narrate
from tests.engine.test_golden import ALL, golden

TOLD_AT_LEAST = 0.7  # of the records; the others ask for the log before them


def logs(path: Path) -> list[list[Record]]:
    """The root logs of a golden file's runs."""
    found = (run["logs"].get(ROOT, []) for run in golden(path)["runs"].values())
    return [[decode_record(json.dumps(record)) for record in log] for log in found]


def told(path: Path) -> list[bool]:
    """Whether each record but the first is told by two of them. Fails where they tell another entry."""
    found: list[bool] = []
    run = RunInfo("run", "flow", "sha256:0", {}, created_ms=1, started_ms=2)
    for log in logs(path):
        token = NEW
        for number, record in enumerate(log):
            before, token = token, apply(token, record)
            if number:
                newest = newest_of(token, (log[number - 1], record), run)
                assert newest is None or newest == narrate(record, before, token, run)[-1], record
                found.append(newest is not None)
    return found


@pytest.mark.parametrize("path", ALL)
def test_two_records_tell_the_entry_that_the_whole_log_tells_or_none(path: Path) -> None:
    told(path)


def test_two_records_most_often_tell_it() -> None:
    found = [one for case in ALL for one in told(Path(str(case.values[0])))]
    assert sum(found) > TOLD_AT_LEAST * len(found)
