"""A process whose standard streams are closed, as cron, a service or pythonw may start it; and an interrupted one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from shlex import quote

import pytest

from stepwell.cli.exits import INTERRUPTED

from .conftest import Cli

FLOW = "workflow: refund\ntimeline: [{name: pause, sleep: 1s}]\n"
COMMAND = "{python} -c 'from stepwell.cli.main import main; main()' {words} {closed}"


def run(words: str, closed: str, place: Path) -> subprocess.CompletedProcess[str]:
    """Runs the command in a shell that closes some of its streams."""
    line = COMMAND.format(python=quote(sys.executable), words=words, closed=closed)
    return subprocess.run(  # noqa: S602 - our own words
        line, shell=True, cwd=place, capture_output=True, text=True, check=False,
        env={**os.environ, "STEPWELL_URL": "http://127.0.0.1:9"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run refund -i -", "error: standard input is empty [bad_json]"),
        ("event paid -i -", "error: standard input is empty [bad_json]"),
        ("purge --tag customer=c7", "not_confirmed"),
        ("deploy", "needs_yes"),
        ("webhook test acme -f -", "unknown_source"),
    ],
)
def test_a_command_that_asks_says_what_it_lacks_without_standard_input(words: str, said: str, tmp_path: Path) -> None:
    """Python has no sys.stdin then."""
    (tmp_path / "flow.yaml").write_text(FLOW)
    done = run(words, "<&-", tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_without_output_still_has_its_exit_status(closed: str, tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(FLOW)
    assert run("check .", closed, tmp_path).returncode == 0


def test_an_empty_input_is_told(cli: Cli) -> None:
    result = cli("run", "refund", "-i", "-", stdin="")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "hint: pipe JSON into the command, or give -i a file or JSON" in result.stderr


def test_an_interrupt_ends_a_completion_without_a_traceback() -> None:
    """A person presses Ctrl-C when the completion takes too long."""
    code = "import stepwell.cli, os, signal; os.kill(os.getpid(), signal.SIGINT)"
    done = subprocess.run(  # noqa: S603 - our own words
        [sys.executable, "-c", code], capture_output=True, check=False,
        env={**os.environ, "_STEPWELL_COMPLETE": "complete_bash"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")


SLOW_IMPORT = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests in the background ignores it
os.kill(os.getpid(), signal.SIGINT)
"""


def test_an_interrupt_ends_a_command_without_a_traceback_while_it_is_still_imported(tmp_path: Path) -> None:
    """A person sees a wrong argument and presses Ctrl-C at once."""
    (tmp_path / "typer.py").write_text(SLOW_IMPORT)
    script = next(one for one in entry_points(group="console_scripts") if one.name == "stepwell")
    code = f"from {script.module} import {script.attr}; {script.attr}()"
    done = subprocess.run(  # noqa: S603 - our own words
        [sys.executable, "-c", code, "runs"], capture_output=True, check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (INTERRUPTED, b"", b"")
