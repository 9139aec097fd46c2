"""Throttled steps of durable functions: they wait aside, and replays see nothing of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.testing.kit import Stepwell

MODULE = """
from stepwell import step, workflow

@step
def charge(n: int) -> int:
    return n * 10

@workflow
async def pays(ctx, customer):
    first = await ctx.step(charge, 1, throttle="stripe")
    await ctx.sleep("1h")
    return [first, await ctx.step(charge, 2, throttle={"limit": "stripe", "key": customer})]

@workflow
async def many(ctx):
    return await ctx.map(charge, [1, 2, 3, 4], throttle="stripe")

@workflow
async def books(ctx):
    await ctx.event("site.ready")
    return await ctx.step(charge, 1, throttle="stripe")

@workflow
async def lost(ctx):
    return await ctx.step(charge, 1, throttle="strip")

@workflow
async def wrong(ctx):
    return await ctx.step(charge, 1, throttle={"name": "stripe"})
"""


@pytest.fixture
def kit(tmp_path: Path) -> Stepwell:
    (tmp_path / "paying.py").write_text(MODULE)
    (tmp_path / "limits.yaml").write_text("limits: {stripe: {concurrency: 1, rate_limit: {limit: 1, per: 1m}}}")
    return Stepwell(tmp_path)


def test_a_throttled_step_waits_for_its_turn_and_its_function_replays(kit: Stepwell) -> None:
    first, second = kit.start("pays", "ana"), kit.start("pays", "ana")
    assert (first.status, second.status, second.waiting_for) == ("waiting", "waiting", "limit")
    kit.advance("1m")
    assert second.waiting_for == "sleep"
    kit.advance("2h")
    assert [first.result, second.result] == [[10, 20], [10, 20]]
    kit.replay(first)
    kit.replay(second)


def test_what_is_told_of_a_permit_names_the_step_that_needs_it(kit: Stepwell) -> None:
    """Where its function awaits it, the run's token is at the operation before it."""
    kit.start("pays", "ana")
    run = kit.start("books")
    run.event("site.ready")
    kit.settle()
    assert (run.waiting_for, run.view["current_steps"]) == ("limit", ["charge"])
    kit.advance("1m")
    told = [(entry["type"], entry["step"]) for entry in run.history if entry["type"].startswith("limit.")]
    assert told == [("limit.requested", "charge"), ("limit.granted", "charge")]


def test_a_redrive_keeps_no_step_twice_because_the_next_one_waited_for_a_permit(kit: Stepwell) -> None:
    kit.mock("charge", raises=ValueError("declined"))
    run = kit.start("books")
    run.event("site.ready")
    kit.settle()
    foretold = kit.client().handle(run.id).redrive_foretold()
    assert [one["step"] for one in foretold["kept"]] == ["site.ready"]
    assert [one["step"] for one in foretold["again"]] == ["charge"]


def test_the_items_of_a_map_take_their_turns(kit: Stepwell) -> None:
    run = kit.start("many")
    kit.advance("2m")
    assert run.status != "completed"
    kit.advance("2m")
    assert run.result == [10, 20, 30, 40]
    kit.replay(run)


def test_a_limit_that_is_not_there_fails_the_step(kit: Stepwell) -> None:
    run = kit.start("lost")
    assert run.status == "failed"
    assert run.error is not None
    assert "'strip'" in run.error["message"]


def test_a_throttle_that_cannot_be_is_an_error_of_the_function(kit: Stepwell) -> None:
    run = kit.start("wrong")
    assert run.status == "failed"
    assert run.error is not None
    assert "throttle" in run.error["message"]
