"""`ctx.limit`: each step within its block takes a permit of a named limit, in tasks and branches too."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from stepwell.api.runs.explain import Explanation, explain
from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Run, Stepwell
from tests.durable.dying import deaths

MODULE = """
import asyncio
from stepwell import step, workflow

@step
def charge(n: int) -> int:
    return n * 10

@workflow
async def pays(ctx, customer):
    free = await ctx.step(charge, 0)
    async with ctx.limit("stripe", key=customer):
        first = await ctx.step(charge, 1)
        await ctx.sleep("1h")
        second = await ctx.run(lambda: 20, name="second")
    return [free, first, second, await ctx.step(charge, 3)]

@workflow
async def given(ctx):
    return await ctx.step(charge, 1, throttle=ctx.limit("stripe"))

@workflow
async def mapped(ctx):
    async with ctx.limit("stripe"):
        return await ctx.map(charge, [1, 2, 3, 4])

@workflow
async def tasks(ctx):
    async def one(n):
        async with ctx.limit("stripe"):
            return await ctx.step(charge, n)

    return await asyncio.gather(*(one(n) for n in (1, 2, 3)), ctx.step(charge, 0))

@workflow
async def left(ctx):
    try:
        async with ctx.limit("stripe"):
            await ctx.step(charge, 1)
            raise ValueError("no")
    except ValueError:
        return [await ctx.step(charge, n) for n in (2, 3)]

@workflow
async def nested(ctx):
    async with ctx.limit("stripe"):
        async with ctx.limit("mail"):
            return await ctx.step(charge, 1)

@workflow
async def named(ctx):
    return ctx.limit("no such name!")

@workflow
async def closes(ctx):
    left = abandoned(ctx)

    async def enters():
        left.send(None)  # as far as its await; nobody goes on with it

    async def charges():
        async with ctx.limit("stripe"):
            left.close()
            return await ctx.step(charge, 1)

    await asyncio.create_task(enters())
    return await asyncio.create_task(charges())

@workflow
async def abandons(ctx):
    LEFT.append(abandoned(ctx))
    LEFT[-1].send(None)

async def abandoned(ctx):
    async with ctx.limit("mail"):
        await asyncio.sleep(0)

LEFT = []
"""
LIMITS = "limits: {stripe: {concurrency: 1, rate_limit: {limit: 1, per: 1m}}, mail: {concurrency: 2}}"


@pytest.fixture
def kit(tmp_path: Path) -> Stepwell:
    return made(tmp_path)


def made(folder: Path) -> Stepwell:
    (folder / "limited.py").write_text(MODULE)
    (folder / "limits.yaml").write_text(LIMITS)
    return Stepwell(folder)


def test_each_step_within_the_block_waits_for_its_turn_and_those_outside_do_not(kit: Stepwell) -> None:
    first, second = kit.start("pays", "ana"), kit.start("pays", "ana")
    assert (first.waiting_for, second.waiting_for) == ("sleep", "limit")
    kit.advance("1m")
    assert second.waiting_for == "sleep"
    kit.advance("2h")
    assert [first.result, second.result] == [[0, 10, 20, 30]] * 2
    kit.replay(first)
    kit.replay(second)


def test_the_limit_is_for_each_key_by_itself(kit: Stepwell) -> None:
    runs = [kit.start("pays", name) for name in ("ana", "bob")]
    assert [run.waiting_for for run in runs] == ["sleep", "sleep"]


def test_a_step_takes_a_limit_as_its_throttle(kit: Stepwell) -> None:
    first, second = kit.start("given"), kit.start("given")
    assert (first.status, second.waiting_for) == ("completed", "limit")
    kit.advance("1m")
    assert second.result == 10


@pytest.mark.parametrize(
    ("workflow", "minutes", "result"), [("mapped", 3, [10, 20, 30, 40]), ("tasks", 2, [10, 20, 30, 0])]
)
def test_branches_and_tasks_within_the_block_take_their_turns(
    kit: Stepwell, workflow: str, minutes: int, result: list[int]
) -> None:
    run = kit.start(workflow)
    for _ in range(minutes):
        assert run.status != "completed"
        kit.advance("1m")
    assert run.result == result
    kit.replay(run)


def test_who_leaves_the_block_by_an_error_is_limited_no_more(kit: Stepwell) -> None:
    assert kit.start("left").result == [20, 30]


def test_a_step_that_ends_otherwise_gives_its_permit_back(tmp_path: Path) -> None:
    """One that is cancelled while it waits, and one that fails."""
    (tmp_path / "limits.yaml").write_text("limits: {stripe: {concurrency: 1}}")
    (tmp_path / "limited.py").write_text(MODULE)
    kit = Stepwell(tmp_path)
    charge = kit.mock("charge", raises=ValueError("declined"), times=1)
    assert kit.start("given").status == "failed"
    assert kit.start("given").status == "completed"
    assert len(charge.calls) == 1
    kit.close()


def test_one_limit_within_another_is_an_error_of_the_function(kit: Stepwell) -> None:
    run = kit.start("nested")
    assert run.status == "failed"
    assert run.error is not None
    assert "a step has one permit" in run.error["message"]


def test_a_name_that_cannot_be_is_an_error_of_the_function(kit: Stepwell) -> None:
    run = kit.start("named")
    assert run.error is not None
    assert "bad_name" in str(run.error["type"])


def test_a_run_that_waits_for_its_turn_says_for_which_limit(kit: Stepwell) -> None:
    kit.start("given")
    alone, beside = explained(kit, kit.start("given")), explained(kit, kit.start("tasks"))
    assert alone["waiting_for"] == "limit"
    assert "stripe" in alone["why"]
    assert "stripe" in beside["why"]
    assert not alone["nothing_can_wake_it"]
    assert not beside["nothing_can_wake_it"]


def test_whoever_dies_at_whichever_call_every_step_has_its_turn(tmp_path: Path) -> None:
    """No permit is lost: two runs of three limited tasks each have all their turns."""

    def play(kit: Stepwell) -> None:
        for name in ("one", "two"):
            kit.start("tasks", key=name)
        kit.settle()

    for kit in deaths(lambda: made(tmp_path), play, each=3):
        kit.advance("20m")
        assert [run.result for run in kit.runs("tasks")] == [[10, 20, 30, 0]] * 2
        kit.close()


def test_an_abandoned_block_that_is_closed_within_another_task_leaves_that_its_limit(kit: Stepwell) -> None:
    first, second = kit.start("closes"), kit.start("closes")
    assert (first.status, second.waiting_for) == ("completed", "limit")


def test_an_abandoned_block_can_be_closed_within_a_task_of_asyncio(kit: Stepwell) -> None:
    """That has no limit: none is taken from it."""
    assert kit.start("abandons").status == "completed"
    [left] = sys.modules["limited"].LEFT

    async def closes() -> None:
        left.close()

    asyncio.run(closes())
    assert left.cr_frame is None


def explained(kit: Stepwell, run: Run) -> Explanation:
    kit.settle()
    at = run_now(kit.service.standing(run.id))
    return explain(at, kit.service.ports.clock.now_ms(), None, {})
