"""The layout of runtime/: few rooms, and none that needs another one which needs it."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import stepwell.runtime

PACKAGE = "stepwell.runtime."
TOP = Path(stepwell.runtime.__file__).parent
MOST_ROOMS = 16


def room_of(path: Path) -> str:
    return path.relative_to(TOP).parts[0].removesuffix(".py")


def rooms_needed(path: Path) -> set[str]:
    """The rooms that a module imports from, its own aside."""
    tree = ast.parse(path.read_text())
    names = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    return {name.removeprefix(PACKAGE).split(".")[0] for name in names if name.startswith(PACKAGE)} - {room_of(path)}


def needs() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in TOP.rglob("*.py"):
        if path.parent != TOP or path.name != "__init__.py":
            found.setdefault(room_of(path), set()).update(rooms_needed(path))
    return found


def test_the_runtime_has_few_rooms() -> None:
    assert len(needs()) <= MOST_ROOMS, sorted(needs())


def test_no_room_needs_one_that_needs_it() -> None:
    order = list(TopologicalSorter(needs()).static_order())
    assert order.index("log") < order.index("waits") < order.index("loop") < order.index("calls")


def test_a_circle_of_rooms_would_be_seen() -> None:
    with pytest.raises(CycleError):
        TopologicalSorter({**needs(), "log": {"loop"}}).prepare()
