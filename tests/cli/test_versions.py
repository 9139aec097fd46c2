"""`stepwell versions` counts the open runs of each version of a workflow."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwell.cli.versions import OPEN

from .conftest import Cli, FakeApi


def run(number: int, version: str, status: str = "waiting") -> dict[str, Any]:
    return {
        "run_id": f"r{number}",
        "version": version,
        "status": status,
        "created_at": f"2026-03-{number:02}T00:00:00Z",
    }


@pytest.fixture
def deployed(api: FakeApi) -> FakeApi:
    api.on("GET", "/workflows/order", (200, {"name": "order", "version": "sha256:new"}))
    return api


def test_open_runs_are_counted_by_version_with_the_oldest(cli: Cli, deployed: FakeApi) -> None:
    runs = [run(9, "sha256:new"), run(8, "sha256:old", "running"), run(7, "sha256:old"), run(1, "sha256:older")]
    deployed.on("GET", "/runs", (200, {"items": runs, "next_cursor": None}))
    found = json.loads(cli("versions", "order", "--json").stdout)
    told = [(one["version"], one["is_deployed"], one["runs"], one["oldest_run"]) for one in found["versions"]]
    assert told == [("sha256:new", True, 1, "r9"), ("sha256:old", False, 2, "r7"), ("sha256:older", False, 1, "r1")]
    assert found["versions"][1]["statuses"] == {"running": 1, "waiting": 1}
    shown = cli("versions", "order").stdout
    assert "3 open runs go on with older versions" in shown
    assert "deployed" in shown


def test_a_workflow_without_open_runs_has_drained(cli: Cli, deployed: FakeApi) -> None:
    deployed.on("GET", "/runs", (200, {"items": [], "next_cursor": None}))
    shown = cli("versions", "order")
    assert shown.exit_code == 0
    assert "every open run has the deployed version" in shown.stdout


def test_only_the_newest_are_counted_and_that_is_said(cli: Cli, deployed: FakeApi) -> None:
    runs = [run(number, "sha256:new") for number in (9, 8, 7)]
    deployed.on("GET", "/runs", (200, {"items": runs, "next_cursor": None}))
    assert json.loads(cli("versions", "order", "--json", "--most", "2").stdout)["is_whole"] is False
    assert "newest 2" in cli("versions", "order", "--most", "2").stdout


def test_only_open_runs_are_asked_for(cli: Cli, deployed: FakeApi) -> None:
    deployed.on("GET", "/runs", (200, {"items": [], "next_cursor": None}))
    cli("versions", "order")
    (asked,) = [one.query for one in deployed.calls if one.path == "/runs"]
    assert asked["workflow"] == ["order"]
    assert ",".join(asked["status"]).split(",") == [*OPEN]
    assert not {"completed", "failed", "cancelled"} & {*OPEN}
