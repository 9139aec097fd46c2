"""A durable function under `while_waiting: release`: its waits give back its permit, and its replays find the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.testing.kit import Stepwell
from tests.durable.dying import deaths

MODULE = """
import asyncio
from stepwell import step, workflow

@step
def charge(n: int) -> int:
    return n * 10

@workflow(concurrency={"limit": 1, "while_waiting": "release"})
async def naps(ctx):
    first = await ctx.step(charge, 1)
    await ctx.sleep("1h")
    given = await ctx.approval()
    return [first, given["decision"], await ctx.step(charge, 2)]

@workflow(concurrency={"limit": 1, "while_waiting": "release"})
async def together(ctx):
    return await asyncio.gather(ctx.sleep("1h"), ctx.step(charge, 3))
"""


@pytest.fixture
def kit(tmp_path: Path) -> Stepwell:
    return made(tmp_path)


def made(folder: Path) -> Stepwell:
    (folder / "released.py").write_text(MODULE)
    return Stepwell(folder)


def test_functions_that_sleep_let_others_begin_and_go_on_one_by_one(kit: Stepwell) -> None:
    runs = [kit.start("naps") for _ in range(3)]
    assert [run.waiting_for for run in runs] == ["sleep"] * 3
    kit.advance("1h")
    assert [run.waiting_for for run in runs] == ["approval"] * 3
    for run in runs:
        run.approve()
    kit.settle()
    assert [run.result for run in runs] == [[10, "approved", 20]] * 3
    for run in runs:
        kit.replay(run)


def test_a_function_with_tasks_keeps_its_permit(kit: Stepwell) -> None:
    """Some of them may work while the others wait."""
    first, second = kit.start("together"), kit.start("together")
    assert (first.status, second.status) == ("waiting", "pending")
    kit.advance("2h")
    assert [first.result, second.result] == [[None, 30]] * 2


def test_a_redriven_run_begins_with_a_permit_of_its_own(kit: Stepwell) -> None:
    failed = kit.start("naps")
    kit.advance("1h")
    kit.mock("charge", raises=ValueError("declined"), times=1)
    failed.approve()
    kit.settle()
    assert failed.status == "failed"
    again, other = failed.redrive(), kit.start("naps")
    assert (again.status, other.waiting_for) == ("completed", "sleep")
    other.cancel()
    assert kit.start("naps").waiting_for == "sleep"


def test_whoever_dies_leaves_no_function_behind(tmp_path: Path) -> None:
    folders = iter(range(10_000))

    def make() -> Stepwell:
        folder = tmp_path / str(next(folders))
        folder.mkdir()
        return made(folder)

    def play(kit: Stepwell) -> None:
        for name in ("a", "b"):
            kit.start("naps", run_id=name)
        kit.advance("2h")

    for kit in deaths(make, play, each=3):
        kit.advance("3h")
        assert [run.waiting_for for run in kit.runs("naps")] == ["approval"] * 2
        kit.close()
