"""The help pages: summaries that fit a terminal, and an example at the end."""

from __future__ import annotations

import shlex

import pytest
import typer.main

from stepwell.cli.examples import EXAMPLES
from stepwell.cli.main import COMMANDS, GROUPS, app
from tests.cli.conftest import Cli
from tests.docs.commands import wrong
from tests.docs.options import leaves


def test_each_command_has_an_example() -> None:
    groups = {f"{group} {name}" for group, commands in GROUPS.items() for name in commands}
    assert EXAMPLES.keys() == {command.__name__ for command in COMMANDS} | groups


@pytest.mark.parametrize("command", EXAMPLES)
def test_an_example_is_of_its_command_and_can_be_typed(command: str) -> None:
    words = shlex.split(EXAMPLES[command].partition(" > ")[0])
    assert " ".join(words[1:]).startswith(command)
    assert wrong(words) == ""


def test_a_help_page_ends_with_its_example(cli: Cli) -> None:
    assert cli("redrive", "--help").stdout.rstrip().endswith(f"Example: {EXAMPLES['redrive']}")


def test_what_many_commands_take_is_told_alike() -> None:
    """`webhook test` said that it calls this machine, and took STEPWELL_URL too."""
    told: dict[str, set[str]] = {}
    for _, command in leaves(typer.main.get_command(app), "stepwell"):
        for one in command.params:
            if one.name in ("url", "cursor", "by", "profile"):
                told.setdefault(one.name, set()).add(one.help)
    assert {name: len(words) for name, words in told.items()} == {"url": 1, "cursor": 1, "by": 1, "profile": 1}


@pytest.mark.parametrize("group", [(), *((name,) for name in GROUPS)], ids=" ".join)
def test_no_summary_is_cut_at_80_columns(cli: Cli, monkeypatch: pytest.MonkeyPatch, group: tuple[str, ...]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    page = cli(*group, "--help").stdout
    assert "Commands:" in page
    assert [line for line in page.splitlines() if "..." in line.replace("[ARGS]...", "") or "…" in line] == []
