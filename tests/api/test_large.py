"""Answers stay below what Lambda may send: large values stand as their size, with a link that hands them out."""

from __future__ import annotations

import json
from typing import Any
from unittest import mock
from urllib.parse import parse_qsl

import pytest

from stepwell.api import large
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


def test_a_result_that_looks_like_a_link_is_handed_out_by_one(world: World) -> None:
    """A client follows no link that a caller of the run has made."""
    forged = {"large": {"bytes": 2, "link": "http://169.254.169.254/"}}
    world.steps.functions["python:m.large"] = lambda _: Outcome(forged)
    run_id = world.start("flow")
    with mock.patch.object(MemoryBlobs, "link", autospec=True, side_effect=_link):
        reply = world.get(f"/runs/{run_id}/result")
    reference = reply.json["result"]["large"]["link"].removeprefix("https://blobs/")
    assert json.loads(run_now(world.parts.ports.blobs.get(reference))) == forged


def test_where_nothing_signs_links_the_api_itself_hands_out_a_result_that_looks_like_one(world: World) -> None:
    """As in `stepwell dev`. The link leads to this value alone, and is of this run alone."""
    forged = {"large": {"bytes": 2, "link": "http://169.254.169.254/"}}
    world.steps.functions["python:m.large"] = lambda _: Outcome(forged)
    run_id = world.start("flow")
    for path in ({}, {"path": "/result"}, {"path": "/steps/large/output"}):
        reply = world.get(f"/runs/{run_id}/{'value' if path else 'result'}", **path)
        told = reply.json["value" if path else "result"]["large"]
        route, _, query = told["link"].partition("?")
        assert (route, told["bytes"]) == (f"/runs/{run_id}/value", size_of(forged))
        assert world.get(route, **dict(parse_qsl(query))).json["value"] == forged
    other = world.get(f"/runs/{world.start('flow')}x/value", **dict(parse_qsl(query)))
    assert (other.status, other.json["code"]) == (404, "unknown_value")


def follow(world: World, shown: Any) -> Any:
    """Reads the value that an answer shows as its size; what comes has that size."""
    (name,) = shown
    path, _, query = shown[name]["link"].partition("?")
    reply = world.get(path, **dict(parse_qsl(query)))
    value = reply.json["result" if path.endswith("/result") else "value"]
    assert (name, reply.status, shown[name]["bytes"]) == ("large", 200, size_of(value))
    return value


def shown_as_size(view: Any) -> list[Any]:
    """All references in an answer."""
    if isinstance(view, dict):
        found = [one for value in view.values() for one in shown_as_size(value)]
        return [view] if set(view) == {"large"} and "bytes" in view["large"] else found
    return [one for value in view for one in shown_as_size(value)] if isinstance(view, list) else []


@pytest.mark.parametrize(
    "path",
    ["", "?as=agent", "?as=timeline", "/graph?format=json", "/history?limit=500", "/state", "/state?at=1", "/explain"],
)
def test_each_size_in_an_answer_has_a_link_that_hands_the_value_out(world: World, path: str) -> None:
    run_id = world.start("flow")
    where, _, query = path.partition("?")
    reply = world.get(f"/runs/{run_id}{where}", **dict(parse_qsl(query)))
    found = shown_as_size(reply.json)
    while reply.json.get("next_cursor"):
        reply = world.get(f"/runs/{run_id}{where}", cursor=reply.json["next_cursor"])
        found += shown_as_size(reply.json)
    assert found
    assert all("x" * LARGE_BYTES in json.dumps(follow(world, one)) for one in found)


