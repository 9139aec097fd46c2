"""Outputs that stand once: when a record refers to another, how it is stored, and what reads it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from stepwell import limits
from stepwell.engine.durable.referring import output_at, sources, with_outputs
from stepwell.engine.forks.join import Arrival
from stepwell.engine.records import ENDED, Failure, Kind, Record, Resumption
from stepwell.engine.stored import formats
from stepwell.engine.stored.codec import decode_record, encode_record
from stepwell.engine.stored.snapshots import decode_snapshot, encode_token
from stepwell.engine.token import Token
from stepwell.errors import EngineFault, NewerFormat
from tests.engine.golden_logs import folded
from tests.engine.golden_outputs import FILE, recorded_outputs

LARGE = "x" * limits.OUTPUT_HELD_BYTES
ENDS = Arrival(7, 1_000, 1, LARGE, None, timed_out=False, without_output=False, member=None, slot=2)
RECORD = Record(9, Kind.RECEIVED, "wake", 5, "f", output=LARGE, output_at=2, resumption=Resumption(ENDED, part="3.7"))


def test_only_a_large_output_that_its_branch_has_as_it_is_stands_there_alone() -> None:
    assert output_at(ENDS) == 2
    assert output_at(replace(ENDS, output=LARGE[2:])) == -1  # with its quotes, it is as large as may be
    assert output_at(replace(ENDS, output="語" * (limits.OUTPUT_HELD_BYTES // 3))) == 2  # in bytes, as it is stored
    assert output_at(replace(ENDS, output="\ud800")) == -1
    assert output_at(replace(ENDS, slot=-1)) == -1
    assert output_at(replace(ENDS, error=Failure("X", "step", "no"))) == -1


def test_a_record_that_refers_to_an_output_is_stored_without_it() -> None:
    body = encode_record(RECORD)
    assert LARGE not in body
    assert len(body) < 200
    assert decode_record(body) == replace(RECORD, output=None)
    assert encode_record(decode_record(body)) == body
    assert json.loads(body)[formats.KEY] == formats.REFERRING


def test_its_output_is_found_in_the_log_of_the_operation() -> None:
    stored = decode_record(encode_record(RECORD))
    assert sources("0/1.5", [stored, stored, RECORD]) == [("0/1.5/3.7", 2)]
    assert with_outputs("0", [stored], {("0/3.7", 2): LARGE}) == [RECORD]
    with pytest.raises(EngineFault, match=r"refers to slot 2 of 0/3\.7, which is not there"):
        with_outputs("0", [stored], {})


def test_code_that_knows_no_outputs_elsewhere_leaves_record_and_snapshot_to_newer_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record, snapshot = encode_record(RECORD), encode_token(Token(slot=9, last=RECORD))
    assert LARGE not in snapshot
    found = decode_snapshot(snapshot)
    assert found is not None
    assert found.last == replace(RECORD, output=None)
    monkeypatch.setattr(formats, "NEWEST", formats.GATHERED)
    assert decode_snapshot(snapshot) is None
    with pytest.raises(NewerFormat):
        decode_record(record)


def test_a_golden_log_of_outputs_is_read_as_it_was_meant_and_still_written() -> None:
    """Where this fails, stored data changes: see CONTRIBUTING, "Change stored data"."""
    golden: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    assert recorded_outputs() == golden
    assert folded(golden) == golden["tokens"]
    (run,) = golden["runs"].values()
    numbers = [one[formats.KEY] for one in run["logs"]["0"]]
    assert numbers.count(formats.REFERRING) == 2
    assert set(numbers) == {formats.FORMAT, formats.REFERRING}
    assert json.dumps(run["logs"]).count("x" * 1_200) == json.dumps(run["logs"]).count("y" * 1_100) == 1
