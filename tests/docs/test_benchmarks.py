"""The benchmarks can still be run: what they measure is imported by its own name."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.py")), ids=lambda file: file.stem)
def test_a_benchmark_can_be_imported(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert callable(imported(file, monkeypatch).main)


@pytest.mark.parametrize("file", sorted((FOLDER / "peers").glob("*.py")), ids=lambda file: file.stem)
def test_a_program_to_compare_with_compiles(file: Path) -> None:
    """What it imports is installed for the comparison alone."""
    compile(file.read_text(encoding="utf-8"), str(file), "exec")


def test_the_kept_figures_have_each_program_that_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = json.loads((FOLDER / "figures.json").read_text(encoding="utf-8"))
    compare = imported(FOLDER / "compare.py", monkeypatch)
    programs = tuple(one["file"] for one in kept["programs"])
    assert programs == compare.PEERS
    assert kept["rounds"] >= 5


def imported(file: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location(f"benchmark_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module
