"""The program `build_all`: tasks beside each other in virtual time, and a server that is killed in between."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from stepwell.testing.kit import Run, Stepwell
from tests.local.killing import survive

NEEDS = {"app": ["lib", "ui"], "lib": ["base"], "ui": ["base"], "base": [], "docs": []}


@pytest.fixture(autouse=True)
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BUILD_DATA", str(tmp_path))
    return tmp_path / "made"


def test_each_target_is_made_once_after_what_it_needs(stepwell: Stepwell, made: Path) -> None:
    run = stepwell.start("build_all", {"needs": NEEDS})
    assert run.result == {
        "app": "app(lib(base()),ui(base()))",
        "lib": "lib(base())",
        "ui": "ui(base())",
        "base": "base()",
        "docs": "docs()",
    }
    order = made.read_text().split()
    assert sorted(order) == sorted(NEEDS)
    assert all(order.index(one) < order.index(target) for target, needed in NEEDS.items() for one in needed)


def test_what_needs_nothing_of_each_other_is_made_at_the_same_time(stepwell: Stepwell) -> None:
    """base, then lib and ui beside each other, then app; docs beside all of them."""
    stepwell.mock("make", returns="x", takes="1m")
    run = stepwell.start("build_all", {"needs": NEEDS})
    stepwell.advance("3m")
    assert (run.status, seconds_of(run)) == ("completed", 180)


def test_a_target_that_cannot_be_made_ends_the_build(stepwell: Stepwell) -> None:
    stepwell.mock("make", raises=ValueError("a syntax error"))
    run = stepwell.start("build_all", {"needs": NEEDS})
    stepwell.advance("10s")
    assert (run.status, run.error and run.error["message"]) == ("failed", "a syntax error")


def test_a_circle_is_told_before_anything_is_made(stepwell: Stepwell, made: Path) -> None:
    run = stepwell.start("build_all", {"needs": {"a": ["b"], "b": ["c"], "c": ["b"]}})
    assert (run.status, run.error and run.error["type"]) == ("failed", "CycleError")
    assert not made.exists()


def test_after_a_kill_it_makes_what_is_left(tmp_path: Path, made: Path) -> None:
    """The server is killed while `ui` is being made: what was recorded before is not made again."""
    blocked = tmp_path / "ui.blocked"
    blocked.touch()

    def is_lib_made() -> bool:
        is_made = made.exists() and "lib" in made.read_text().split()
        if is_made:
            blocked.unlink(missing_ok=True)  # the next server can make it
        return is_made

    run = survive(Path(__file__).parent, tmp_path / "data", "build_all", {"needs": NEEDS}, is_lib_made)
    assert run["status"] == "completed"
    order = made.read_text().split()
    assert [order.count(target) for target in ("base", "docs")] == [1, 1]
    assert set(order) == set(NEEDS)


def seconds_of(run: Run) -> int:
    began, ended = (datetime.fromisoformat(run.view[name]) for name in ("started_at", "ended_at"))
    return int((ended - began).total_seconds())
