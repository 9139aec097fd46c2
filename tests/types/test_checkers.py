"""mypy --strict and pyright find each wrong use of `ctx`, and nothing in the right ones."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def run(*words: str) -> str:
    """A checker prints what it found, and exits with 1 if there is something."""
    done = subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True)  # noqa: S603, PLW1510 - this Python
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    return done.stdout


def mypy(file: str) -> set[int]:
    lines = run("mypy", "--strict", "--output", "json", file).splitlines()
    found = [json.loads(line) for line in lines if line]
    return {one["line"] for one in found if one["severity"] == "error" and one["file"] == file}


def pyright(file: str) -> set[int]:
    found = json.loads(run("pyright", "--pythonpath", sys.executable, "--outputjson", file))["generalDiagnostics"]
    return {one["range"]["start"]["line"] + 1 for one in found if one["severity"] == "error"}


CHECKERS = pytest.mark.parametrize("check", [mypy, pyright], ids=lambda check: check.__name__)


@CHECKERS
def test_right_uses_pass_and_have_their_types(check: Callable[[str], set[int]]) -> None:
    assert check("tests/types/right.py") == set()


@CHECKERS
def test_each_wrong_use_is_found(check: Callable[[str], set[int]]) -> None:
    lines = enumerate((HERE / "wrong.py").read_text().splitlines(), 1)
    assert check("tests/types/wrong.py") == {number for number, line in lines if line.endswith("# wrong")}
