"""A paused run whose branches rest: they are shown as paused, and were not tried."""

from __future__ import annotations

from collections import Counter

import pytest

from stepwell.engine.actions import Outcome
from stepwell.engine.records import Failure
from stepwell.runtime.calls import survey
from tests.api.kit import World

SCAN = """
workflow: scan
nodes:
  begin: {transitions: [{to: ocr, foreach: "{{ input.pages }}", as: page}]}
  ocr:
    run: python:m.ocr
    retry: {max_retries: 2, backoff: constant, initial_delay: 60s}
    transitions: [{to: all_in}]
  all_in: {fan_in: {policy: all}}
"""
PAGES = 5


def paused_at_the_first_page() -> tuple[World, str]:
    """A run that is paused while its first branch is at work."""
    world = World(SCAN)

    def ocr(_: object) -> Outcome:
        if not calls:
            calls.append(1)
            assert world.post("/runs/scan-1/pause", {}).status == 200
        return Outcome("text")

    calls: list[int] = []
    world.steps.functions["python:m.ocr"] = ocr
    run_id = world.start("scan", run_id="scan-1", input={"pages": [*range(PAGES)]})
    return world, run_id


def test_branches_that_a_pause_holds_back_are_paused_and_were_not_tried() -> None:
    world, run_id = paused_at_the_first_page()
    run = world.get(f"/runs/{run_id}").json
    assert run["status"] == "paused"
    assert run["steps"]["ocr"]["branches"] == {"total": PAGES, "completed": 1, "paused": PAGES - 1}
    assert (run["steps"]["ocr"]["status"], run["steps"]["ocr"]["attempts"]) == ("paused", 1)
    assert world.get(f"/runs/{run_id}/graph", format="json").json["states"]["ocr"] == "paused"


def test_branches_that_rest_are_found_by_their_status() -> None:
    world, run_id = paused_at_the_first_page()
    found = world.get(f"/runs/{run_id}/branches", status="paused").json["items"]
    assert [(one["index"], one["status"], one["steps"]["ocr"]["attempts"]) for one in found] == [
        (index, "paused", 0) for index in range(1, PAGES)
    ]
    assert not world.get(f"/runs/{run_id}/branches", status="running").json["items"]
    assert world.post(f"/runs/{run_id}/unpause", {}).status == 200
    world.drain()
    assert world.get(f"/runs/{run_id}").json["steps"]["ocr"]["branches"] == {"total": PAGES, "completed": PAGES}


def test_a_branch_whose_retry_comes_due_in_a_pause_rests_with_the_attempts_that_it_had() -> None:
    world = World(SCAN)
    world.steps.functions["python:m.ocr"] = lambda call: Outcome(failure=Failure("Away", "transient", "later"))
    run_id = world.start("scan", input={"pages": [0, 1]})
    assert world.post(f"/runs/{run_id}/pause", {}).status == 200
    world.advance(120)
    branches = world.get(f"/runs/{run_id}/branches").json["items"]
    assert Counter((one["status"], one["steps"]["ocr"]["status"]) for one in branches) == {("paused", "paused"): 2}
    assert [one["steps"]["ocr"]["attempts"] for one in branches] == [1, 1]


def test_the_branches_of_a_fork_that_is_only_counted_rest_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "SURVEY_WIDTH", 1)
    monkeypatch.setattr(survey, "HISTORY_BRANCHES", 1)
    world, run_id = paused_at_the_first_page()
    run = world.get(f"/runs/{run_id}").json
    assert run["steps"]["ocr"]["branches"] == {"total": PAGES, "completed": 1, "paused": PAGES - 1}
