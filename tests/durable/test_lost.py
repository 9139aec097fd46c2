"""A worker that dies with a durable function, again and again: what comes next has failed, then the function has."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.runtime.log.messages import DeadLetter, Wake
from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Run, Stepwell

MODULE = """
from stepwell import StepFailed, step, workflow

@step
def deadly() -> int:
    return 1

@workflow
async def careful(ctx):
    try:
        await ctx.step(deadly)
    except StepFailed as error:
        return [error.type, error.category]

@workflow
async def careless(ctx):
    return await ctx.step(deadly)

@workflow
async def tidy(ctx):
    try:
        await ctx.sleep("1h")
    finally:
        await ctx.step(deadly)
"""


@pytest.fixture
def kit(tmp_path: Path) -> Stepwell:
    (tmp_path / "dying.py").write_text(MODULE)
    return Stepwell(tmp_path)


def die(kit: Stepwell, run: Run, slot: int) -> None:
    """The message about this record has killed so many workers that it is given up."""
    run_now(kit._parts.coordinator.handle(DeadLetter(Wake(run.id, slot))))


def test_the_step_that_killed_its_workers_has_failed_and_the_function_can_take_it(kit: Stepwell) -> None:
    run = kit.start("careful")
    die(kit, run, -1)
    assert (run.status, run.result) == ("completed", ["worker_lost", "worker_lost"])


def test_one_that_takes_nothing_fails_with_it(kit: Stepwell) -> None:
    run = kit.start("careless")
    die(kit, run, -1)
    assert run.status == "failed"
    assert run.error is not None
    assert run.error["type"] == "worker_lost"
    assert "died" in run.error["message"]


def test_a_function_that_kills_its_workers_itself_comes_to_an_end(kit: Stepwell) -> None:
    run = kit.start("careful")
    die(kit, run, -1)
    die(kit, run, 0)  # it was not the step
    assert run.status == "failed"
    assert run.error is not None
    assert run.error["type"] == "worker_lost"


def test_one_that_kills_its_workers_while_it_cleans_up_is_cancelled_all_the_same(kit: Stepwell) -> None:
    run = kit.start("tidy")
    assert run.status == "waiting"
    run_now(kit._parts.service.cancel(run.id, "enough", "ana"))
    die(kit, run, 1)
    die(kit, run, 2)
    assert (run.status, run.view["cancelled_by"]) == ("cancelled", "ana")
