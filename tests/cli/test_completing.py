"""Shell completion, as a shell asks for it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from stepwell.cli.main import app
from tests.docs.options import leaves

from .conftest import RUN, Cli, FakeApi

_NAMES = "RUN|WORKFLOW|STATUS|SCHEDULE|LIMIT|SOURCE"  # the metavars of what is completed


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
        ("stepwell failures --workflow o", ["order-review"]),
        ("stepwell schedule pause ni", ["nightly", "nightly-eu"]),
        ("stepwell limits st", ["stripe"]),
        ("stepwell webhook replay sh", ["shop"]),
        ("stepwell webhook deliveries sh", ["shop"]),
    ],
)
def test_commands_names_run_ids_and_statuses_are_completed(
    api: FakeApi, cli: Cli, monkeypatch: pytest.MonkeyPatch, line: str, found: list[str]
) -> None:
    api.on("GET", "/workflows", (200, {"items": [{"name": "order-review"}, {"name": "paid"}], "next_cursor": None}))
    api.on("GET", "/runs", (200, {"items": [RUN], "next_cursor": None}))
    named = [{"name": "nightly"}, {"name": "nightly-eu"}, {"name": "weekly"}]
    api.on("GET", "/schedules", (200, {"items": named, "next_cursor": None}))
    shared = [{"name": "stripe", "of": "steps"}, {"name": "stripe", "of": "runs"}, {"name": "mail", "of": "steps"}]
    api.on("GET", "/limits", (200, {"items": shared, "next_cursor": None}))
    kept = [{"source": "shop"}, {"source": "shop"}, {"source": "github"}]
    api.on("GET", "/deliveries", (200, {"items": kept, "next_cursor": None}))
    assert completed(line, monkeypatch) == found


def test_the_sources_of_the_folder_are_completed_for_a_test_delivery(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert completed("stepwell webhook test s", monkeypatch) == []
    Path("webhooks.yaml").write_text("sources: {shop: {scheme: none, secret: none, event: body.type}}")
    assert completed("stepwell webhook test s", monkeypatch) == ["shop"]
    Path("webhooks.yaml").write_text("sources: [")
    assert completed("stepwell webhook test s", monkeypatch) == []


def test_without_a_server_nothing_is_completed_and_nothing_is_said(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert completed("stepwell run ord", monkeypatch) == []


def _is_completed(one: Any) -> bool:
    return one._custom_shell_complete is not None


def test_whatever_names_what_there_is_is_completed() -> None:
    """But for `dev --run`, before whose server nothing is deployed."""
    without = [
        f"{path} {one.name}"
        for path, command in leaves(typer.main.get_command(app), "stepwell")
        for one in command.params
        if (re.search(_NAMES, str(getattr(one, "metavar", ""))) or one.name == "workflow") and not _is_completed(one)
    ]
    assert without == ["stepwell dev workflow"]
