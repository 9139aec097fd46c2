"""`stepwell delete` and `stepwell purge`: runs with all their data."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.cli.runs import purging

from .conftest import COMPLETED, Cli, FakeApi, problem

REPORT = {"action": "purge", "dry_run": False, "matched": 3, "done": 3, "unchanged": 0, "refused": {}, "first": []}


def job(status: str = "completed", **report: Any) -> dict[str, Any]:
    return {"run_id": "run_b", "workflow": "stepwell:batch", "status": status, "state": {"report": REPORT | report}}


def purge_of(api: FakeApi, **report: Any) -> None:
    api.on("POST", "/runs:batch", (202, job("pending")))
    api.on("GET", "/runs/run_b", (200, job(**report)))
    api.on("DELETE", "/runs/run_b", (200, {"run_id": "run_b", "deleted_runs": 1, "deleted_items": 3}))


def test_delete_names_the_run_and_counts_its_children(api: FakeApi, cli: Cli) -> None:
    api.on("DELETE", "/runs/r1", (200, {"run_id": "r1", "deleted_runs": 3, "deleted_items": 20}))
    assert cli("delete", "r1").stdout == "deleted r1 and 2 child runs\n"
    assert cli("delete", "r1", "--force", "--json").exit_code == 0
    assert api.calls[-1].query == {"force": ["true"]}


def test_delete_asks_before_it_takes_the_last_run(api: FakeApi, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Typed twice, it would take two runs."""
    api.has_run(COMPLETED)
    api.on("GET", "/runs", (200, {"items": [COMPLETED], "next_cursor": None}))
    api.on("DELETE", "/runs/run_01JABC", (200, {"run_id": "run_01JABC", "deleted_runs": 1, "deleted_items": 3}))
    refused = cli("delete", "last")
    assert refused.exit_code == 2
    assert refused.stderr == (
        "error: this deletes for good run_01JABC of order-review, completed [not_confirmed]\n"
        "  hint: stepwell delete run_01JABC\n"
    )
    monkeypatch.setattr(purging, "is_terminal", lambda: True)
    assert cli("delete", "last", stdin="n\n").exit_code == 1
    assert [call for call in api.calls if call.method == "DELETE"] == []
    asked = cli("delete", "last", "--json", stdin="y\n")
    assert "Delete for good run_01JABC of order-review, completed? [y/N]" in asked.stderr
    assert "Delete" not in asked.stdout
    assert cli("delete", "last", "--yes").stdout == "deleted run_01JABC\n"
    assert len([call for call in api.calls if call.method == "DELETE"]) == 2


def test_purge_reports_and_deletes_its_own_run_whose_filter_names_the_person(api: FakeApi, cli: Cli) -> None:
    purge_of(api)
    told = cli("purge", "--tag", "customer=c7", "--before", "30d", "--force", "--yes")
    assert told.exit_code == 0
    assert "3 of 3 runs done" in told.stdout
    body = api.calls[0].body
    assert (body["action"], body["force"], body["filter"]["tag"]) == ("purge", True, "customer=c7")
    assert body["filter"]["before"].endswith("+00:00")
    assert (api.calls[-1].method, api.calls[-1].path) == ("DELETE", "/runs/run_b")


def test_purge_does_nothing_unless_it_is_told_to(api: FakeApi, cli: Cli) -> None:
    purge_of(api, dry_run=True)
    told = cli("purge", "--tag", "customer=c7")
    assert told.exit_code != 0
    assert "say --yes" in told.stderr
    assert not api.calls
    assert "3 runs match" in cli("purge", "--tag", "customer=c7", "--dry-run").stdout


def test_purge_without_a_filter_is_refused_before_anything_is_sent(cli: Cli) -> None:
    result = cli("purge", "--yes")
    assert (result.exit_code, "[no_filter]" in result.stderr) == (2, True)


def test_a_purge_of_a_workflow_that_there_is_not_is_refused(api: FakeApi, cli: Cli) -> None:
    """A name that is misspelt looked like a workflow without runs."""
    purge_of(api, matched=0, done=0)
    api.on("GET", "/runs", (200, {"items": [], "next_cursor": None}))
    api.on("GET", "/workflows/ordr", problem(404, "unknown_workflow", "there is no workflow 'ordr'"))
    told = cli("purge", "--workflow", "ordr", "--dry-run")
    assert (told.exit_code, "there is no workflow 'ordr'" in told.stderr) == (3, True)


def test_purge_fails_where_runs_were_refused(api: FakeApi, cli: Cli) -> None:
    purge_of(api, refused={"run_open": 1})
    told = cli("purge", "--tag", "customer=c7", "--yes")
    assert told.exit_code == 1
    assert "1 refused: run_open" in told.stdout
