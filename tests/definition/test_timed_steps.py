"""A step whose function has a time limit, from `@step(timeout=…)`, gets no warning about its missing one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell.cli.folder.checking import check_path

CODE = """
from stepwell import step
from rates import rate

LIMIT = "30s"

@step(name="own", timeout="20s")
def timed(n): ...
@step(timeout=LIMIT)
def computed(n): ...
@step(name="slow", timeout=None)
def slow(n): ...
@step
def plain(n): ...
def unmarked(n): ...
"""
RATES = "import stepwell\n\n@stepwell.step(timeout='5s')\ndef rate(n): ...\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "n.py").write_text(CODE, encoding="utf-8")
    (tmp_path / "rates.py").write_text(RATES, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("run", "warns"),
    [
        ("own", False),
        ("python:n.timed", False),
        ("computed", False),
        ("python:n.rate", False),
        ("rate", False),
        ("slow", True),
        ("python:n.slow", True),
        ("plain", True),
        ("python:n.plain", True),
        ("python:n.unmarked", True),
    ],
)
def test_the_warning_is_about_steps_without_a_time_limit(folder: Path, run: str, *, warns: bool) -> None:
    (folder / "w.yaml").write_text(f"workflow: w\ntimeline:\n  - {{name: a, run: '{run}'}}\n", encoding="utf-8")
    expected = [("step_without_timeout", 3)] if warns else []
    for path in (folder, folder / "w.yaml"):
        assert [(one.code, one.line) for one in check_path(path)[1]] == expected


def test_of_two_steps_the_one_with_a_time_limit_alone_is_left_out(folder: Path) -> None:
    text = "workflow: w\ntimeline:\n  - {name: a, run: own}\n  - {name: b, run: plain}\n"
    (folder / "w.yaml").write_text(text, encoding="utf-8")
    (folder / "v.yaml").write_text(text.replace("workflow: w", "workflow: v"), encoding="utf-8")
    found = check_path(folder)[1]
    assert sorted((Path(one.file).name, one.line) for one in found) == [("v.yaml", 4), ("w.yaml", 4)]


def test_a_file_below_a_projects_folder_is_checked_with_all_its_code(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flows = folder / "flows"
    (flows / "tills").mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[tool.stepwell]\nworkflows = "flows"\npackages = ["lib"]\n')
    (folder / "lib").mkdir()
    (folder / "lib" / "__init__.py").write_text(CODE, encoding="utf-8")
    (flows / "rates.py").write_text(RATES, encoding="utf-8")
    (flows / "tills" / "two.py").write_text("from tills.three import four\nfrom stepwell import step\n\n"
                                            "@step\ndef five(): ...\n")  # fmt: skip
    (flows / "tills" / "three.py").write_text("")
    text = "workflow: w\ntimeline:\n  - {name: a, run: rate}\n  - {name: b, run: 'python:lib.timed'}\n"
    (flows / "tills" / "w.yaml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(flows / "tills")
    assert check_path(Path("w.yaml"))[1] == ()
    (problem,) = check_path(Path("two.py"))[1]
    assert (problem.code, problem.file, problem.line) == ("unknown_import", "two.py", 1)


def test_a_folder_that_cannot_be_read_leaves_the_warnings_of_a_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "w.yaml").write_text("workflow: w\ntimeline:\n  - {name: a, run: own}\n", encoding="utf-8")

    def refuse(path: Path) -> Iterator[Path]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert [one.code for one in check_path(folder / "w.yaml")[1]] == ["step_without_timeout"]
