"""Where the histories of two runs first differ."""

from __future__ import annotations

import json
from typing import Any

from stepwell.cli.runs.comparing import first_divergence
from stepwell.engine.records import ROOT
from tests.cli.conftest import Cli, FakeApi


def entry(kind: str, at: int, branch: str = ROOT, **more: Any) -> dict[str, Any]:
    when = f"2030-01-01T09:00:{at:02}.000Z"
    return {"id": f"{branch}@{at}.0", "at": when, "type": kind, "token": branch, "step": None, "attempt": None,
            "from": None, "to": None, "trigger": "internal", "by": f"wake:{at}", "data": None, **more}  # fmt: skip


def test_times_run_ids_and_callers_are_no_difference() -> None:
    first = [entry("sleep.started", 1, data={"until": "a", "url": "/runs/r1"}, by="x")]
    second = [entry("sleep.started", 9, data={"until": "b", "url": "/runs/r2"}, by="y")]
    assert first_divergence(first, "r1", second, "r2") is None


def test_the_order_of_branches_is_no_difference() -> None:
    first = [entry("step.completed", 1, "0/0.0"), entry("step.completed", 2, "0/0.1")]
    second = [entry("step.completed", 1, "0/0.1"), entry("step.completed", 2, "0/0.0")]
    assert first_divergence(first, "r1", second, "r2") is None


def test_the_first_difference_in_time_is_found() -> None:
    first = [entry("run.created", 0), entry("step.completed", 5, step="a"), entry("step.failed", 2, "0/0.0")]
    second = [entry("run.created", 0), entry("step.failed", 5, step="a"), entry("step.completed", 2, "0/0.0")]
    found = first_divergence(first, "r1", second, "r2")
    assert found is not None
    assert (found.token, found.same) == ("0/0.0", 0)


def test_a_history_that_ends_earlier_differs() -> None:
    found = first_divergence([entry("run.created", 0), entry("run.failed", 1)], "r1", [entry("run.created", 0)], "r2")
    assert found is not None
    assert (found.same, found.second) == (1, None)


def test_the_command_shows_both_entries_and_exits_with_1(api: FakeApi, cli: Cli) -> None:
    one, other = entry("step.completed", 1, step="ship"), entry("step.failed", 1, step="ship")
    for run_id, found in (("r1", one), ("r2", other), ("r3", one)):
        page = {"items": [entry("run.created", 0), found], "next_cursor": None}
        api.on("GET", f"/runs/{run_id}/history", (200, page))
    result = cli("diff", "r1", "r2")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == "the same for 1 entry, then"
    assert "completed" in result.stdout
    assert "failed" in result.stdout
    told = json.loads(cli("diff", "r1", "r2", "--json").stdout)
    assert (told["same"], told["first"]["type"], told["second"]["type"]) == (1, "step.completed", "step.failed")
    same = cli("diff", "r1", "r3")
    assert (same.exit_code, same.stdout) == (0, "the same: 2 entries\n")


def test_a_redriven_run_is_shown_with_the_run_and_the_error_that_it_comes_from(api: FakeApi, cli: Cli) -> None:
    error = {"type": "ValueError", "message": "no funds", "step": "charge", "attempts": 3}
    redriven = entry("run.redriven", 1, step="charge", by="redrive:r1", data={"run_id": "r1", "error": error})
    for run_id, found in (("r1", []), ("r2", [redriven])):
        page = {"items": [entry("run.created", 0), *found], "next_cursor": None}
        api.on("GET", f"/runs/{run_id}/history", (200, page))
    told = cli("diff", "r1", "r2").stdout.splitlines()[-1]
    assert told.endswith("run.redriven          charge  from r1: ValueError: no funds")


def test_runs_that_are_named_by_a_part_of_their_ids_are_compared_and_shown_by_the_whole(api: FakeApi, cli: Cli) -> None:
    """An entry that names its own run is no difference."""
    api.on(
        "GET",
        "/runs",
        (200, {"items": [{"run_id": one, "workflow": "order"} for one in ("run_b2", "run_a1")], "next_cursor": None}),
    )
    for run_id, last in (("run_a1", "step.completed"), ("run_b2", "step.failed")):
        told = entry("sleep.started", 1, data={"url": f"/runs/{run_id}"})
        api.on("GET", f"/runs/{run_id}/history", (200, {"items": [told, entry(last, 2)], "next_cursor": None}))
    said = cli("diff", "a1", "last").stdout.splitlines()
    assert (said[0], said[1], said[3]) == ("the same for 1 entry, then", "run_a1:", "run_b2:")


def test_runs_that_differ_from_the_first_entry_on_are_told_so(api: FakeApi, cli: Cli) -> None:
    for run_id, kind in (("r1", "run.created"), ("r2", "run.redriven")):
        api.on("GET", f"/runs/{run_id}/history", (200, {"items": [entry(kind, 0)], "next_cursor": None}))
    assert cli("diff", "r1", "r2").stdout.splitlines()[0] == "different from the first entry on"
