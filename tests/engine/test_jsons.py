"""The encoder of records writes what the standard library's does, and a record is read whatever surrounds it."""

from __future__ import annotations

import json

import pytest

from stepwell.engine.records import Kind, Record
from stepwell.engine.stored.codec import decode_record, encode_record
from stepwell.engine.stored.jsons import fast_encoder
from stepwell.errors import EngineFault

VALUES = [None, True, 1, -(2**63), 1.5, "", 'é\n"', [], {}, [1, {"b": [None]}], {"z": 1, "a": {"y": 2}}]
RECORD = Record(0, Kind.STEP, "wake:0:-1", 1, "pay", output={"é": [1]})


@pytest.mark.parametrize("value", VALUES, ids=str)
@pytest.mark.parametrize("options", [{"sort_keys": True}, {"separators": (",", ":"), "ensure_ascii": False}], ids=str)
def test_an_encoder_that_is_made_once_writes_the_same(value: object, options: dict[str, object]) -> None:
    encoder = json.JSONEncoder(check_circular=False, **options)  # type: ignore[arg-type]  # of several types
    assert fast_encoder(encoder)(value) == encoder.encode(value)


def test_it_refuses_what_the_other_refuses() -> None:
    encode = fast_encoder(json.JSONEncoder(allow_nan=False, check_circular=False))
    with pytest.raises(ValueError, match="JSON"):
        encode(float("nan"))
    with pytest.raises(TypeError, match="serializable"):
        encode({"a": object()})


def test_a_record_with_space_around_it_is_read_and_one_with_text_behind_it_is_not() -> None:
    body = encode_record(RECORD)
    assert decode_record(f"\n {body} ") == RECORD
    for broken in (f"{body}]", body[:-1], ""):
        with pytest.raises(EngineFault):
            decode_record(broken)
