"""Format numbers: today's and the one before are read, a newer one is left alone, and broken data is a named fault."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from stepwell import limits
from stepwell.engine.forks.branches import Branches, first_chunks
from stepwell.engine.records import ROOT, Fork, Group, Kind, Record
from stepwell.engine.stored import formats
from stepwell.engine.stored.codec import decode_record, encode_record
from stepwell.engine.stored.formats import FORMAT, KEY, NEWEST
from stepwell.engine.stored.snapshots import decode_snapshot, encode_token
from stepwell.engine.token import Token
from stepwell.errors import EngineFault, NewerFormat
from stepwell.runtime.log.messages import Wake, from_json, to_json

RECORD = Record(0, Kind.MOVED, "me", 5, "n", next=Fork((Group("r", "m", 25),)))
WIDE = Fork((Group("r", "m", 25),), page=8, chunk=3)


def read_record(raw: Any) -> Record:
    return decode_record(raw if isinstance(raw, str) else json.dumps(raw))


def stored(**changes: Any) -> dict[str, Any]:
    """A record as it is stored, with other fields; None takes one away."""
    raw = {**json.loads(encode_record(RECORD)), **changes}
    return {name: value for name, value in raw.items() if value is not None}


def test_what_is_written_carries_todays_number() -> None:
    assert json.loads(encode_record(RECORD))[KEY] == FORMAT
    assert json.loads(encode_token(Token()))[KEY] == FORMAT
    assert to_json(Wake("r1", 3))[KEY] == FORMAT


@pytest.mark.parametrize("number", [FORMAT, FORMAT - 1, None])
def test_todays_number_and_the_one_before_are_read(number: int | None) -> None:
    """No number is the first one."""
    body = {**to_json(Wake("r1", 3)), KEY: number}
    assert read_record(stored(v=number)) == RECORD
    assert from_json({name: part for name, part in body.items() if part is not None}) == Wake("r1", 3)


def test_a_newer_number_is_told_before_anything_else_of_the_data_is_looked_at() -> None:
    with pytest.raises(NewerFormat, match=f"format {NEWEST + 1}") as raised:
        read_record({KEY: NEWEST + 1, "something": "else"})
    assert raised.value.code == "newer_format"
    with pytest.raises(NewerFormat):
        from_json({KEY: FORMAT + 1, "type": "new_type"})


def test_a_number_that_no_version_reads_any_more_says_what_to_do() -> None:
    with mock.patch.object(formats, "FORMAT", FORMAT + 1), pytest.raises(EngineFault, match="in between") as raised:
        read_record(stored(v=FORMAT - 1))
    assert raised.value.code == "format_too_old"


@pytest.mark.parametrize(
    "broken",
    [
        "", "not json", "[]", "null", "7", '{"v": "x"}', '{"v": null}', "{}", "[" * 100_000,
        stored(kind="unheard_of"), stored(kind=None), stored(slot=None), stored(next={"some": "way"}),
        stored(next=[1]), stored(error={"type": "x"}), stored(parked={"kind": "x"}),
        stored(resumption=5), stored(rules=3), stored(tally={"arrived": 1, "by": 2}, next={"fork": [{}], "join": ""}),
    ],
    ids=lambda broken: json.dumps(broken)[:30],
)  # fmt: skip
def test_a_record_that_cannot_be_read_is_a_fault_with_a_code(broken: Any) -> None:
    """Never a bare error of Python's: whoever reads for several runs passes over this one."""
    with pytest.raises(EngineFault) as raised:
        read_record(broken)
    assert raised.value.code == "broken_record"


@pytest.mark.parametrize("broken", [{}, [], {"type": None}, {"type": "wake"}, {"type": "timer", KEY: "2"}])
def test_a_message_that_cannot_be_read_is_a_fault_with_a_code(broken: Any) -> None:
    with pytest.raises(EngineFault) as raised:
        from_json(broken)
    assert raised.value.code == "broken_message"


def test_a_snapshot_of_another_fold_or_of_newer_code_is_not_used() -> None:
    raw = json.loads(encode_token(Token(slot=7)))
    assert decode_snapshot(json.dumps(raw)) == Token(slot=7)
    for change in ({"fold": formats.FOLD - 1}, {"fold": formats.FOLD + 1}, {KEY: NEWEST + 1}):
        assert decode_snapshot(json.dumps({**raw, **change})) is None
    assert decode_snapshot(json.dumps({name: part for name, part in raw.items() if name != "fold"})) is None


def test_a_snapshot_that_cannot_be_read_is_a_fault_with_a_code() -> None:
    raw = json.loads(encode_token(Token(slot=7)))
    for broken in ("no json", "[]", json.dumps({**raw, "phase": "nowhere"}), json.dumps({**raw, "steps": 3})):
        with pytest.raises(EngineFault) as raised:
            decode_snapshot(broken)
        assert raised.value.code == "broken_snapshot"


def test_a_fork_keeps_the_sizes_that_it_was_recorded_with() -> None:
    """Whatever the limits are by the time its branches arrive."""
    with mock.patch.object(limits, "PAGE_BRANCHES", 8), mock.patch.object(limits, "FORK_CHUNK", 3):
        body = encode_record(replace(RECORD, next=Fork((Group("r", "m", 25),))))
    fork = decode_record(body).next
    assert fork == WIDE
    assert isinstance(fork, Fork)
    assert [len(fork.page_indexes(page)) for page in fork.pages] == [8, 8, 8, 1]
    assert [fork.page_of(index) for index in (0, 7, 8, 24)] == [0, 0, 1, 3]
    assert [count for _, _, count in first_chunks(fork)] == [3] * 8 + [1]


def test_a_fork_of_format_1_has_the_sizes_of_format_1() -> None:
    """Its record does not say them."""
    with mock.patch.object(limits, "PAGE_BRANCHES", 8), mock.patch.object(limits, "FORK_CHUNK", 3):
        fork = read_record(stored(v=None)).next
    assert isinstance(fork, Fork)
    assert (fork.page, fork.chunk) == (100, 10)


def test_sizes_and_evaluator_cost_no_byte_while_they_are_those_of_format_1() -> None:
    assert stored()["next"] == {"fork": [{"rule": "r", "node": "m", "count": 25}], "join": ""}
    assert "evaluator" not in stored()


def test_a_fork_that_asks_for_an_evaluator_of_newer_code_is_left_to_it() -> None:
    record = read_record(stored(evaluator=formats.EVALUATOR + 1))
    assert json.loads(encode_record(record))["evaluator"] == formats.EVALUATOR + 1
    forked = Token(ROOT, 0, record, fork=record.next if isinstance(record.next, Fork) else None)
    with pytest.raises(NewerFormat, match="evaluator 2"):
        Branches(mock.Mock(), forked)
