"""A function's steps and approvals of one name have rows of their own in what a run shows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.durable.conftest import Flows

CODE = """
from stepwell import Rejected, workflow

def sign(text: str):
    return text

@workflow
async def contract(ctx, has_updates: bool = False, twice: bool = True):
    if has_updates:  # then each operation is a branch
        ctx.update("add", lambda item: None)
    await ctx.step(sign, "draft")
    await ctx.approval("sign", timeout="1d")
    if twice:
        await ctx.step(sign, "copy")

@workflow
async def asked(ctx):
    await ctx.approval("sign", timeout="1d")
    return ctx.continue_as(alone)

@workflow
async def alone(ctx):
    return await ctx.step(sign, "anew")

@workflow
async def paired(ctx):
    await ctx.all(ctx.approval("sign", timeout="1d"), ctx.event("sign", timeout="2d"), ctx.step(sign, "draft"))
"""


def statuses(steps: Any) -> dict[str, str]:
    return {name: step["status"] for name, step in steps.items()}


@pytest.mark.parametrize("has_updates", [False, True])
def test_a_step_and_an_approval_of_one_name_have_a_row_each(flows: Flows, *, has_updates: bool) -> None:
    kit = flows(CODE)
    run = kit.start("contract", {"has_updates": has_updates})
    assert statuses(run.view["steps"]) == {"sign": "completed", "sign (approval)": "waiting"}
    assert run.view["progress"] == "1/2"
    run.approve(by="ana")
    assert statuses(run.view["steps"]) == {"sign": "completed", "sign (approval)": "completed"}
    assert [run.view["steps"][name]["attempts"] for name in ("sign", "sign (approval)")] == [1 + has_updates, 0]
    if not has_updates:
        assert run.view["steps"]["sign"]["output"] == "copy"
        assert run.view["steps"]["sign (approval)"]["output"]["by"] == "ana"


def test_the_row_of_a_step_stays_when_the_last_of_its_name_is_an_approval(flows: Flows) -> None:
    run = flows(CODE).start("contract", {"twice": False})
    run.approve(by="ana")
    assert run.status == "completed"
    assert run.view["steps"]["sign"]["output"] == "draft"
    assert statuses(run.view["steps"]) == {"sign": "completed", "sign (approval)": "completed"}


def test_two_waits_and_a_step_of_one_name_side_by_side_have_a_row_each(flows: Flows) -> None:
    run = flows(CODE).start("paired")
    assert statuses(run.view["steps"]) == {
        "sign": "completed", "sign (approval)": "waiting", "sign (event)": "waiting"}  # fmt: skip


def test_a_name_that_only_one_of_them_has_in_the_present_life_stays_as_it_is(flows: Flows) -> None:
    run = flows(CODE).start("asked")
    assert statuses(run.view["steps"]) == {"sign": "waiting"}
    run.approve(by="ana")
    assert (run.result, statuses(run.view["steps"])) == ("anew", {"sign": "completed"})
