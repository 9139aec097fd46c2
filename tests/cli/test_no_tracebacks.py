"""What a person types wrongly ends in one clear error, and never in a traceback."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stepwell.cli.arguments import read_since
from stepwell.errors import UserError

from .conftest import Cli

LONG = "x" * 5_000


def told(result: object) -> str:
    """The error that was printed, with its code and its hint."""
    code, stderr = getattr(result, "exit_code", None), getattr(result, "stderr", "")
    assert code == 2, stderr
    headline, hint = stderr.splitlines()
    assert headline.startswith("error: ")
    assert hint.startswith("  hint: ")
    return str(headline)


@pytest.mark.parametrize("command", [["show"], ["run"], ["check"], ["runs", "--workflow"]])
def test_an_argument_that_is_no_text(cli: Cli, command: list[str]) -> None:
    assert told(cli(*command, "\udcff\udcfe")).endswith("is not text [bad_usage]")


@pytest.mark.parametrize("command", [["check"], ["init"], ["dev", "--port", "0", "--data"]])
def test_a_path_that_is_too_long(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert told(cli(*command, LONG)).endswith("file name too long [bad_path]")


@pytest.mark.parametrize("url", ["http://[::1", "http://a\nb", "http://", "nope"])
def test_a_url_that_is_none(cli: Cli, url: str) -> None:
    assert told(cli("runs", "--url", url)).endswith("is not the URL of an API [bad_url]")


def test_a_time_before_all_time_zones() -> None:
    with pytest.raises(UserError) as refused:
        read_since("0001-01-01")
    assert refused.value.code == "bad_time"


@pytest.mark.parametrize("command", [["replay", "bin.jsonl"], ["verify", "w", "--answers", "bin.jsonl"]])
def test_an_export_that_is_no_text(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    (tmp_path / "bin.jsonl").write_bytes(b"\xff\xfe\0")
    monkeypatch.chdir(tmp_path)
    assert told(cli(*command)).endswith("[bad_export]")


@pytest.mark.parametrize("command", [["replay", "cut.jsonl"], ["gate", "--against", "cut.jsonl"]])
@pytest.mark.parametrize("run", [[], {"run_id": "r1", "workflow": "w"}, {"status": "odd"}])
def test_an_export_of_which_a_part_is_missing(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], run: Any
) -> None:
    whole = {"run_id": "r1", "workflow": "w", "version": "v", "input": None, "created_ms": 1}
    facts = {**whole, **run} if "status" in run else run
    line = {"format": "stepwell.export/1", "run": facts, "definition": {"function": "python:m.w"}}
    (tmp_path / "cut.jsonl").write_text(json.dumps(line))
    monkeypatch.chdir(tmp_path)
    assert told(cli(*command)).endswith("[bad_export]")


@pytest.mark.parametrize("command", [["check"], ["dev", "--port", "0"], ["init", "x"], ["doctor"]])
def test_a_current_folder_that_is_gone(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert told(cli(*command)) == "error: the current folder is not there any more [no_such_folder]"


def process(words: str, into: str) -> subprocess.CompletedProcess[str]:
    line = f"{shlex.quote(sys.executable)} -c 'from stepwell.cli.main import main; main()' {words} {into}"
    return subprocess.run(  # noqa: S602 - our own words
        line, shell=True, capture_output=True, text=True, check=False, env={**os.environ, "STEPWELL_URL": ""}
    )


def test_the_command_is_a_module_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a Python whose scripts are not on the path, and one that starts anew with its hash seed.

    It finds the modules that the script finds: not those of the current folder.
    """
    monkeypatch.chdir(tmp_path)
    Path("workflows").mkdir()
    Path("beside.py").touch()
    flow = "import beside\nfrom stepwell import workflow\n@workflow\nasync def w(ctx): ...\n"
    Path("workflows/order.py").write_text(flow)
    for words, status, told in (
        (["replay", "nowhere/run.jsonl"], 2, "error: there is no export at nowhere/run.jsonl [no_such_export]"),
        (
            ["check"],
            1,
            "workflows/order.py:1:1: error there is no module 'beside', so this import fails [unknown_import]",
        ),
    ):
        command = [sys.executable, "-m", "stepwell", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - this Python
        assert (done.returncode, done.stderr.partition("\n")[0] or done.stdout.partition("\n")[0]) == (status, told)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full device")
@pytest.mark.parametrize("words", ["--help", "schema"])
def test_a_full_disk_behind_standard_output(words: str) -> None:
    done = process(words, ">/dev/full")
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot write a file: no space left on device [disk_full]\n  hint: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", ["--help", "schema"])
def test_a_pipe_that_closes(words: str) -> None:
    done = process(words, "| head -0")
    assert done.stderr == ""
