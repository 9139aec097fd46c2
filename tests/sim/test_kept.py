"""What a schedule keeps of the records that it decoded: nobody changes one, and each version reads its own."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

from stepwell.engine import fold
from stepwell.engine.fold import apply
from stepwell.engine.records import Kind, Record
from stepwell.engine.stored.codec import encode_record
from stepwell.engine.stored.token_batches import decode_records
from stepwell.engine.token import Token
from stepwell.errors import NewerFormat
from stepwell.runtime.log import token_reader
from tests.sim import schedule
from tests.sim.kept import kept_values
from tests.sim.schedule import run_schedule
from tests.sim.versions import as_old, two_versions

EACH = 4  # schedules of each family
WITH_SNAPSHOTS = 10  # schedules, of which some read one
FIRST = sorted({0, schedule.FAMILIES, *(first for name, first in vars(schedule).items() if name.endswith("_FROM"))})

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


def record(output: object) -> Record:
    return Record(slot=0, kind=Kind.STEP, by="w", at_ms=1, node="a", output=output)


def test_a_text_is_decoded_once() -> None:
    body = encode_record(record({"n": 1}))
    with kept_values():
        first, second = decode_records(body), decode_records(body)
    assert first[0] is second[0]
    assert first is not second


def test_a_log_that_is_read_again_is_folded_once() -> None:
    """Whoever reads it begins with a token of its own."""
    body = encode_record(record(1))
    folded = mock.Mock(return_value=Token("0"))
    with mock.patch.object(fold, "apply", folded), kept_values():
        (one,) = decode_records(body)
        fold.fold([one], Token("0"))
        fold.fold([one], Token("0"))
        assert folded.call_count == 1
        fold.fold([one], Token("0.0.1"))
        assert folded.call_count == 2


def test_nobody_decodes_a_snapshot_past_what_is_kept() -> None:
    past = mock.Mock(side_effect=AssertionError("a snapshot was decoded anew"))
    with mock.patch.object(token_reader, "decode_snapshot", past):
        assert [run_schedule(seed) for seed in range(WITH_SNAPSHOTS)] == [None] * WITH_SNAPSHOTS


def test_who_changes_a_record_is_found() -> None:
    body = encode_record(record({"n": 1}))
    with kept_values() as kept:
        output = decode_records(body)[0].output
        assert kept.changed() == []
        output["n"] = 2
        assert kept.changed() == [record({"n": 2})]


@pytest.mark.parametrize("first", FIRST)
def test_nobody_changes_a_record_under_any_schedule(first: int) -> None:
    with mock.patch.object(schedule, "CHECKED", 1):
        assert [run_schedule(first + number) for number in range(EACH)] == [None] * EACH


def test_a_schedule_tells_of_a_record_that_somebody_changed() -> None:
    def changing(token: Token, after: Record) -> Token:
        writes: Any = after.writes
        if writes:
            writes["more"] = 1
        return apply(token, after)

    with mock.patch.object(schedule, "CHECKED", 1), mock.patch.object(fold, "apply", changing):
        told = [why for seed in range(20) if (why := run_schedule(seed))]
    assert any("changed what was read" in why for why in told)


def test_each_version_of_the_code_reads_for_itself() -> None:
    with two_versions(), kept_values():
        body = encode_record(record("mine"))
        assert decode_records(body)[0].output == "mine"
        with pytest.raises(NewerFormat):
            as_old(decode_records, body)
        assert decode_records(body)[0].output == "mine"
