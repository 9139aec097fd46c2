"""A run's history is written to a file, and replayed against a folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stepwell.cli.main import COMMANDS, REPLAYING
from stepwell.testing.kit import Stepwell

from .conftest import Cli, FakeApi

CODE = """
from stepwell import step, workflow

@step
def charge(n: int) -> int:
    return n

@workflow
async def order(ctx, n: int):
    await ctx.step(charge, n)
    await ctx.event("paid")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "flows"
    folder.mkdir()
    (folder / "cli_shop.py").write_text(CODE)
    return folder


@pytest.fixture
def lines(folder: Path, api: FakeApi) -> list[Any]:
    """An export that the API answers with, in two pages."""
    kit = Stepwell(folder)
    lines = kit.export(kit.start("order", {"n": 1}, run_id="r1").id)
    first = {"items": lines[:2], "next_cursor": "0@0"}
    rest = {"items": lines[2:], "next_cursor": None}
    api.on("GET", "/runs/r1/export", (200, first), (200, rest))
    return lines


def test_export_writes_json_lines(api: FakeApi, cli: Cli, lines: list[Any], tmp_path: Path) -> None:
    shown = cli("export", "r1")
    assert [json.loads(line) for line in shown.stdout.splitlines()] == lines
    assert [call.query.get("cursor") for call in api.calls] == [None, ["0@0"]]
    assert cli("export", "r1", "-o", str(tmp_path / "r1.jsonl")).exit_code == 0


def test_a_run_that_fits_replays(api: FakeApi, cli: Cli, lines: list[Any], folder: Path) -> None:
    result = cli("replay", "r1", "--folder", str(folder))
    assert result.exit_code == 0
    assert result.stdout == "r1 (order) replays: 1 operation, would now await event paid\n"


def test_a_file_that_does_not_fit_exits_with_1(cli: Cli, lines: list[Any], folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "r1.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in lines))
    other = tmp_path / "other"
    other.mkdir()
    (other / "cli_shop.py").write_text(CODE.replace('"paid"', '"settled"'))
    result = cli("replay", str(file), "--folder", str(other), "--json")
    assert result.exit_code == 1
    (told,) = json.loads(result.stdout)
    sides = {"expected": "event paid", "came": "event settled"}
    assert told["difference"] == {"token": "0", "slot": 1, **sides, "at": "cli_shop.py:11"}


def test_what_the_code_prints_and_raises_stays_out_of_the_answer(
    api: FakeApi, cli: Cli, lines: list[Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    new = tmp_path / "new"
    new.mkdir()
    (new / "cli_shop.py").write_text("print('imported')\nraise LookupError('no key')")
    caplog.clear()
    result = cli("replay", "r1", "--folder", str(new), "--json")
    assert (result.exit_code, "no key" in str(json.loads(result.stdout)[0]["difference"])) == (1, True)
    assert [one for one in caplog.records if one.name != "httpx"] == []  # which tells of its calls where INFO is shown


def test_a_replay_of_nothing_is_refused(
    cli: Cli, lines: list[Any], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a variable that is not set: it replayed the exports of the current folder."""
    (tmp_path / "run.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    monkeypatch.chdir(tmp_path)
    result = cli("replay", "", "-f", str(folder))
    assert (result.exit_code, "names nothing to replay" in result.stderr) == (2, True)


def test_a_run_of_a_graph_is_not_replayed(api: FakeApi, cli: Cli, folder: Path) -> None:
    kit = Stepwell(folder)
    kit.define("workflow: flow\ntimeline: [{name: nap, sleep: 60s}]")
    lines = kit.start("flow").export()
    page = {"items": lines, "next_cursor": None}
    api.on("GET", "/runs/r2/export", (200, page))
    result = cli("replay", "r2", "-f", str(folder))
    assert result.exit_code == 2
    run_id = lines[0]["run"]["run_id"]
    assert f"error: {run_id} is a run of a graph; a replay needs a durable function" in result.stderr


@pytest.mark.parametrize("given", ["", "7"])
def test_the_commands_that_run_functions_have_one_hash_seed_unless_the_environment_says_one(given: str) -> None:
    code = "from stepwell.settings import fix_hash_seed; fix_hash_seed(); print(hash('a'))"
    told = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    told |= {"PYTHONHASHSEED": given} if given else {}
    seen = {
        subprocess.run([sys.executable, "-c", code], env=told, capture_output=True, check=True).stdout  # noqa: S603
        for _ in range(2)
    }
    assert len(seen) == 1


def test_dev_and_replay_run_functions() -> None:
    """They are asked for by these words."""
    assert {command.__name__ for command in COMMANDS} >= REPLAYING
