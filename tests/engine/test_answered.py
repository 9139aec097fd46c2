"""Steps that are answered by a callback, by their log, which older code leaves alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwell.engine.fold import fold
from stepwell.engine.stored import formats
from stepwell.engine.stored.batches import Batch, encode_batch
from stepwell.engine.stored.codec import decode_record
from stepwell.engine.stored.snapshots import encode_token
from stepwell.engine.token import Token
from stepwell.errors import NewerFormat
from tests.engine.golden_answered import FILE, recorded_answered
from tests.engine.golden_logs import folded


def log() -> list[dict[str, Any]]:
    (run,) = json.loads(FILE.read_text(encoding="utf-8"))["runs"].values()
    return list(run["logs"]["0"])


def test_a_golden_log_of_answered_steps_is_read_as_it_was_meant_and_still_written() -> None:
    """Where this fails, stored data changes: see CONTRIBUTING, "Change stored data"."""
    golden: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    assert recorded_answered() == golden
    assert folded(golden) == golden["tokens"]


def test_the_records_of_their_waits_carry_the_newer_format_and_older_code_leaves_them_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a worker of an older version would join what comes with nothing, as for a directive, and hear no silence."""
    numbers = [(one["kind"], one[formats.KEY]) for one in log()]
    assert numbers[:4] == [("step", 8), ("waiting", 8), ("resumed", formats.FORMAT), ("moved", formats.FORMAT)]
    records = [decode_record(json.dumps(one)) for one in log()]
    assert json.loads(encode_token(fold(records[:3], Token())))[formats.KEY] == formats.ANSWERED
    assert json.loads(encode_batch(Batch({3: records[0]}), "0/1"))[formats.KEY] == formats.ANSWERED
    monkeypatch.setattr(formats, "NEWEST", formats.DONE)
    with pytest.raises(NewerFormat):
        decode_record(json.dumps(log()[0]))
