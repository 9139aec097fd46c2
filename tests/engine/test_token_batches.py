"""Batches of one token: what one append writes is read as the records that it holds."""

from __future__ import annotations

import json

import pytest

from stepwell.engine.copying import changed
from stepwell.engine.records import Failure, Goto, Kind, Record, RetryAt
from stepwell.engine.stored import formats
from stepwell.engine.stored.token_batches import decode_records, encode_records, is_batch
from stepwell.errors import EngineFault, NewerFormat

BY, AT_MS = "wake:0:3", 1_700_000_000_000
BATCH = [
    Record(4, Kind.STEP, BY, AT_MS, "a", 1, AT_MS - 3, output={"n": 1}, next=Goto("b")),
    Record(5, Kind.MOVED, BY, AT_MS + 2, "b", writes={"b": True}, rules=("b.next",), next=Goto("c")),
    Record(6, Kind.STEP, BY, AT_MS + 9, "c", 2, AT_MS + 2, error=Failure("Broken", "step", "no luck", "c", 2),
           next=RetryAt(AT_MS + 1_000), together=3),
]  # fmt: skip
STORED = (  # as this release has written it: a later one reads it for good
    '{"batch":4,"count":3,"at_ms":1700000000000,"same":{"by":"wake:0:3"},'
    '"each":{"kind":["step","moved","step"],"at_ms":[0,2,9],"node":["a","b","c"],'
    '"next":[{"to":"b"},{"to":"c"},{"retry_at_ms":1700000001000}]},'
    '"rest":[{"attempt":1,"started_ms":-3,"output":{"n":1}},{"writes":{"b":true},"rules":["b.next"]},'
    '{"attempt":2,"started_ms":2,"together":3,'
    '"error":{"type":"Broken","category":"step","message":"no luck","step":"c","attempts":2}}],"v":3}'
)


def test_what_was_stored_is_read_for_good() -> None:
    assert decode_records(STORED) == BATCH
    assert json.loads(encode_records(BATCH)) == json.loads(STORED)


def test_a_single_record_is_stored_as_ever() -> None:
    body = encode_records(BATCH[:1])
    assert not is_batch(body)
    assert decode_records(body) == BATCH[:1]
    assert json.loads(body)["v"] == formats.FORMAT


def test_equal_results_are_there_once_and_none_of_them_changes_its_type() -> None:
    alike = [changed(BATCH[0], slot=4 + place, output=output) for place, output in enumerate((1, True, 1.0, 1))]
    assert [repr(one.output) for one in decode_records(encode_records(alike))] == ["1", "True", "1.0", "1"]
    same = [changed(BATCH[0], slot=4 + place) for place in range(10)]
    assert len(encode_records(same)) < 1.2 * len(encode_records(same[:2]))


def test_ten_small_steps_fit_into_a_write_unit() -> None:
    steps = [changed(BATCH[0], slot=place, node=f"step_{place}", at_ms=AT_MS + place, next=Goto(f"step_{place + 1}"))
             for place in range(10)]  # fmt: skip
    assert len(encode_records(steps)) < 800


def test_a_batch_of_a_newer_format_is_left_to_newer_code() -> None:
    with pytest.raises(NewerFormat):
        decode_records(STORED.replace('"v":3', f'"v":{formats.NEWEST + 1}'))


@pytest.mark.parametrize("body", ['{"batch":4}', '{"batch":4,"count":2,"v":3}', '{"batch":', '{"batch":4,"v":"x"}'])
def test_a_broken_batch_is_the_fault_of_its_run_alone(body: str) -> None:
    with pytest.raises(EngineFault):
        decode_records(body)
