"""`stepwell batch`: one action on many runs."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Cli, FakeApi, problem

REPORT = {"action": "redrive", "dry_run": False, "matched": 12, "done": 10, "unchanged": 1, "refused": {}, "first": []}


def job(status: str = "completed", **report: Any) -> dict[str, Any]:
    return {"run_id": "run_b", "workflow": "stepwell:batch", "status": status, "state": {"report": REPORT | report}}


def test_a_batch_is_started_with_its_filter_and_named(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/runs:batch", (202, job("pending")))
    told = cli("batch", "redrive", "--workflow", "order", "--failure", "9f2c", "--canary", "--rate", "20")
    assert told.exit_code == 0
    assert "run_b is under way" in told.stdout
    body = api.calls[0].body
    assert body["filter"] == {"workflow": "order", "failure": "9f2c"}
    assert (body["action"], body["canary"], body["rate"], body["by"]) == ("redrive", True, 20, "ana")


def test_a_watched_batch_reports_what_it_did(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/runs:batch", (202, job("pending")))
    api.on("GET", "/runs/run_b", (200, job(refused={"not_ended": 1})))
    told = cli("batch", "redrive", "--workflow", "order", "--watch")
    assert told.exit_code == 0
    assert "run_b completed: 10 of 12 runs done, 1 unchanged" in told.stdout
    assert "1 refused: not_ended" in told.stdout


def test_a_watched_batch_is_named_at_once_because_it_goes_on_without_the_command(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/runs:batch", (202, job("pending")))
    api.on("GET", "/runs/run_b", (200, job("running")), (502, {}))
    told = cli("batch", "redrive", "--workflow", "order", "--watch")
    assert told.exit_code == 4
    assert "run_b is under way, and goes on without this command" in told.stderr


_OF_PURGE = ("workflow", "tag", "since", "before")


@pytest.mark.parametrize(
    ("command", "option"),
    [
        *(("purge --yes", option) for option in _OF_PURGE),
        *(("batch cancel", option) for option in (*_OF_PURGE, "status", "failure")),
    ],
)
def test_an_empty_part_of_a_filter_is_refused(api: FakeApi, cli: Cli, command: str, option: str) -> None:
    """As of a variable that is not set: the rest of the filter would name more runs than were meant."""
    beside = ["--tag", "a=b"] if option == "workflow" else ["--workflow", "order"]
    told = cli(*command.split(), *beside, f"--{option}", "")
    assert (told.exit_code, api.calls) == (2, [])
    assert f"--{option} is empty [bad_filter]" in told.stderr


def test_a_batch_takes_the_runs_of_a_time(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/runs:batch", (202, job("pending")))
    assert cli("batch", "cancel", "--since", "2026-11-01", "--before", "2026-11-02").exit_code == 0
    assert api.calls[0].body["filter"].keys() == {"since", "before"}


def test_a_canary_that_stopped_the_batch_is_named_and_is_a_failure(api: FakeApi, cli: Cli) -> None:
    stopped = {"reason": "relapse", "run_id": "run_1", "redriven_as": "run_2", "failure": "9f2c E ship"}
    api.on("POST", "/runs:batch", (202, job("pending")))
    api.on("GET", "/runs/run_b", (200, job(stopped=stopped)))
    told = cli("batch", "redrive", "--workflow", "order", "--canary", "--watch")
    assert told.exit_code == 1
    assert "stopped: run_1 went on as run_2, which failed as before" in told.stdout


def test_a_dry_run_under_way_is_not_told_of_as_if_it_did_something(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/runs:batch", (202, job("pending", dry_run=True)))
    begun = {"run_id": "run_b", "workflow": "stepwell:batch", "status": "running", "state": {}}
    api.on("GET", "/runs/run_b", (200, begun), (200, job(dry_run=True)))
    told = cli("batch", "redrive", "--workflow", "order", "--dry-run")
    assert (told.exit_code, told.stderr) == (0, "")
    assert told.stdout == "run_b completed: 12 runs match; nothing was done\n"


def test_a_dry_run_waits_for_the_count(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/runs:batch", (202, job("pending")))
    api.on("GET", "/runs/run_b", (200, job(dry_run=True, first=["run_9", "run_8"])))
    told = cli("batch", "cancel", "--tag", "customer=c1", "--dry-run")
    assert "12 runs match; nothing was done" in told.stdout
    assert "the newest: run_9, run_8" in told.stdout


@pytest.mark.parametrize(
    ("options", "told"), [((), " that redrive is for"), (("--status", "failed"), " with this status")]
)
def test_a_batch_of_no_run_of_a_failure_says_how_to_look_at_its_runs(
    api: FakeApi, cli: Cli, options: tuple[str, ...], told: str
) -> None:
    """They may be compensated, of which nothing is left to go on from; or the fingerprint is another."""
    done = job(matched=0, done=0)
    api.on("POST", "/runs:batch", (202, done))
    api.on("GET", "/runs/run_b", (200, done))
    result = cli("batch", "redrive", "--failure", "9f2c61d07b3a", *options, "--watch")
    assert result.stderr.endswith(f"no run of this failure{told}: stepwell runs --failure 9f2c61d07b3a\n")


def test_a_batch_of_no_run_of_a_workflow_that_there_is_not_is_refused(api: FakeApi, cli: Cli) -> None:
    done = job(matched=0, dry_run=True)
    api.on("POST", "/runs:batch", (202, done))
    api.on("GET", "/runs/run_b", (200, done))
    api.on("GET", "/runs", (200, {"items": [], "next_cursor": None}))
    api.on("GET", "/workflows/ordr", problem(404, "unknown_workflow", "there is no workflow 'ordr'"))
    result = cli("batch", "cancel", "--workflow", "ordr", "--dry-run")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "there is no workflow 'ordr' [unknown_workflow]" in result.stderr
