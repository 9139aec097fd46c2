"""GET /runs/{id}/export: all that a replay reads, page by page."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.engine.actions import Outcome
from stepwell.engine.records import ROOT
from stepwell.runtime.calls import exporting
from stepwell.runtime.log.claims import fetch
from stepwell.runtime.ports import Blobs
from tests.api.kit import World

NESTED = """
workflow: nested
nodes:
  begin: {transitions: [{to: charge, foreach: "[1, 2, 3]"}]}
  charge: {run: python:shop.charge, transitions: [{to: half, foreach: "[1, 2]"}]}
  half: {run: python:shop.charge, transitions: [{to: both}]}
  both: {fan_in: {policy: all}, transitions: [{to: all_in}]}
  all_in: {fan_in: {policy: all}, transitions: [{to: again, foreach: "[1, 2]"}]}
  again: {run: python:shop.charge, transitions: [{to: last}]}
  last: {fan_in: {policy: all}}
"""


@pytest.fixture
def world() -> World:
    made = World(NESTED)
    made.steps.functions["python:shop.charge"] = lambda call: Outcome(1)
    return made


def exported(world: World, run_id: str, limit: int) -> list[Any]:
    lines: list[Any] = []
    more: dict[str, str] = {}
    while True:
        page = world.get(f"/runs/{run_id}/export", limit=limit, **more).json
        assert 0 < len(page["items"]) <= limit
        lines += page["items"]
        if page["next_cursor"] is None:
            return lines
        more = {"cursor": page["next_cursor"]}


def test_an_export_has_the_runs_facts_and_then_every_record_of_every_token(world: World) -> None:
    run_id = world.start("nested", input={"a": 1}, tags={"team": "a"})
    first, *records = exported(world, run_id, 500)
    assert first["format"] == exporting.FORMAT
    assert first["definition"]["workflow"] == "nested"
    assert (first["run"]["input"], "tags" in first["run"]) == ({"a": 1}, False)
    stored = {token: len(log.records) for (_, token), log in world.store._logs.items()}
    assert {token: sum(one["token"] == token for one in records) for token in stored} == stored
    assert len(stored) == 1 + 3 * 3 + 2


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_pages_of_any_size_give_the_same_lines(world: World, limit: int) -> None:
    run_id = world.start("nested")
    assert exported(world, run_id, limit) == exported(world, run_id, 500)


def test_a_page_ends_where_it_would_be_too_large_to_send(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = world.start("nested")
    whole = exported(world, run_id, 500)
    monkeypatch.setattr(exporting, "EXPORT_BYTES", 1)
    assert len(world.get(f"/runs/{run_id}/export").json["items"]) == 1
    assert exported(world, run_id, 500) == whole


def test_a_page_reads_the_large_bodies_that_it_has_room_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = world.start("nested")
    lines = exported(world, run_id, 500)
    read: list[str] = []

    async def counted(body: str, blobs: Blobs) -> str:
        read.append(body)
        return await fetch(body, blobs)

    monkeypatch.setattr(exporting, "fetch", counted)
    monkeypatch.setattr(exporting, "EXPORT_BYTES", 1)
    assert world.get(f"/runs/{run_id}/export", limit=2).json["items"] == lines[:1]
    assert len(read) == 1
    assert sum(line.get("token") == ROOT for line in lines) > 1


@pytest.mark.parametrize("cursor", ["0", "1@2", "0/3@1", "0@-2", "0/1.2.3@1"])
def test_what_is_no_cursor_is_refused(world: World, cursor: str) -> None:
    run_id = world.start("nested")
    assert world.get(f"/runs/{run_id}/export", cursor=cursor).status == 422


def test_an_unknown_run_has_no_export(world: World) -> None:
    assert world.get("/runs/run_none/export").status == 404
