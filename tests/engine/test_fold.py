"""Fold: a token is its records and nothing else; what was once recorded folds to the same for ever."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.engine.fold import apply, fold
from stepwell.engine.records import (
    Arm,
    Called,
    CleanUp,
    Compensate,
    End,
    Failure,
    Goto,
    Kind,
    Parked,
    Pause,
    Record,
    Resumption,
    RetryAt,
    Status,
    Topic,
)
from stepwell.engine.stored.codec import decode_record, encode_record
from stepwell.engine.stored.snapshots import decode_token, encode_token
from stepwell.engine.token import Cleaning, Token, Undoing
from stepwell.errors import EngineFault
from tests.engine.kit import NOW_MS

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.json"))


def recorded(path: Path) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return body


def records_of(golden: dict[str, Any]) -> list[Record]:
    return [decode_record(json.dumps(record)) for record in golden["records"]]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_recorded_log_folds_to_the_token_that_was_stored_with_it(path: Path) -> None:
    """A change that breaks this breaks runs that are under way: their logs were written by an earlier version."""
    golden = recorded(path)
    token = fold(records_of(golden), Token())
    assert json.loads(encode_token(token)) == golden["token"]
    assert token == decode_token(json.dumps(golden["token"]))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_recorded_log_survives_being_read_and_written(path: Path) -> None:
    golden = recorded(path)
    assert [json.loads(encode_record(record)) for record in records_of(golden)] == golden["records"]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_fold_from_any_snapshot_is_the_fold_from_the_beginning(path: Path) -> None:
    """Law 8: the fold after a crash equals the state before it."""
    records = records_of(recorded(path))
    whole = fold(records, Token())
    for cut in range(len(records) + 1):
        snapshot = decode_token(encode_token(fold(records[:cut], Token())))
        assert fold(records[cut:], snapshot) == whole


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_fields_of_a_later_version_are_passed_over(path: Path) -> None:
    golden = recorded(path)
    later = [decode_record(json.dumps(_with_more(record))) for record in golden["records"]]
    assert fold(later, Token()) == fold(records_of(golden), Token())
    assert decode_token(json.dumps(_with_more(golden["token"]))) == decode_token(json.dumps(golden["token"]))


PARTS = {"next", "parked", "error", "resumption", "last", "pause", "asked_by_step"}


def _with_more(value: dict[str, Any]) -> dict[str, Any]:
    """A field that nobody knows, in the record and in each of its parts."""
    inner = {key: _with_more(part) if key in PARTS and isinstance(part, dict) else part for key, part in value.items()}
    return {**inner, "of_a_later_version": [1]}


def test_a_gap_in_the_slots_is_a_fault() -> None:
    record = Record(1, Kind.STEP, "w", NOW_MS, "a", next=Goto("b"))
    with pytest.raises(EngineFault) as refused:
        apply(Token(), record)
    assert refused.value.code == "gap_in_log"
    with pytest.raises(EngineFault):
        fold([replace(record, slot=0), replace(record, slot=0)], Token())


def test_a_step_s_view_keeps_when_its_first_attempt_began_and_forgets_the_visit_before() -> None:
    def attempt(slot: int, number: int, following: Any, started_ms: int) -> Record:
        error = Failure("E", "step", "x") if isinstance(following, RetryAt) else None
        return Record(slot, Kind.STEP, "w", NOW_MS + slot, "a", attempt=number, started_ms=started_ms, error=error,
                      next=following)  # fmt: skip

    token = fold([attempt(0, 1, RetryAt(0), 10), attempt(1, 2, Goto("a"), 20)], Token())
    assert (token.steps["a"].started_ms, token.steps["a"].attempts) == (10, 2)
    token = apply(token, attempt(2, 1, Goto("a"), 30))
    assert (token.steps["a"].started_ms, token.steps["a"].attempts) == (30, 1)
    assert token.visits == {"a": 3}


def test_a_step_that_asks_for_a_pause_has_written_nothing_yet() -> None:
    """It runs again once the pause is over, and what it returns then counts."""
    before = fold([Record(0, Kind.STEP, "w", NOW_MS, "a", output=1, next=Goto("b"))], Token())
    asks = Record(1, Kind.STEP, "w", NOW_MS, "b", attempt=1, output=2, next=Pause("approval"))
    after = apply(before, asks)
    assert (after.scope, after.result) == ({"a": 1}, 1)


def test_a_wait_is_forgotten_when_its_node_is_left() -> None:
    parked = Parked("event", (Arm("event"),))
    log = [
        Record(0, Kind.WAITING, "w", NOW_MS, "hold", parked=parked, attempt=2),
        Record(1, Kind.RESUMED, "w", NOW_MS, "hold", resumption=Resumption("event")),
        Record(2, Kind.MOVED, "w", NOW_MS, "hold", next=Goto("b")),
    ]
    token = fold(log, Token())
    assert (token.parked, token.resumption, token.waited, token.acted) == (None, None, 0, 0)


def test_a_token_that_is_cancelled_shows_what_it_was_at_as_cancelled() -> None:
    parked = Parked("event", (Arm("event"),))
    log = [
        Record(0, Kind.WAITING, "w", NOW_MS, "hold", parked=parked),
        Record(1, Kind.ENDED, "c", NOW_MS + 5, "hold", next=End(Status.CANCELLED)),
    ]
    view = fold(log, Token()).steps["hold"]
    assert (view.status, view.ended_ms) == ("cancelled", NOW_MS + 5)


def test_a_step_that_has_completed_stays_so_when_its_token_is_cancelled() -> None:
    log = [
        Record(0, Kind.STEP, "w", NOW_MS, "a", output=1, next=Goto("a")),
        Record(1, Kind.ENDED, "c", NOW_MS + 5, "a", next=End(Status.CANCELLED)),
    ]
    assert fold(log, Token()).steps["a"].status == "completed"


def test_a_step_of_the_clean_up_is_a_new_visit_though_the_step_before_it_had_its_name() -> None:
    """Else it would have the interrupted step's idempotency key, and be taken for that one."""
    broken = Failure("E", "transient", "x")
    log = [
        Record(0, Kind.STEP, "w", NOW_MS, "a", attempt=1, error=broken, next=RetryAt(NOW_MS + 60_000)),
        Record(1, Kind.ENDED, "c", NOW_MS, next=CleanUp(Status.CANCELLED, NOW_MS + 30_000)),
        Record(2, Kind.STEP, "w", NOW_MS, "a", attempt=1, next=Goto("f")),
    ]
    before = fold(log[:2], Token())
    began = apply(before, replace(log[2], kind=Kind.BEGAN, next=None))
    assert (before.entered_slot, before.visits) == (0, {"a": 1})
    assert (began.entered_slot, began.visits) == (2, {"a": 2})


