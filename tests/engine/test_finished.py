"""What tasks had finished when their run failed, by the log of the redriven one: named, taken once, in order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from stepwell.engine.durable.finished import UNKNOWN, made_at, makers_of, path_of, task_name
from stepwell.engine.fold import fold
from stepwell.engine.records import Kind, Record
from stepwell.engine.stored import formats
from stepwell.engine.stored.codec import decode_record
from stepwell.engine.stored.snapshots import decode_snapshot, encode_token
from stepwell.engine.token import Token
from stepwell.errors import NewerFormat
from tests.engine.golden_finished import FILE, recorded_finished
from tests.engine.golden_logs import folded


def redriven() -> list[dict[str, Any]]:
    """The log of the run that was redriven, without its branches."""
    golden = json.loads(FILE.read_text(encoding="utf-8"))
    return list([*golden["runs"].values()][1]["logs"]["0"])


def records() -> list[Record]:
    return [decode_record(json.dumps(one)) for one in redriven()]


def left() -> Iterator[dict[str, int]]:
    """How many results each task may still take, after each record from the redrive on."""
    token = Token()
    for record in records():
        token = fold([record], token)
        if record.slot >= mark():
            yield {task: len(found) for task, found in token.finished.items()}


def mark() -> int:
    return next(record.slot for record in records() if record.kind is Kind.REDRIVEN)


def test_a_golden_log_of_finished_steps_is_read_as_it_was_meant_and_still_written() -> None:
    """Where this fails, stored data changes: see CONTRIBUTING, "Change stored data"."""
    golden: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    assert recorded_finished() == golden
    assert folded(golden) == golden["tokens"]


def test_each_task_takes_its_results_in_order_and_none_is_left() -> None:
    found = list(left())
    assert found[0] == {"2": 2, "3": 2}
    assert [sum(one.values()) for one in found] == sorted((sum(one.values()) for one in found), reverse=True)
    assert found[-1] == {}


def test_only_the_records_that_name_results_carry_the_newer_format_and_older_code_leaves_them_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = redriven()
    newer = [one["slot"] for one in log if one[formats.KEY] == formats.FINISHING]
    assert newer == [mark(), *(one.slot for one in records() if getattr(one.next, "taken", ()))]
    monkeypatch.setattr(formats, "NEWEST", formats.FREEING)
    with pytest.raises(NewerFormat):
        decode_record(json.dumps(log[mark()]))


def test_a_snapshot_keeps_what_is_left_to_take() -> None:
    token = fold(records()[: mark() + 1], Token())
    kept = decode_snapshot(encode_token(token))
    assert kept is not None
    assert kept.finished == token.finished
    assert json.loads(encode_token(token))[formats.KEY] == formats.FINISHING


def test_a_task_s_name_says_who_made_it_and_in_reaction_to_what() -> None:
    first = task_name(task_name("", 2, 0), 1, 7)
    assert (first, path_of(first)) == ("2@0.1@7", "2.1")
    assert [*made_at(first)] == [("", 0), ("2", 7)]
    assert [*makers_of("2.1")] == ["2.1", "2", ""]


def test_a_task_far_down_a_chain_of_tasks_has_no_name() -> None:
    name = ""
    for slot in range(20):
        name = task_name(name, 1, 100 + slot)
    assert name == UNKNOWN
    assert [*made_at(name)] == []
