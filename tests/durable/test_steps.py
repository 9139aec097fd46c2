"""A durable function's steps: policies, arguments, failures, and what cannot be one."""

from __future__ import annotations

from tests.durable.conftest import Flows

SHOP = """
from stepwell import Retry, StepFailed, step, workflow

def double(n: int) -> int:
    return n * 2

@step(name="charge-card", retry=Retry(2), timeout="5s")
def charge(amount, ctx):
    return {"amount": amount, "key": ctx.idempotency_key, "attempt": ctx.attempt}

"""


def test_what_a_step_returned_is_the_value_of_its_await_and_is_recorded(flows: Flows) -> None:
    kit = flows(
        SHOP
        + """
@workflow
async def flow(ctx, n: int):
    first = await ctx.step(double, n)
    return await ctx.step(double, n=first)
"""
    )
    run = kit.start("flow", {"n": 3})
    assert (run.status, run.result) == ("completed", 12)
    cost = run.view["cost"]
    assert (cost["steps"], cost["records"]) == (2, 3)  # one append for each operation, and the end


def test_a_step_costs_one_record_though_a_task_beside_it_waits_for_what_the_function_does_next(flows: Flows) -> None:
    """Of all that the function awaits, the step alone needs a record."""
    kit = flows(
        SHOP
        + """
import asyncio

@workflow
async def flow(ctx, n: int):
    is_done = asyncio.Event()
    beside = asyncio.create_task(is_done.wait())
    doubled = await ctx.step(double, n)
    is_done.set()
    return [doubled, await beside]
"""
    )
    run = kit.start("flow", {"n": 3})
    assert run.result == [6, True]
    assert run.view["cost"]["records"] == 2


def test_a_step_is_tried_again_by_its_own_policy_or_by_the_one_that_the_function_gives(flows: Flows) -> None:
    kit = flows(
        SHOP
        + """
@workflow
async def flow(ctx):
    await ctx.step(charge, 5)
    return await ctx.step(charge, 6, name="second", retry=Retry(1, initial_delay="1h"))
"""
    )
    first = kit.mock("charge-card", raises=ConnectionError("down"), times=2)
    second = kit.mock("second", raises=ConnectionError("down"), times=1)
    run = kit.start("flow")
    kit.advance("10s")
    assert (len(first.calls), len(second.calls), run.status) == (2, 1, "running")
    kit.advance("1h")
    assert (run.result["amount"], run.result["attempt"]) == (6, 2)
    assert run.steps["charge-card"].attempts == 3


def test_the_failure_of_a_step_can_be_caught_with_its_type_and_category(flows: Flows) -> None:
    kit = flows(
        SHOP
        + """
@workflow
async def flow(ctx):
    try:
        await ctx.step(charge, 5)
    except StepFailed as error:
        return [error.type, error.category, str(error), error.data]
"""
    )
    kit.mock("charge-card", raises=ValueError("no card"))
    assert kit.start("flow").result == ["ValueError", "step", "no card", None]


def test_the_failure_of_a_step_that_nobody_catches_is_the_runs_as_it_is(flows: Flows) -> None:
    kit = flows(
        SHOP
        + """
@workflow
async def flow(ctx):
    await ctx.step(charge, 5)
"""
    )
    kit.mock("charge-card", times_out=True)
    run = kit.start("flow")
    assert run.error is not None
    assert (run.status, run.error["type"], run.error["category"], run.error["step"]) == (
        "failed", "step_timeout", "timeout", "charge-card",
    )  # fmt: skip


def test_a_steps_time_limit_is_the_functions_own_word(flows: Flows) -> None:
    kit = flows(
        SHOP
        + """
import time

def slow():
    while True:
        time.sleep(0.001)

@workflow
async def flow(ctx):
    await ctx.step(slow, timeout=0.02)
"""
    )
    run = kit.start("flow")
    assert (run.status, run.error and run.error["type"]) == ("failed", "step_timeout")


def test_a_step_that_is_run_at_most_once_records_its_start(flows: Flows) -> None:
    kit = flows(
        SHOP
        + """
@workflow
async def flow(ctx):
    return await ctx.step(double, 1, at_most_once=True)
"""
    )
    run = kit.start("flow")
    assert run.result == 2
    assert run.view["cost"]["records"] == 3