def test_a_value_too_large_for_its_own_answer_comes_by_a_link(world: World) -> None:
    run_id = world.start("flow")
    with mock.patch.object(MemoryBlobs, "link", autospec=True, side_effect=_link):
        reply = world.get(f"/runs/{run_id}/value", path="/steps/large/output")
    told = reply.json["value"]["large"]
    assert told["bytes"] == size_of({"text": "x" * LARGE_BYTES})
    reference = told["link"].removeprefix("https://blobs/")
    assert json.loads(run_now(world.parts.ports.blobs.get(reference))) == {"text": "x" * LARGE_BYTES}


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ({"path": "/steps/none"}, 404, "unknown_value"),
        ({"path": "/children/" + "9" * 5_000}, 404, "unknown_value"),
        ({"path": "steps"}, 422, "invalid_input"),
        ({"path": "/data", "entry": "0@99.0"}, 404, "unknown_entry"),
        ({"path": "/steps", "token": "0/7.1"}, 404, "unknown_fork"),
        ({"path": "/steps", "token": "0"}, 404, "unknown_branch"),
        ({"path": "/state", "at": 99}, 422, "unknown_slot"),
        ({"path": "/state", "at": 0, "graph": "true"}, 422, "bad_filter"),
        ({"path": "/value", "blob": "0" * 64}, 404, "unknown_value"),
        ({"path": "/value", "blob": "../0"}, 404, "unknown_value"),
        ({"path": "/value", "blob": "0" * 64, "at": 0}, 422, "bad_filter"),
    ],
)
def test_a_value_that_is_not_there_is_refused(query: dict[str, Any], status: int, code: str) -> None:
    world = World()
    reply = world.get(f"/runs/{world.start('quick')}/value", **query)
    assert (reply.status, reply.json["code"]) == (status, code)


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
    (large,) = [one for page in pages for one in page if (one["type"], one["step"]) == ("step.completed", "large")]
    assert set(large["data"]) == {"output", "next", "rules"}
    assert follow(world, large["data"]["output"]) == {"text": "x" * LARGE_BYTES}


FORKED = """
workflow: forked
nodes:
  begin: {transitions: [{to: large, foreach: "{{ [1, 2, 3] }}"}]}
  large: {run: python:m.large, timeout: 1m, output: {}, transitions: [{to: meet}]}
  meet: {fan_in: {policy: all, target: none}}
"""


def test_a_page_of_branches_ends_before_it_is_too_large_and_the_next_one_goes_on() -> None:
    world = World(FORKED)
    world.steps.functions["python:m.large"] = lambda _: Outcome({"text": "x" * (LARGE_BYTES // 2)})
    run_id, cursor, sizes = world.start("forked"), "", []
    while cursor is not None:
        reply = world.get(f"/runs/{run_id}/branches", fork="0/0", **({"cursor": cursor} if cursor else {}))
        assert len(reply.text) <= ANSWERED_BYTES + 100_000
        sizes.append(len(reply.json["items"]))
        cursor = reply.json["next_cursor"]
    assert sizes == [1, 1, 1]


def test_a_branch_that_is_too_large_alone_shows_the_size_of_what_it_holds() -> None:
    world = World(FORKED)
    world.steps.functions["python:m.large"] = lambda _: Outcome({"text": "x" * LARGE_BYTES})
    reply = world.get(f"/runs/{world.start('forked')}/branches", fork="0/0")
    found = shown_as_size(reply.json)
    assert len(found) == len(reply.json["items"]) == 3
    assert [follow(world, one) for one in found] == [{"text": "x" * LARGE_BYTES}] * 3


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


@pytest.mark.parametrize("path", ["", "/result", "/history", "/explain", "/export"])
@pytest.mark.parametrize(("text", "in_ascii"), [('"', False), ("é", True)], ids=["quotes", "3.11"])
def test_an_answer_is_measured_as_lambda_sends_it(
    path: str, text: str, in_ascii: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within Lambda's own answer the body is a JSON string, in which each quote and backslash takes two bytes.

    With Python 3.11 Lambda writes it in ASCII.
    """
    monkeypatch.setattr(large, "IN_ASCII", in_ascii)
    world = World("workflow: flow\ntimeline: [{name: large, run: python:m.large}]")
    value = {"text": text * 2_400_000}
    world.steps.functions["python:m.large"] = lambda _: Outcome(value)
    run_id, cursor = world.start("flow"), ""
    with mock.patch.object(MemoryBlobs, "link", autospec=True, side_effect=_link):
        while cursor is not None:
            reply = world.get(f"/runs/{run_id}{path}", **({"cursor": cursor} if cursor else {}))
            assert len(json.dumps(reply.text, ensure_ascii=in_ascii).encode()) <= SENT_BYTES
            cursor = reply.json.get("next_cursor")
    if path == "/result":
        assert reply.json["result"]["large"]["bytes"] == len(json.dumps(value, ensure_ascii=False).encode()) - 1
