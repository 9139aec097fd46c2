"""Child runs and rollbacks as a person reads them."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import COMPLETED, RUN, Cli, FakeApi

ID = RUN["run_id"]
CHILDREN: list[dict[str, Any]] = [
    {"name": "fraud", "workflow": "fraud", "run_id": "run_1", "step": "check", "status": "waiting", "detached": False},
    {"name": "stock", "workflow": "stock", "run_id": "run_2", "step": "check", "status": None, "detached": False},
    {"name": "tell", "workflow": "mail", "run_id": "run_3", "step": "tell", "status": "completed", "detached": True},
]
STUCK = {"type": "Stuck", "category": "step", "message": "no answer", "step": "hotel.compensate", "attempts": 3}
NO_FUNDS = {"type": "CardDeclined", "category": "step", "message": "no funds", "step": "pay"}
PLACES = [{"step": name, "token": "0", "slot": slot} for name, slot in (("pay", 4), ("hotel", 2), ("flight", 0))]


def rolled_back(status: str, undone: int, error: Any = None, **more: Any) -> dict[str, Any]:
    """A run with so many of its three commits undone."""
    rollback = {"status": "failed", "reason": "no funds", "undone": PLACES[:undone], "not_undone": PLACES[undone:],
                "error": error}  # fmt: skip
    return {**RUN, "status": status, "steps": {}, "rollback": rollback, **more}


def shown(api: FakeApi, cli: Cli, run: dict[str, Any]) -> list[str]:
    api.on("GET", f"/runs/{ID}", (200, run))
    return [" ".join(line.split()) for line in cli("show", ID).stdout.splitlines()]


def test_show_lists_the_children_with_their_status_and_names_the_parent(api: FakeApi, cli: Cli) -> None:
    lines = shown(api, cli, {**RUN, "children": CHILDREN, "parent": "run_0"})
    assert "parent run_0" in lines
    assert lines[-4:] == [
        "child step workflow run status", "◔ fraud check fraud run_1 waiting", "○ stock check stock run_2",
        "✓ tell tell mail run_3 completed, detached"]  # fmt: skip


@pytest.mark.parametrize(("statuses", "told"), [
    (["completed", "failed"], "2 completed, 1 child run failed"),
    (["failed", "timed_out", None], "2 completed, at least 2 child runs failed"),
    (["completed", None], "2 completed"),
])  # fmt: skip
def test_a_step_that_went_on_says_how_many_of_its_child_runs_failed(
    api: FakeApi, cli: Cli, statuses: list[str | None], told: str
) -> None:
    step = {"status": "completed", "output": None, "error": None, "attempts": 2, "started_at": None, "ended_at": None}
    steps = {"reload": {**step, "branches": {"total": 2, "completed": 2}}, "tell": {**step, "branches": None}}
    children = [CHILDREN[0] | {"step": "reload", "status": status} for status in statuses]
    lines = shown(api, cli, {**COMPLETED, "steps": steps, "children": children})
    (row,) = [line for line in lines if " reload x 2 " in line]
    assert row.endswith(told)
    assert not any("tell" in line and "child" in line for line in lines)


@pytest.mark.parametrize(("run", "told"), [
    (rolled_back("compensated", 3), ["↺ pay 0@4 undone", "↺ hotel 0@2 undone", "↺ flight 0@0 undone"]),
    (rolled_back("failed", 1, STUCK),
     ["↺ pay 0@4 undone", "✗ hotel 0@2 Stuck: no answer (3 tries)", "○ flight 0@0 not undone"]),
    (rolled_back("compensating", 1), ["↺ pay 0@4 undone", "● hotel 0@2 next", "○ flight 0@0"]),
])  # fmt: skip
def test_show_tells_a_rollback_step_by_step(api: FakeApi, cli: Cli, run: dict[str, Any], told: list[str]) -> None:
    assert shown(api, cli, run)[-4:] == ["rollback record", *told]


@pytest.mark.parametrize(("undone", "told"), [
    (30, ["↺ report 0@9 undone", "↺ load x 30 30 undone"]),
    (10, ["↺ report 0@9 undone", "↺ load x 10 10 undone", "✗ load 0/0.19@6 Stuck: no answer (3 tries)",
          "○ load x 19 19 not undone"]),
    (27, ["↺ report 0@9 undone", "↺ load x 27 27 undone", "✗ load 0/0.2@6 Stuck: no answer (3 tries)",
          "○ load 0/0.1@6 not undone", "○ load 0/0.0@6 not undone"]),
])  # fmt: skip
def test_of_a_step_in_many_branches_those_that_fared_alike_are_one_row(
    api: FakeApi, cli: Cli, undone: int, told: list[str]
) -> None:
    loads = [{"step": "load", "token": f"0/0.{number}", "slot": 6} for number in reversed(range(30))]
    error = STUCK if undone < 30 else None
    rollback = {"status": "failed", "reason": "rejected", "error": error, "not_undone": loads[undone:],
                "undone": [{"step": "report", "token": "0", "slot": 9}, *loads[:undone]]}  # fmt: skip
    run = {**RUN, "status": "failed", "steps": {}, "rollback": rollback}
    assert shown(api, cli, run)[-len(told) - 1 :] == ["rollback record", *told]


def test_show_says_when_what_is_left_was_not_read(api: FakeApi, cli: Cli) -> None:
    run = rolled_back("failed", 0)
    run["rollback"]["not_undone"] = None
    assert shown(api, cli, run)[-1] == "… the remaining steps were not read: the logs are too long"


def test_a_rollback_that_had_nothing_to_undo_shows_no_table(api: FakeApi, cli: Cli) -> None:
    run = rolled_back("compensated", 0)
    run["rollback"]["not_undone"] = []
    assert "rollback record" not in shown(api, cli, run)


def test_a_partial_rollback_is_told_in_a_sentence(api: FakeApi, cli: Cli) -> None:
    run = rolled_back("failed", 1, STUCK, outcome="partial_rollback", result_summary="failed at pay: no funds; …")
    assert "outcome partial rollback: failed at pay: no funds; …" in shown(api, cli, run)


def test_a_list_names_the_parents_where_there_are_any(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/runs", (200, {"items": [COMPLETED, {**COMPLETED, "parent": "first"}], "next_cursor": None}))
    head, first, second = cli("runs").stdout.splitlines()
    assert head.split()[-1] == "parent"
    assert (second.split()[-1], "first" in first) == ("first", False)
    api.on("GET", "/runs", (200, {"items": [COMPLETED], "next_cursor": None}))
    assert "parent" not in cli("runs").stdout


@pytest.mark.parametrize(("kind", "data", "told"), [
    ("children.started", {"for": "children", "until": None, "children": CHILDREN[:2]}, "fraud run_1, stock run_2"),
    ("child.failed", {"name": "fraud", "run_id": "run_1", "status": "timed_out", "error": NO_FUNDS},
     "fraud run_1 timed out: CardDeclined: no funds"),
    ("compensation.started", {"status": "failed", "error": NO_FUNDS, "reason": None},
     "instead of failed: CardDeclined: no funds (step pay)"),
    ("compensation.started", {"status": "cancelled", "error": None, "reason": "too late"},
     "instead of cancelled: too late"),
    ("step.compensated", {"token": "0/1.2", "slot": 3, "output": "cancelled"}, "0/1.2@3 cancelled"),
    ("compensation.failed", {"token": "0", "slot": 3, "error": STUCK}, "Stuck: no answer"),
    ("compensation.retry_scheduled", {"token": "0", "slot": 3, "at": "2026-03-01T13:00Z"}, "at 2026-03-01T13:00Z"),
    ("step.failed", {"error": NO_FUNDS, "next": "ask", "rules": ["r"]}, "CardDeclined: no funds, then ask"),
])  # fmt: skip
def test_history_tells_them_in_words(api: FakeApi, cli: Cli, kind: str, data: dict[str, Any], told: str) -> None:
    entry = {"id": "0@1.0", "at": "2026-03-01T13:00:00.000Z", "type": kind, "step": "s", "data": data}
    api.on("GET", f"/runs/{ID}/history", (200, {"items": [entry], "next_cursor": None}))
    assert " ".join(cli("history", ID).stdout.split()).endswith(f"{kind} s 0@1.0 {told}")


def test_show_names_the_run_that_a_run_was_made_from_and_how(api: FakeApi, cli: Cli) -> None:
    for kind, told in (("redrive", "goes on from run_0"), ("rerun", "rerun of run_0"), ("fork", "fork of run_0")):
        assert told in shown(api, cli, {**RUN, "origin": {"kind": kind, "run_id": "run_0"}})
