"""A step whose output could not be written, by its log: it is undone, and older code leaves its record alone."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from stepwell.engine.fold import fold
from stepwell.engine.stored import formats
from stepwell.engine.stored.batches import Batch, encode_batch
from stepwell.engine.stored.codec import decode_record
from stepwell.engine.stored.snapshots import encode_token
from stepwell.engine.token import Token
from stepwell.errors import NewerFormat
from tests.engine.golden_done import FILE, recorded_done
from tests.engine.golden_logs import folded


def log() -> list[dict[str, Any]]:
    golden = json.loads(FILE.read_text(encoding="utf-8"))
    (run,) = golden["runs"].values()
    return list(run["logs"]["0"])


def test_a_golden_log_of_such_a_step_is_read_as_it_was_meant_and_still_written() -> None:
    """Where this fails, stored data changes: see CONTRIBUTING, "Change stored data"."""
    golden: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    assert recorded_done() == golden
    assert folded(golden) == golden["tokens"]


def test_its_record_alone_carries_the_newer_format_and_older_code_leaves_it_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else old and new workers would count other steps as undone, in one and the same rollback."""
    assert [one[formats.KEY] for one in log()] == [formats.DONE, formats.FORMAT]
    token = fold([decode_record(json.dumps(log()[0]))], Token())
    assert json.loads(encode_token(token))[formats.KEY] == formats.DONE
    monkeypatch.setattr(formats, "NEWEST", formats.FINISHING)
    with pytest.raises(NewerFormat):
        decode_record(json.dumps(log()[0]))


def test_a_lane_with_such_a_record_carries_the_newer_format_too() -> None:
    record = decode_record(json.dumps(log()[0]))
    assert json.loads(encode_batch(Batch({3: record}), "0/1"))[formats.KEY] == formats.DONE
    assert json.loads(encode_batch(Batch({3: replace(record, is_done=False)}), "0/1"))[formats.KEY] == formats.GATHERED


def test_expressions_see_no_output_of_it() -> None:
    token = fold([decode_record(json.dumps(log()[0]))], Token())
    assert (token.steps["pay"].output, token.result, dict(token.scope)) == (None, None, {})
