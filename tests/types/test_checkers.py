"""mypy --strict and pyright find each wrong use of `ctx`, and nothing in the right ones; what they pass over has a why.

`mypy` alone checks all the rest: the package, the tests, the examples and the benchmarks.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


FOLDERS = ("shared", "functions", "infra", "tests", "examples", "benchmarks")
FILES = ("tests/types/right.py", "tests/types/wrong.py")

Found = dict[str, set[int]]  # the lines with an error, by file


def run(*words: str) -> str:
    """A checker prints what it found, and exits with 1 if there is something."""
    done = subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True)  # noqa: S603, PLW1510 - this Python
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    return done.stdout


def mypy() -> Found:
    lines = run("mypy", "--strict", "--output", "json", *FILES).splitlines()
    found = [json.loads(line) for line in lines if line]
    errors = [one for one in found if one["severity"] == "error"]
    return {file: {one["line"] for one in errors if one["file"] == file} for file in FILES}


def pyright() -> Found:
    told = json.loads(run("pyright", "--pythonpath", sys.executable, "--outputjson", *FILES))["generalDiagnostics"]
    errors = [one for one in told if one["severity"] == "error"]
    return {
        file: {one["range"]["start"]["line"] + 1 for one in errors if Path(one["file"]) == ROOT / file}
        for file in FILES
    }


@pytest.fixture(scope="module", params=[mypy, pyright], ids=lambda check: check.__name__)
def found(request: pytest.FixtureRequest) -> Found:
    """What a checker finds in both files: it reads everything else once."""
    check: Callable[[], Found] = request.param
    return check()


def test_right_uses_pass_and_have_their_types(found: Found) -> None:
    assert found["tests/types/right.py"] == set()


def test_each_wrong_use_is_found(found: Found) -> None:
    lines = enumerate((HERE / "wrong.py").read_text().splitlines(), 1)
    assert found["tests/types/wrong.py"] == {number for number, line in lines if line.endswith("# wrong")}


def test_each_line_that_is_not_checked_says_why() -> None:
    """Its code is mypy's to ask for."""
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]
    bare = [f"{file.relative_to(ROOT)}: {line}" for file in files for line in file.read_text().splitlines()
            if re.search(r"# type: ignore\S*\s*$", line)]  # fmt: skip
    assert bare == []
    assert len(files) > 1_000
