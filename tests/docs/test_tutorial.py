"""The tutorial's commands, one after the other, against a server that is killed midway."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from stepwell.cli.main import app
from tests.docs.snippets import DOCS, Snippet, snippets

STEPS = [one for one in snippets() if one.page == DOCS / "tutorial.md"]
_RUN_ID = re.compile(r"run_\w+")


class Terminal:
    """Runs the commands of a block. `stepwell dev` is a process of its own; the other commands run in this one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
        self._set = monkeypatch
        self._place = place
        self._server: subprocess.Popen[str] | None = None
        self._run = ""

    def type(self, block: Snippet) -> str:
        """Types the lines of a block. Returns what the last command printed."""
        printed = ""
        for line in block.text.splitlines():
            for command in line.split(" && "):
                printed = self._one(command)
        return printed

    def _one(self, command: str) -> str:
        given, _, piped = command.rpartition(" | ")
        match piped.replace("RUN", self._run).split(maxsplit=1):
            case ["python3" | "source" | "pip", _]:
                return ""  # this test's own environment; tests/wheel installs the wheel
            case ["cd", folder]:
                self._place /= folder
                self._set.chdir(self._place)
            case ["export", variable]:
                self._set.setenv(*variable.split("=", 1))
            case ["pytest"]:
                return self._pytest()
            case ["stepwell", "dev"]:
                self.kill()
                self._serve()
            case ["stepwell", words]:
                return self._stepwell(words, given.removeprefix("echo ").strip("'"))
            case other:
                raise AssertionError(other)
        return ""

    def _stepwell(self, words: str, stdin: str) -> str:
        done = CliRunner().invoke(app, shlex.split(words), input=stdin or None, prog_name="stepwell")
        assert done.exit_code == 0, done.output
        if words.startswith("run "):
            found = _RUN_ID.search(done.output)
            assert found is not None
            self._run = found[0]
            self._wait_until_it_waits()
        return done.output

    def _wait_until_it_waits(self) -> None:
        """Does what a reader does without noticing: gives a worker the time to begin."""
        deadline = time.monotonic() + 120
        while httpx.get(f"{os.environ['STEPWELL_URL']}/runs/{self._run}").json()["status"] != "waiting":
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def _pytest(self) -> str:
        words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist"]
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
        done = subprocess.run(  # noqa: S603
            words, cwd=self._place, capture_output=True, text=True, check=False, env=variables
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def _serve(self) -> None:
        words = [str(Path(sys.executable).with_name("stepwell")), "dev", "--port", "0"]
        self._server = subprocess.Popen(words, cwd=self._place, stdout=subprocess.PIPE, text=True)  # noqa: S603
        assert self._server.stdout is not None
        ready = self._server.stdout.readline()
        assert ready.startswith("ready http://127.0.0.1:")
        self._set.setenv("STEPWELL_URL", ready.removeprefix("ready ").strip())

    def kill(self) -> None:
        """Kills the server as a crash would."""
        if self._server:
            self._server.send_signal(signal.SIGKILL)
            self._server.wait()
            assert self._server.stdout is not None
            self._server.stdout.close()
            self._server = None


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Terminal]:
    for name, value in {"COLUMNS": "120", "NO_COLOR": "1", "USER": "ana"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    opened = Terminal(monkeypatch, tmp_path)
    yield opened
    opened.kill()


def test_the_tutorial_works_from_the_first_command_to_the_dry_run(terminal: Terminal, tmp_path: Path) -> None:
    printed = []
    for block in STEPS:
        if block.file:
            (tmp_path / "shop" / block.file).write_text(block.text, encoding="utf-8")
        elif "--dry-run" in block.text:
            break  # what follows needs an account
        else:
            printed.append(terminal.type(block))
    tests, _, shown, history, explained, _, ended, tested = printed
    assert "5 passed" in tests
    assert "waiting" in shown
    assert "approval.received" in history
    assert "order.paid" in explained
    assert "paid" in ended
    assert "7 passed" in tested
