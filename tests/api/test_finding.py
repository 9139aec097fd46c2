"""Runs that are found by what they were made of: an original, or the key of their start."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.runtime.loop.driving import run_now
from tests.api.kit import World

DIGEST = """
workflow: digest
debounce: {period: 1m}
timeline:
  - {name: send, run: python:shop.charge, timeout: 1m}
"""


def listed(world: World, **query: Any) -> list[tuple[str, str]]:
    """The kind of origin and the id of each run."""
    items = world.get("/runs", **query).json["items"]
    return [((one["origin"] or {}).get("kind", ""), one["run_id"]) for one in items]


@pytest.fixture
def reads(world: World, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is read of the store from now on."""
    found: list[str] = []
    for name in ("get_run", "pending_events", "list_runs", "load"):
        call = getattr(world.store, name)

        async def counted(*given: Any, name: str = name, call: Any = call, **named: Any) -> Any:
            found.append(name)
            return await call(*given, **named)

        monkeypatch.setattr(world.store, name, counted)
    return found


def test_the_runs_made_of_a_run_are_listed_with_how_they_were_made(world: World, reads: list[str]) -> None:
    """The newest first, its redrive last; not those that were made of these. One query, and a header for each."""
    run_id = world.start("fails")
    again = world.post(f"/runs/{run_id}/rerun").json["run_id"]
    fork = world.post(f"/runs/{run_id}/fork", {"at": 0}).json["run_id"]
    redriven = world.post(f"/runs/{run_id}/redrive", {}).json["run_id"]
    world.post(f"/runs/{again}/rerun")
    reads.clear()
    found = listed(world, origin=run_id)
    assert sorted(found[:2]) == sorted([("rerun", again), ("fork", fork)])
    assert found[2:] == [("redrive", redriven)]
    assert sorted(reads) == ["get_run"] * 4 + ["pending_events"]  # the original's header among them
    assert [one for one, _ in listed(world, origin=again)] == ["rerun"]


def test_the_runs_made_of_a_run_come_in_pages(world: World) -> None:
    run_id = world.start("quick")
    made = {world.post(f"/runs/{run_id}/rerun").json["run_id"] for _ in range(3)}
    first = world.get("/runs", origin=run_id, limit=2).json
    second = world.get("/runs", origin=run_id, limit=2, cursor=first["next_cursor"]).json
    assert {one["run_id"] for one in (*first["items"], *second["items"])} == made
    assert second["next_cursor"] is None


def test_a_run_that_nothing_was_made_of_has_none(world: World) -> None:
    assert listed(world, origin=world.start("quick")) == []
    assert world.get("/runs", origin="nobody").status == 404


def test_what_tells_of_them_goes_with_the_original(world: World) -> None:
    run_id = world.start("quick")
    again = world.post(f"/runs/{run_id}/rerun").json["run_id"]
    world.drain()
    assert world.delete(f"/runs/{run_id}").status == 200
    assert again in world.stored()
    assert "stepwell.kin" not in world.stored()


def test_a_run_is_found_by_the_key_of_its_start(world: World, reads: list[str]) -> None:
    """A key is one of its workflow's. Its run's id is computed: one header is read, and no list."""
    run_id = world.post("/workflows/quick/runs", {}, {"Idempotency-Key": "A-1001"}).json["run_id"]
    world.post("/workflows/quick/runs", {}, {"Idempotency-Key": "A-1002"})
    world.drain()
    reads.clear()
    assert listed(world, workflow="quick", key="A-1001") == [("", run_id)]
    assert sorted(reads) == ["get_run", "pending_events"]
    assert listed(world, workflow="fails", key="A-1001") == []
    assert listed(world, workflow="quick", key="A-1001", status="failed") == []


def test_a_start_that_became_part_of_a_run_is_found_by_its_key() -> None:
    world = World(DIGEST)
    first = world.post("/workflows/digest/runs", {}, {"Idempotency-Key": "a"}).json["run_id"]
    assert world.post("/workflows/digest/runs", {}, {"Idempotency-Key": "b"}).json["run_id"] == first
    assert [run_id for _, run_id in listed(world, workflow="digest", key="b")] == [first]
    assert run_now(world.store.get_run(first)) is not None


@pytest.mark.parametrize(
    "query",
    [{"key": "a"}, {"key": "a", "workflow": "quick", "parent": "run"}, {"origin": "run", "sort": "waiting_until"}],
)
def test_filters_that_do_not_go_together_are_refused(world: World, query: dict[str, str]) -> None:
    reply = world.get("/runs", **query)
    assert reply.status == 422
    assert reply.json["hint"]


def test_an_empty_key_finds_nothing_and_is_refused(world: World) -> None:
    refused = world.get("/runs", workflow="order", key="")
    assert (refused.status, refused.json["code"]) == (422, "bad_filter")