def test_what_a_function_has_written_is_seen_while_it_waits() -> None:
    parked = Parked("event", (Arm("event"),), of_function=True)
    log = [
        Record(0, Kind.WAITING, "w", NOW_MS, "hold", parked=parked, writes={"n": 1, "kept": True}),
        Record(1, Kind.RESUMED, "w", NOW_MS, "hold", resumption=Resumption("event")),
        Record(2, Kind.WAITING, "w", NOW_MS, "hold", parked=parked, writes={"n": 2}),
    ]
    assert fold(log, Token()).scope == {"n": 2, "kept": True}


# -- the codec: whatever a record may hold comes back as it was

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_ints = st.integers(-(2**63), 2**63 - 1)
_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | _ints | st.floats(allow_nan=False, allow_infinity=False) | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=6,
)
_failures = st.builds(Failure, _texts, _texts, _texts, _texts, st.integers(0, 99), _json)
_pauses = st.builds(
    Pause, st.sampled_from(["sleep", "approval", "event"]), _texts, _texts, _json, st.none() | _ints, _json,
    st.sampled_from(["next", "again"]),
)  # fmt: skip
_ends = st.builds(End, st.sampled_from(Status), st.none() | _failures)
_undos = st.builds(Compensate, st.sampled_from(Status), st.none() | _failures)
_clean_ups = st.builds(CleanUp, st.sampled_from(Status), _ints)
_nexts = st.builds(Goto, _texts) | _clean_ups | st.builds(RetryAt, _ints) | _pauses | _ends | _undos
_names = st.lists(_texts, max_size=2).map(tuple)
_arms = st.builds(
    Arm, _texts, st.lists(st.builds(Topic, _texts, _texts), max_size=2).map(tuple), _texts, _texts, _names,
    st.integers(1, 3),
)  # fmt: skip
_children = st.lists(st.builds(Called, _texts, _texts, _json), max_size=2).map(tuple)
_parked = st.builds(
    Parked, _texts, st.lists(_arms, max_size=2).map(tuple), st.none() | _ints, st.none() | st.integers(0, 3), _json,
    _ints, st.none() | _pauses, _children, st.booleans(), st.none() | _ints, st.none() | _ints, _names,
)  # fmt: skip
_resumptions = st.builds(Resumption, _texts, st.integers(0, 3), _texts, _json, _texts, _texts, _texts, _texts)
_records = st.builds(
    Record,
    slot=st.integers(0, 10**6),
    kind=st.sampled_from(Kind),
    by=_texts,
    at_ms=_ints,
    node=_texts,
    attempt=st.integers(0, 99),
    started_ms=_ints,
    output=_json,
    error=st.none() | _failures,
    skipped=st.booleans(),
    writes=st.dictionaries(_texts, _json, max_size=3),
    rules=st.lists(_texts, max_size=3).map(tuple),
    next=st.none() | _nexts,
    parked=st.none() | _parked,
    resumption=st.none() | _resumptions,
    undid=_texts,
    reason=_texts,
    who=_texts,
)


