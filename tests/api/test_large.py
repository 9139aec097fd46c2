"""Answers stay below what Lambda may send: large values stand as their size, and a large result as a link to it."""

from __future__ import annotations

import json
from typing import Any
from unittest import mock

import pytest

from stepwell.engine.actions import Outcome
from stepwell.limits import ANSWERED_BYTES, SENT_BYTES
from stepwell.memory.blobs import MemoryBlobs
from stepwell.runtime.loop.driving import run_now
from tests.api.kit import World

FLOW = """
workflow: flow
timeline:
  - {name: small, run: python:m.small, timeout: 1m}
  - {name: large, run: python:m.large, timeout: 1m}
"""
LARGE_BYTES = 6_000_000


@pytest.fixture
def world() -> World:
    made = World(FLOW)
    made.steps.functions["python:m.small"] = lambda _: Outcome({"text": "x" * 1_000})
    made.steps.functions["python:m.large"] = lambda _: Outcome({"text": "x" * LARGE_BYTES})
    return made


def size_of(value: Any) -> int:
    return len(json.dumps(value, separators=(",", ":")).encode())


def test_a_run_with_large_values_shows_their_sizes_and_the_small_ones_whole(world: World) -> None:
    reply = world.get(f"/runs/{world.start('flow')}")
    assert reply.status == 200
    assert len(reply.text) <= ANSWERED_BYTES
    large = {"bytes": size_of({"text": "x" * LARGE_BYTES}), "link": reply.json["links"]["result"]}
    assert reply.json["result"] == {"large": large}
    assert reply.json["steps"]["large"]["output"]["large"]["bytes"] == large["bytes"]
    assert reply.json["steps"]["small"]["output"] == {"text": "x" * 1_000}


def test_a_result_is_given_whole_where_answers_may_be_large(world: World) -> None:
    reply = world.get(f"/runs/{world.start('flow')}/result")
    assert reply.json["result"] == {"text": "x" * LARGE_BYTES}


def test_a_large_result_is_handed_out_by_a_link_where_answers_may_not_be_large(world: World) -> None:
    run_id = world.start("flow")
    with mock.patch.object(MemoryBlobs, "link", autospec=True, side_effect=_link):
        reply = world.get(f"/runs/{run_id}/result")
    told = reply.json["result"]["large"]
    assert told["bytes"] == size_of({"text": "x" * LARGE_BYTES})
    reference = told["link"].removeprefix("https://blobs/")
    assert json.loads(run_now(world.parts.ports.blobs.get(reference))) == {"text": "x" * LARGE_BYTES}


async def _link(_: MemoryBlobs, reference: str) -> str:
    return f"https://blobs/{reference}"


def test_a_page_of_history_ends_before_it_is_too_large_and_the_next_one_goes_on(world: World) -> None:
    run_id, cursor, pages = world.start("flow"), "", []
    while cursor is not None:
        reply = world.get(f"/runs/{run_id}/history", **({"cursor": cursor} if cursor else {}))
        assert len(reply.text) <= ANSWERED_BYTES + 100_000
        pages.append(reply.json["items"])
        cursor = reply.json["next_cursor"]
    types = [entry["type"] for page in pages for entry in page]
    assert types.count("step.completed") == 2
    assert types[-1] == "run.completed"
    (large,) = [entry for page in pages for entry in page if entry["type"] == "run.completed"]
    assert set(large["data"]["large"]) == {"bytes", "link"}


FORKED = """
workflow: forked
nodes:
  begin: {transitions: [{to: large, foreach: "{{ [1, 2, 3] }}"}]}
  large: {run: python:m.large, timeout: 1m, output: {}, transitions: [{to: meet}]}
  meet: {fan_in: {policy: all, target: none}}
"""


def test_a_page_of_branches_ends_before_it_is_too_large_and_the_next_one_goes_on() -> None:
    """A branch that is too large alone shows the size of what it holds."""
    world = World(FORKED)
    world.steps.functions["python:m.large"] = lambda _: Outcome({"text": "x" * (LARGE_BYTES // 2)})
    run_id, cursor, sizes = world.start("forked"), "", []
    while cursor is not None:
        reply = world.get(f"/runs/{run_id}/branches", fork="0/0", **({"cursor": cursor} if cursor else {}))
        assert len(reply.text) <= ANSWERED_BYTES + 100_000
        sizes.append(len(reply.json["items"]))
        cursor = reply.json["next_cursor"]
    assert sizes == [1, 1, 1]


@pytest.mark.parametrize("path", ["", "/graph?format=json", "/history", "/explain", "/export"])
def test_no_answer_is_larger_than_what_can_be_sent(world: World, path: str) -> None:
    """What cannot be made smaller is read from a link."""
    run_id = world.start("flow")
    with mock.patch.object(MemoryBlobs, "link", autospec=True, side_effect=_link):
        where, _, query = path.partition("?")
        reply = world.get(f"/runs/{run_id}{where}", **dict([query.split("=")] if query else []))
        while reply.status == 200 and reply.json.get("next_cursor"):
            assert len(reply.text) <= SENT_BYTES
            reply = world.get(f"/runs/{run_id}{where}", cursor=reply.json["next_cursor"])
    assert len(reply.text) <= SENT_BYTES
    assert (reply.status, path) in {(200, path), (413, "/export")}
    if reply.status == 413:
        reference = reply.json["large"]["link"].removeprefix("https://blobs/")
        page = run_now(world.parts.ports.blobs.get(reference)).decode()
        assert "x" * LARGE_BYTES in page
        assert [item["token"] for item in json.loads(page)["items"]] == ["0"]
