"""Runs by a part of their ids, and what `run --wait` says while it waits."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import COMPLETED, RUN, Cli, FakeApi, problem

ID = RUN["run_id"]
OTHER = {**RUN, "run_id": "run_01KXYZ"}


def listed(api: FakeApi, *runs: dict[str, Any]) -> None:
    api.on("GET", "/runs", (200, {"items": list(runs), "next_cursor": None}))
    api.has_run(RUN)


def test_last_is_the_newest_run(api: FakeApi, cli: Cli) -> None:
    listed(api, RUN)
    assert cli("show", "last").stdout.startswith(f"run        {ID}")
    assert api.calls[0].query == {"limit": ["10"]}
    assert [call.path for call in api.calls] == ["/runs", f"/runs/{ID}"]


def test_last_is_no_batch(api: FakeApi, cli: Cli) -> None:
    """That one is a run too, of Stepwell's own workflow."""
    listed(api, {**OTHER, "workflow": "stepwell:batch"}, RUN)
    assert cli("show", "last").stdout.startswith(f"run        {ID}")


@pytest.mark.parametrize("children", [1, 10])
def test_last_is_the_run_that_was_started_and_not_its_child(api: FakeApi, cli: Cli, children: int) -> None:
    child = {**OTHER, "parent": ID}
    listed(api, *[child] * children, *[RUN][: 10 - children])
    assert cli("show", "last").stdout.startswith(f"run        {ID}")


def test_last_is_no_child_that_has_children_itself(api: FakeApi, cli: Cli) -> None:
    child, grandchild = {**OTHER, "parent": ID}, {**OTHER, "run_id": "run_01KZZZ", "parent": OTHER["run_id"]}
    listed(api, *[grandchild] * 9, child)
    assert cli("show", "last").stdout.startswith(f"run        {ID}")


def test_a_run_is_found_by_the_beginning_or_the_end_of_its_id(api: FakeApi, cli: Cli) -> None:
    listed(api, OTHER, RUN)
    for given in ("run_01J", "01J", "JABC"):
        assert cli("show", given).exit_code == 0
        assert api.calls[-1].path == f"/runs/{ID}"


def test_a_whole_id_takes_one_call(api: FakeApi, cli: Cli) -> None:
    listed(api, RUN)
    cli("show", ID)
    assert [call.path for call in api.calls] == [f"/runs/{ID}"]


def test_a_part_that_several_ids_have_is_refused_with_them(api: FakeApi, cli: Cli) -> None:
    listed(api, OTHER, RUN)
    result = cli("cancel", "run_01")
    assert result.exit_code == 2
    assert "run_01KXYZ, run_01JABC [ambiguous_run]" in result.stderr
    assert {call.method for call in api.calls} == {"GET", "POST"}
    assert [call.path for call in api.calls if call.method == "POST"] == ["/runs/run_01/cancel"]


def test_a_part_that_no_new_run_has_says_how_far_it_looked_and_how_to_list_older_ones(api: FakeApi, cli: Cli) -> None:
    for cursor, more in ((None, False), ("c", True)):
        api.on("GET", "/runs", (200, {"items": [OTHER], "next_cursor": cursor}))
        result = cli("show", "c18386")
        hint = "only the newest 500 runs were searched: give the whole id; stepwell runs --before 7d lists older ones"
        assert (result.exit_code, "[unknown_run]" in result.stderr, hint in result.stderr) == (3, True, more)


def test_last_without_runs_is_told(api: FakeApi, cli: Cli) -> None:
    listed(api)
    result = cli("watch", "last")
    assert (result.exit_code, "there are no runs [unknown_run]" in result.stderr) == (2, True)


def test_a_list_of_what_was_made_of_a_run_takes_a_part_of_its_id_too(api: FakeApi, cli: Cli) -> None:
    listed(api, RUN)
    for option in ("--origin", "--parent"):
        for given in ("last", "01J", ID):
            assert cli("runs", option, given).exit_code == 0
            assert api.calls[-1].query[option[2:]] == [ID]


def test_run_with_wait_says_once_what_the_run_waits_for(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/workflows/order-review/runs", (201, RUN))
    api.has_run(RUN, RUN, COMPLETED)
    result = cli("run", "order-review", "--wait", "--json")
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"{ID} waits at approve for approval, until 2099-03-01 14:02 (in ")
    assert line.endswith(f"): stepwell approve {ID}")


def test_a_hint_names_the_run_that_the_command_found(api: FakeApi, cli: Cli) -> None:
    listed(api, RUN)
    api.on("POST", f"/runs/{ID}/start", problem(409, "not_idle", "the run is waiting, not idle"))
    for given in (ID, "JABC", "last"):
        assert f"hint: stepwell explain {ID} says where it stands" in cli("start", given).stderr
    wrong = cli("replay", "nofile.jsonl")
    assert "stepwell export RUN > run.jsonl" in wrong.stderr
