"""Shell completion, as a shell asks for it."""

from __future__ import annotations

import re

import pytest
import typer.main
from typer.testing import CliRunner

from stepwell.cli.main import app
from tests.docs.options import leaves

from .conftest import RUN, Cli, FakeApi


def completed(line: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What bash is told for a line whose last word is being typed."""
    words = line.split(" ")
    monkeypatch.setenv("_STEPWELL_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    return CliRunner().invoke(app, [], prog_name="stepwell").stdout.split()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("stepwell appr", ["approve"]),
        ("stepwell run ord", ["order-review"]),
        ("stepwell runs --workflow o", ["order-review"]),
        ("stepwell show run_", [RUN["run_id"]]),
        ("stepwell show la", ["last"]),
        ("stepwell graph run_", [RUN["run_id"]]),
        ("stepwell graph ord", ["order-review"]),
        ("stepwell runs --status com", ["compensating", "completed", "compensated"]),
    ],
)
def test_commands_workflows_run_ids_and_statuses_are_completed(
    api: FakeApi, cli: Cli, monkeypatch: pytest.MonkeyPatch, line: str, found: list[str]
) -> None:
    api.on("GET", "/workflows", (200, {"items": [{"name": "order-review"}, {"name": "paid"}], "next_cursor": None}))
    api.on("GET", "/runs", (200, {"items": [RUN], "next_cursor": None}))
    assert completed(line, monkeypatch) == found


def test_without_a_server_nothing_is_completed_and_nothing_is_said(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert completed("stepwell run ord", monkeypatch) == []


def test_whatever_names_a_run_a_workflow_or_a_status_is_completed() -> None:
    """But for `dev --run`, before whose server nothing is deployed."""
    without = [
        f"{path} {one.name}"
        for path, command in leaves(typer.main.get_command(app), "stepwell")
        for one in command.params
        if re.search("RUN|WORKFLOW|STATUS", str(getattr(one, "metavar", ""))) and not one._custom_shell_complete
    ]
    assert without == ["stepwell dev workflow"]
