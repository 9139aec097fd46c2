"""`stepwell versions` shows the open runs of each version of a workflow; `stepwell alias` names a version."""

from __future__ import annotations

import json
from typing import Any

from .conftest import Cli, FakeApi

OLDEST = {
    "run_id": "r7",
    "created_at": "2026-03-07T00:00:00.000Z",
    "status": "waiting",
    "waiting_for": "approval",
    "waiting_step": "ask",
}


def version(name: str, runs: int = 0, **more: Any) -> dict[str, Any]:
    plain = {"version": f"sha256:{name}", "deployed": False, "aliases": [], "runs": runs, "statuses": {}, "waits": []}
    return {**plain, "oldest": OLDEST if runs else None, **more}


def on(api: FakeApi, *items: dict[str, Any], is_whole: bool = True) -> None:
    api.on("GET", "/workflows/order/versions", (200, {"workflow": "order", "is_whole": is_whole, "items": [*items]}))


def test_each_version_has_its_open_runs_and_what_they_wait_for(cli: Cli, api: FakeApi) -> None:
    waits = [{"waiting_for": "approval", "step": "ask", "runs": 2}]
    old = version("old", 3, statuses={"waiting": 2, "running": 1}, waits=waits)
    on(api, version("new", deployed=True, aliases=["stable"]), old)
    shown = cli("versions", "order").stdout
    assert ["new", "0", "deployed,", "stable"] in [line.split() for line in shown.splitlines()]
    assert "2 approval at ask" in " ".join(shown.split())
    assert "r7" in shown
    assert "3 open runs go on with older versions" in shown


def test_a_version_has_the_number_of_its_function_behind_its_hash(cli: Cli, api: FakeApi) -> None:
    on(api, version("new", deployed=True, version_number=2), version("old", 1, version_number=None))
    first, second = (line.split() for line in cli("versions", "order").stdout.splitlines()[1:3])
    assert (first[:3], second[:2]) == (["new", "(2)", "0"], ["old", "1"])


def test_a_wait_for_a_condition_is_no_wait_for_tasks_to_people(cli: Cli, api: FakeApi) -> None:
    waits = [{"waiting_for": "tasks", "step": "until", "runs": 2}]
    on(api, version("new", 2, deployed=True, statuses={"waiting": 2}, waits=waits))
    assert "2 a condition at until" in " ".join(cli("versions", "order").stdout.split())


def test_one_open_run_of_an_older_version_is_one(cli: Cli, api: FakeApi) -> None:
    on(api, version("new", deployed=True), version("old", 1))
    assert "order: 1 open run goes on with an older version" in cli("versions", "order").stdout


def test_a_workflow_without_older_open_runs_has_drained(cli: Cli, api: FakeApi) -> None:
    on(api, version("new", deployed=True))
    shown = cli("versions", "order")
    assert shown.exit_code == 0
    assert "every open run has the deployed version" in shown.stdout


def test_a_workflow_that_is_not_deployed_has_open_runs_or_none(cli: Cli, api: FakeApi) -> None:
    on(api, version("old", 2))
    assert "order: no version is deployed; 2 open runs" in cli("versions", "order").stdout
    on(api)
    assert "order: no version is deployed; no run is open" in cli("versions", "order").stdout


def test_only_the_newest_are_counted_and_that_is_said(cli: Cli, api: FakeApi) -> None:
    on(api, version("new", 2, deployed=True), is_whole=False)
    assert "newest 2" in cli("versions", "order", "--most", "2").stdout
    assert json.loads(cli("versions", "order", "--json", "--most", "2").stdout)["is_whole"] is False
    assert api.calls[0].query == {"most": ["2"]}


def test_an_alias_is_made_and_deleted(cli: Cli, api: FakeApi) -> None:
    told = {"workflow": "order", "alias": "stable", "version": "sha256:0123456789abcdef"}
    api.on("POST", "/workflows/order/aliases", (200, told))
    api.on("DELETE", "/workflows/order/aliases/stable", (204, None))
    assert cli("alias", "order", "stable").stdout == "stable names version 0123456789ab of order\n"
    assert cli("alias", "order", "stable", "--version", "tested", "--json").exit_code == 0
    assert [one.body for one in api.calls] == [{"alias": "stable"}, {"alias": "stable", "version": "tested"}]
    assert cli("alias", "order", "stable", "--drop").stdout == "stable names no version of order any more\n"
    assert cli("alias", "order", "stable", "--drop", "--version", "x").exit_code == 2


def test_a_run_is_started_with_a_version(cli: Cli, api: FakeApi) -> None:
    api.on("POST", "/workflows/order/runs", (201, {"run_id": "r1", "status": "pending"}))
    assert cli("run", "order", "--version", "stable").exit_code == 0
    assert api.calls[0].body["version"] == "stable"