@given(_records)
def test_a_record_comes_back_from_its_line_as_it_was(record: Record) -> None:
    line = encode_record(record)
    assert "\n" not in line
    back = decode_record(line)
    assert back == record
    assert repr(back) == repr(record)  # True is no 1, and 1.0 no 1


@given(_records, st.dictionaries(_texts, _json, max_size=4), _json)
def test_a_snapshot_comes_back_as_it_was(record: Record, scope: dict[str, Any], result: Any) -> None:
    token = Token(
        slot=record.slot, last=record, node=record.node, scope=scope, result=result, error=record.error,
        parked=record.parked, resumption=record.resumption, visits={"a": 2}, rule_uses={"a.branch[0]": 1},
        end=record.next if isinstance(record.next, End) else None,
        received=() if record.resumption is None else (record.resumption,), received_slot=3, seen={"paid#": ("1:a",)},
        undoing=Undoing(Status.FAILED, record.error, "why", "ana", ("0@3",)), began_slot=7,
        cleaning=Cleaning(Status.CANCELLED, 5, "why", "ana"),
    )  # fmt: skip
    assert repr(decode_token(encode_token(token))) == repr(token)


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}, 0.0])
def test_empty_values_are_values(value: Any) -> None:
    record = Record(0, Kind.STEP, "w", NOW_MS, "a", output=value, next=Goto("b"))
    assert repr(decode_record(encode_record(record)).output) == repr(value)


def test_a_number_that_is_not_finite_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode_record(Record(0, Kind.STEP, "w", NOW_MS, "a", output=float("nan"), next=Goto("b")))


def test_the_line_of_a_plain_step_is_short() -> None:
    line = encode_record(
        Record(3, Kind.STEP, "wake:0:-1", NOW_MS, "charge", 1, NOW_MS, {"ok": True}, next=Goto("ship"))
    )
    assert len(line) < 180
