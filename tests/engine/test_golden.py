"""What was ever stored is read as it was meant: golden logs of each format number, folded by today's code."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from stepwell.engine.records import CleanUp, Compensate, End, Fork, Goto, Kind, Pause, Record, RetryAt
from stepwell.engine.stored.codec import decode_record
from stepwell.engine.stored.formats import FORMAT, KEY
from stepwell.runtime.log.messages import from_json
from tests.engine.golden_logs import GOLDEN, MESSAGES, SCENARIOS, folded, recorded

NUMBERS = (FORMAT - 1, FORMAT)
FORMATS = {"timeline", "nodes", "steps", "actions", "durable"}
NEXT = {CleanUp, Compensate, End, Fork, Goto, Pause, RetryAt}
SINCE_2 = {Kind.REDRIVEN, Kind.REOPENED, Kind.GATHERED}  # no format 1 has them
KINDS = {  # of records that each definition format must show
    "timeline": {Kind.STARTED, Kind.BEGAN, Kind.STEP, Kind.MOVED, Kind.WAITING, Kind.RECEIVED, Kind.RESUMED,
                 Kind.ACTED, Kind.ENDED},
    "nodes": {Kind.STEP, Kind.MOVED, Kind.WAITING, Kind.RESUMED, Kind.JOINED, Kind.UNDONE, Kind.ENDED},
    "steps": {Kind.STEP, Kind.MOVED, Kind.WAITING, Kind.RESUMED, Kind.JOINED},
    "actions": {Kind.STEP, Kind.MOVED, Kind.WAITING, Kind.RESUMED},
    "durable": {Kind.BEGAN, Kind.STEP, Kind.MOVED, Kind.WAITING, Kind.RECEIVED, Kind.RESUMED, Kind.JOINED, Kind.ENDED,
                Kind.RETURNED},
}  # fmt: skip


def files(number: int) -> list[Path]:
    return sorted(path for path in (GOLDEN / str(number)).glob("*.json") if path.stem != "messages")


@cache
def golden(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def records(path: Path) -> list[Record]:
    logs = (log for run in golden(path)["runs"].values() for log in run["logs"].values())
    return [decode_record(json.dumps(record)) for log in logs for record in log]


ALL = [pytest.param(path, id=f"{path.parent.name}-{path.stem}") for number in NUMBERS for path in files(number)]


@pytest.mark.parametrize("path", ALL)
def test_a_golden_log_folds_to_the_tokens_that_were_stored_with_it(path: Path) -> None:
    """Through the runtime's own reader: a branch is what its parent's log and definition make of it."""
    assert folded(golden(path)) == golden(path)["tokens"]


@pytest.mark.parametrize("path", ALL)
def test_a_golden_log_carries_the_number_of_its_folder(path: Path) -> None:
    """Format 1 had no number."""
    numbers = {
        record.get(KEY, 1) for run in golden(path)["runs"].values() for log in run["logs"].values() for record in log
    }
    assert numbers == {int(path.parent.name)}


@pytest.mark.parametrize("number", NUMBERS)
def test_every_kind_of_record_and_of_next_has_a_golden_log(number: int) -> None:
    """Whoever adds a kind adds a scenario: `python -m tests.engine.golden_logs` records it."""
    found = [record for path in files(number) for record in records(path)]
    assert {record.kind for record in found} == set(Kind) - (SINCE_2 if number == 1 else set())
    assert {type(record.next) for record in found if record.next} == NEXT
    since_2 = {"States"} if number > 1 else set()
    assert {golden(path)["format"] for path in files(number)} == FORMATS | since_2


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("format_", sorted(FORMATS))
def test_every_definition_format_shows_the_kinds_that_it_can_write(number: int, format_: str) -> None:
    paths = [path for path in files(number) if golden(path)["format"] == format_]
    assert KINDS[format_] <= {record.kind for path in paths for record in records(path)}


@pytest.mark.parametrize("number", NUMBERS)
def test_every_message_is_read_as_it_was_meant(number: int) -> None:
    bodies = json.loads((GOLDEN / str(number) / "messages.json").read_text(encoding="utf-8"))
    assert tuple(from_json(body) for body in bodies) == MESSAGES


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_today_still_writes_what_the_golden_logs_of_its_number_hold(name: str) -> None:
    """Where this fails, stored data changes: raise FORMAT, or write the golden logs of today's number anew."""
    assert recorded(SCENARIOS[name]) == golden(GOLDEN / str(FORMAT) / f"{name}.json")
