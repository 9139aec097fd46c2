"""`stepwell verify` sends updates, and compares their answers like the rest of the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepwell.definition.graph import Json
from stepwell.local.replaying import exported
from stepwell.testing.kit import Stepwell
from stepwell.testing.verify import Report, answers, verify

CODE = """
from pathlib import Path
from stepwell import step, workflow

@step
def write() -> int:
    with Path("told.txt").open("a") as told:
        told.write("x")
    return len(Path("told.txt").read_text())

@workflow
async def cart(ctx):
    items = []

    @ctx.update("add")
    def add(item: str) -> int:
        items.append(item)
        return len(items)

    @ctx.update("tell")
    async def tell() -> int:
        return await ctx.step(write)

    await ctx.event("pay")
    return items
"""
ADDED = [{"update": {"name": "add", "input": {"item": one}}} for one in ("pen", "ink")]
PAID = {"event": {"name": "pay"}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "flows"
    place.mkdir()
    (place / "shop.py").write_text(CODE)
    return place


def verified(folder: Path, given: list[Any]) -> Report:
    return verify(folder, "cart", {}, answers=given, shuffles=4)


def test_updates_are_answered_once_in_each_schedule(folder: Path) -> None:
    report = verified(folder, [*ADDED, PAID])
    assert report.holds, report
    assert report.undisturbed["result"] == ["pen", "ink"]
    assert report.undisturbed["updates"] == {"add": [{"output": 1}, {"output": 2}]}


@pytest.mark.parametrize(
    ("update", "answer"),
    [({"name": "add"}, {"error": "step_input"}), ({"name": "ad"}, {"error": "unknown_update"})],
)
def test_the_error_of_an_update_is_its_answer(folder: Path, update: Json, answer: Json) -> None:
    report = verified(folder, [{"update": update}, PAID])
    assert (report.holds, report.undisturbed["updates"]) == (True, {update["name"]: [answer]})


def test_an_answer_that_differs_after_a_crash_does_not_hold(folder: Path) -> None:
    """The handler's step runs again where a worker dies before its record, and counts itself."""
    report = verified(folder, [{"update": {"name": "tell"}}, PAID])
    assert not report.holds
    assert "updates.tell" in str(report)


def test_the_updates_of_an_exported_run_are_sent_again(folder: Path) -> None:
    kit = Stepwell(folder)
    run = kit.start("cart")
    run.update("add", {"item": "pen"})
    kit.advance("1m")
    run.event("pay")
    given = answers.answers_of(exported(run.export(), "run.jsonl"))
    assert [one.kind for one in given] == ["update", "event"]
    assert verified(folder, [*given]).undisturbed["result"] == ["pen"]
