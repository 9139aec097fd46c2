"""`stepwell estimate`: from the records of ended runs to USD, by prices that can be replaced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepwell.testing.kit import Stepwell
from tests.cli.conftest import Cli, FakeApi, problem

FLOW = """
workflow: order
timeline:
  - {name: charge, run: charge}
  - {name: approve, wait: {for: approval}}
  - {name: ship, run: ship}
"""
CODE = """
from stepwell import step

@step
def charge() -> str:
    return "paid"

@step
def ship() -> str:
    return "sent"
"""


@pytest.fixture
def ran(tmp_path: Path, api: FakeApi) -> None:
    """An API that knows one run, which has ended."""
    (tmp_path / "order.yaml").write_text(FLOW)
    (tmp_path / "estimated_shop.py").write_text(CODE)
    kit = Stepwell(tmp_path)
    run = kit.start("order", run_id="r1")
    run.approve()
    assert run.status == "completed"
    api.on("GET", "/runs", (200, {"items": [{"run_id": "r1"}], "next_cursor": None}))
    api.on("GET", "/runs/r1", (200, json.loads(json.dumps(run.view))))


def estimated(cli: Cli, *options: str) -> dict[str, Any]:
    result = cli("estimate", "order", "--json", *options)
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.usefixtures("ran")
def test_an_estimate_says_what_a_run_used_and_what_a_thousand_cost(cli: Cli) -> None:
    found = estimated(cli)
    assert (found["per_run"]["steps"], found["per_run"]["waits"], found["runs"]) == (2, 1, 1)
    usd = found["usd_per_1000_runs"]
    assert 0 < usd["stepwell"] < usd["lambda_durable_functions"] < usd["step_functions_standard"]
    assert usd["step_functions_standard"] == pytest.approx(0.126, rel=0.01)  # 5 transitions
    told = cli("estimate", "order").stdout
    assert "Step Functions Standard       0.1254 USD" in told
    assert "Prices as of 2026-11-20" in told


@pytest.mark.usefixtures("ran")
def test_runs_that_failed_before_a_step_completed_do_not_lower_the_estimate(
    cli: Cli, api: FakeApi, tmp_path: Path
) -> None:
    """They are left out and counted, unless there are no others."""
    whole = estimated(cli)
    kit = Stepwell(tmp_path)
    kit.mock("charge", raises=ValueError("no such card"))
    failed = kit.start("order", run_id="r2")
    assert failed.status == "failed"
    api.on("GET", "/runs/r2", (200, json.loads(json.dumps(failed.view))))
    api.on("GET", "/runs", (200, {"items": [{"run_id": "r2"}, {"run_id": "r1"}], "next_cursor": None}))
    found = estimated(cli)
    assert (found["runs"], found["left_out"], found["per_run"]) == (1, 1, whole["per_run"])
    assert "Left out: 1 run that failed before a step completed." in cli("estimate", "order").stdout
    api.on("GET", "/runs", (200, {"items": [{"run_id": "r2"}], "next_cursor": None}))
    alone = estimated(cli)
    assert (alone["runs"], alone["left_out"]) == (1, 0)
    assert alone["per_run"]["write_units"] < whole["per_run"]["write_units"]


@pytest.mark.usefixtures("ran")
def test_the_time_of_an_attempt_and_the_memory_can_be_given(cli: Cli) -> None:
    short, long = (estimated(cli, "--seconds", given)["usd_per_1000_runs"] for given in ("0", "10"))
    for system, usd in short.items():
        assert long[system] - usd == pytest.approx(1_000 * 2 * 10 * 0.5 * 0.0000133334)
    more = estimated(cli, "--seconds", "10", "--memory", "1024")["usd_per_1000_runs"]
    assert more["stepwell"] > long["stepwell"]


@pytest.mark.usefixtures("ran")
def test_prices_of_another_day_replace_ours(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    file.write_text('{"as_of": "2027-01-31", "million_transitions": 50}')
    dearer, now = estimated(cli, "--prices", str(file)), estimated(cli)
    assert dearer["prices"]["as_of"] == "2027-01-31"
    ours, theirs = (one["usd_per_1000_runs"]["step_functions_standard"] for one in (now, dearer))
    assert theirs - ours == pytest.approx(0.125)


@pytest.mark.usefixtures("ran")
def test_a_table_of_prices_is_taken_from_the_option_the_environment_or_the_folder(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day, file in enumerate((tmp_path / "prices.yaml", tmp_path / "named.yaml", tmp_path / "given.json"), start=1):
        file.write_text(f'{{"as_of": "2027-01-0{day}"}}')
    monkeypatch.chdir(tmp_path)
    assert estimated(cli)["prices"]["as_of"] == "2027-01-01"
    monkeypatch.setenv("STEPWELL_PRICES", "named.yaml")
    assert estimated(cli)["prices"]["as_of"] == "2027-01-02"
    assert estimated(cli, "--prices", "given.json")["prices"]["as_of"] == "2027-01-03"


@pytest.mark.parametrize(
    "text",
    ["[", "[]", "{}", '{"million_transitions": 50}', '{"as_of": "x", "gold": 1}', '{"as_of": "x", "gb_second": "1"}'],
)
def test_a_file_that_is_no_table_of_prices_is_refused(cli: Cli, tmp_path: Path, text: str) -> None:
    file = tmp_path / "prices.json"
    file.write_text(text)
    result = cli("estimate", "order", "--prices", str(file), "--json")
    assert result.exit_code != 0
    assert "bad_prices" in result.stdout + result.stderr


def test_an_estimate_of_nothing_is_refused(cli: Cli, api: FakeApi) -> None:
    """It read the last runs of all workflows."""
    result = cli("estimate", "")
    assert (result.exit_code, "is empty [bad_key]" in result.stderr, api.calls) == (2, True, [])


def test_a_workflow_without_an_ended_run_has_no_estimate(cli: Cli, api: FakeApi) -> None:
    api.on("GET", "/runs", (200, {"items": [], "next_cursor": None}))
    api.on("GET", "/workflows/order", (200, {"name": "order"}))
    result = cli("estimate", "order")
    assert result.exit_code != 0
    assert "stepwell run order" in result.stdout + result.stderr


def test_of_a_workflow_that_is_not_there_the_estimate_names_those_that_are(cli: Cli, api: FakeApi) -> None:
    """`stepwell run ordre` would fail as well."""
    missing = problem(404, "unknown_workflow", "there is no workflow 'ordre'", hint="deployed: order")
    api.on("GET", "/runs", (200, {"items": [], "next_cursor": None}))
    api.on("GET", "/workflows/ordre", missing)
    result = cli("estimate", "ordre")
    assert result.exit_code == 3
    assert "there is no workflow 'ordre' [unknown_workflow]" in result.stderr
    assert "deployed: order" in result.stderr
    assert "stepwell run" not in result.stderr