def test_a_step_of_a_pool_goes_to_that_pools_workers(flows: Flows) -> None:
    kit = flows(
        SHOP
        + """
@workflow
async def flow(ctx):
    a = await ctx.step(double, 1, pool="large")
    return [a, await ctx.step(double, 2)]
"""
    )
    assert kit.start("flow").result == [2, 4]


def test_each_call_of_one_step_has_an_idempotency_key_of_its_own(flows: Flows) -> None:
    kit = flows(
        SHOP
        + """
@workflow
async def flow(ctx):
    return [(await ctx.step(charge, n))["key"] for n in range(3)]
"""
    )
    keys = kit.start("flow").result
    assert len(set(keys)) == 3


def test_async_steps_and_methods_of_modules_are_steps_too(flows: Flows) -> None:
    kit = flows("""
from stepwell import workflow

async def later(n: int):
    return n + 1

@workflow
async def flow(ctx):
    return await ctx.step(later, 1)
""")
    assert kit.start("flow").result == 2


def test_a_lambda_a_method_or_a_nested_function_cannot_be_a_step(flows: Flows) -> None:
    kit = flows("""
from functools import partial
from stepwell import workflow

class Shop:
    def sell(self): ...

def top(): ...

@workflow
async def flow(ctx, which: str):
    def inner(): ...
    await ctx.step({"lambda": lambda: 1, "method": Shop().sell, "inner": inner, "partial": partial(top)}[which])
""")
    for which in ("lambda", "method", "inner", "partial"):
        run = kit.start("flow", {"which": which})
        assert run.error is not None
        assert (run.status, run.error["type"]) == ("failed", "bad_step"), which
        assert "function of a module" in run.error["message"]


def test_a_workflow_is_no_step_and_the_error_says_how_to_run_it(flows: Flows) -> None:
    kit = flows(
        SHOP
        + """
@workflow
async def flow(ctx):
    await ctx.step(flow)
"""
    )
    run = kit.start("flow")
    assert run.error is not None
    assert run.error["type"] == "bad_step"
    assert "ctx.child" in run.error["message"]


def test_a_step_that_takes_any_names_gets_them(flows: Flows) -> None:
    kit = flows(
        SHOP
        + """
def rest(n, **more):
    return [n, more]

@workflow
async def flow(ctx):
    return await ctx.step(rest, 1, a=2, b=3)
"""
    )
    assert kit.start("flow").result == [1, {"a": 2, "b": 3}]


def test_arguments_that_do_not_fit_are_told_before_anything_runs(flows: Flows) -> None:
    kit = flows(
        SHOP
        + """
@workflow
async def flow(ctx):
    await ctx.step(double, 1, 2, 3)
"""
    )
    run = kit.start("flow")
    assert run.error is not None
    assert run.error["type"] == "step_input"
    assert "double" in run.error["message"]


def test_a_steps_pause_is_its_own_and_its_result_is_what_it_awaited(flows: Flows) -> None:
    kit = flows("""
from stepwell import sleep, wait_for_event, workflow

def nap():
    return sleep("1h", result={"rested": True})

def ask():
    return wait_for_event("answer", result={"asked": 1})

@workflow
async def flow(ctx):
    return [await ctx.step(nap), await ctx.step(ask)]
""")
    run = kit.start("flow")
    assert run.status == "waiting"
    kit.advance("1h")
    assert run.waiting_for == "event"
    kit.event("answer", {"yes": True})
    assert run.result == [{"rested": True}, {"asked": 1, "yes": True}]


def test_a_parameter_that_is_called_like_an_option_is_to_be_given_by_position(flows: Flows) -> None:
    kit = flows("""
from stepwell import workflow

def pay(n: int, timeout: int) -> list[int]:
    return [n, timeout]

@workflow
async def right(ctx):
    return await ctx.step(pay, 1, 30, timeout="5s")

@workflow
async def wrong(ctx):
    return await ctx.step(pay, 1, timeout=30)
""")
    assert kit.start("right").result == [1, 30]
    error = kit.start("wrong").error
    assert error is not None
    assert (error["type"], "give the parameter by position" in error["message"]) == ("step_input", True), error
