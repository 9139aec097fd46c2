"""Frames of the live feed: how much each holds, and what a watcher may send."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwell.engine.entries import Entry
from stepwell.errors import InvalidInput
from stepwell.limits import LIVE_FRAME_BYTES
from stepwell.runtime.notify.live import LiveEntry, Topic, cursor_in, frames_of, page_frame


def entries(count: int, size_bytes: int) -> list[LiveEntry]:
    data = {"output": "\u00e9" * (size_bytes // 2)}
    return [
        LiveEntry("run", "flow", Entry(f"0@{slot}.0", slot, "step.completed", "0", trigger="internal", data=data))
        for slot in range(count)
    ]


def ids(frame: str) -> list[str]:
    return [one["entry"]["id"] for one in json.loads(frame)["entries"]]


def test_frames_hold_all_entries_in_their_order_and_none_is_larger_than_it_may_be() -> None:
    frames = list(frames_of(entries(100, 1_000)))
    assert len(frames) > 1
    assert max(len(frame.encode()) for frame in frames) <= LIVE_FRAME_BYTES
    assert [one for frame in frames for one in ids(frame)] == [f"0@{slot}.0" for slot in range(100)]
    assert list(frames_of([])) == []


def test_an_entry_that_is_too_large_for_a_frame_comes_without_its_data() -> None:
    (frame,) = frames_of(entries(1, LIVE_FRAME_BYTES))
    (told,) = json.loads(frame)["entries"]
    assert (told["data_left_out"], told["entry"]["data"], told["entry"]["id"]) == (True, None, "0@0.0")


def test_a_page_that_does_not_fit_ends_at_its_last_entry_and_has_more() -> None:
    found: dict[str, Any] = json.loads(page := page_frame(entries(100, 1_000), "0@99.3", more=False))
    assert found["more"]
    assert found["cursor"] == ids(page)[-1] != "0@99.3"
    assert json.loads(page_frame(entries(2, 10), "0@1.3", more=False))["cursor"] == "0@1.3"


@pytest.mark.parametrize(
    ("message", "after"), [("{}", None), ('{"after": null}', None), ('{"after": "0@1.0"}', "0@1.0")]
)
def test_a_watcher_sends_its_cursor_or_nothing_of_the_past(message: str, after: str | None) -> None:
    assert cursor_in(message) == after


@pytest.mark.parametrize("message", ["", "after", "[1]", '{"after": 1}', "[" * 900, '{"after": "' + "1" * 1_000 + '"}'])
def test_any_other_message_is_refused(message: str) -> None:
    with pytest.raises(InvalidInput, match="a watcher sends"):
        cursor_in(message)


@pytest.mark.parametrize(
    ("topic", "wants"), [(Topic(), True), (Topic("run"), True), (Topic("other"), False), (Topic("", "flow"), True)]
)
def test_a_topic_is_a_run_a_workflow_or_everything(topic: Topic, wants: bool) -> None:
    assert topic.wants("run", "flow") is wants
