"""A replay compares the arguments of steps, those of one at a time and those of many together."""

from __future__ import annotations

import pytest

from tests.durable.conftest import Flows

HEAD = """
import asyncio
from dataclasses import dataclass
from stepwell import step, workflow

@dataclass
class Order:
    id: int

@step
def charge(n: int) -> int:
    return n

@step
def ship(order: Order) -> int:
    return order.id

@step
def take(url: str, n: int) -> str:
    return "taken"

@workflow
async def flow(ctx):
    base = 1
    BODY
    await ctx.event("go")
    return got
"""
TOGETHER = [
    "got = await ctx.step(charge, base)",
    "got = await ctx.all(ctx.step(charge, 5), ctx.step(charge, base))",
    "got = await ctx.all(ctx.step(charge, 5), ctx.step(charge, base), max_concurrency=1)",
    "got = await ctx.all(ctx.step(charge, 5), ctx.all(ctx.step(charge, base), ctx.step(charge, 6)))",
    "got = await ctx.map(charge, [5, base])",
    "got = await ctx.map(ship, [Order(5), Order(base)])",
    "got = (await ctx.first(ctx.step(charge, base), ctx.step(charge, base)))[0]",
    "got = await asyncio.gather(ctx.step(charge, 5), ctx.step(charge, base))",
    "one = ctx.start(ctx.step(charge, base)); await ctx.sleep(1); got = await one",
    "got = await ctx.all(leg(ctx, base), leg(ctx, 5))",
]
LEG = "\nasync def leg(ctx, n):\n    return await ctx.step(charge, n)\n"


def written(body: str, base: int = 1) -> str:
    return HEAD.replace("BODY", body).replace("base = 1", f"base = {base}") + LEG


@pytest.mark.parametrize("body", TOGETHER)
def test_other_arguments_of_steps_leave_the_run_stuck_until_they_are_the_old_ones(flows: Flows, body: str) -> None:
    kit = flows(written(body))
    run = kit.start("flow")
    kit.advance("1m")
    assert run.waiting_for == "event"
    flows.write(written(body, base=2))
    kit.reload()
    kit.event("go")
    assert (run.status, run.waiting_for) == ("waiting", "code"), run.view
    assert "with other arguments" in str(run.view["waiting_data"])
    flows.write(written(body))
    kit.reload()
    assert run.status == "completed", run.view["waiting_data"]


@pytest.mark.parametrize(("before", "after", "told"), [
    ("ctx.all(ctx.step(charge, 5), ctx.step(charge, 1))", "ctx.all(ctx.step(charge, 5), ctx.step(charge, 2))",
     "all with other arguments (at index 1: step charge)"),
    ("ctx.all(ctx.step(charge, 1), ctx.step(take, 'a', 1))", "ctx.all(ctx.step(take, 'a', 1), ctx.step(charge, 1))",
     "all with other arguments (at index 0: step take, which was step charge; "
     "at index 1: step charge, which was step take)"),
    ("ctx.map(charge, range(9))", "ctx.map(charge, range(1, 10))",
     "all charge with other arguments (at index 0: step charge; at index 1: step charge; at index 2: step charge; "
     "at index 3: step charge; at index 4: step charge; and 4 more)"),
    ("asyncio.gather(ctx.step(charge, 5), leg(ctx, 1))", "asyncio.gather(ctx.step(charge, 5), leg(ctx, 2))",
     "tasks that begin step charge, step charge with other arguments (at index 1: step charge)"),
])  # fmt: skip
def test_the_error_names_the_parts_whose_arguments_are_others(flows: Flows, before: str, after: str, told: str) -> None:
    kit = flows(written(f"got = await {before}"))
    run = kit.start("flow")
    kit.advance("1m")
    flows.write(written(f"got = await {after}"))
    kit.reload()
    kit.event("go")
    assert run.view["waiting_data"]["came"] == told
    assert told in run.view["waiting_data"]["message"]


def test_a_branch_whose_function_asks_for_other_parts_names_them(
    flows: Flows, caplog: pytest.LogCaptureFixture
) -> None:
    body = "got = await ctx.all(ctx.step(charge, BASE), ctx.all(ctx.step(charge, 1), ctx.event('end')))"
    kit = flows(written(body.replace("BASE", "1")))
    kit.start("flow")
    kit.advance("1m")
    flows.write(written(body.replace("BASE", "2")))
    kit.reload()
    kit.event("end")
    kit.advance("1m")
    assert "all with other arguments (at index 0: step charge)" in caplog.text


@pytest.mark.parametrize("body", TOGETHER)
def test_the_same_arguments_go_on_in_every_replay(flows: Flows, body: str) -> None:
    kit = flows(written(body), sessions=0)
    run = kit.start("flow")
    kit.advance("1m")
    kit.event("go")
    assert run.status == "completed", run.view["waiting_data"]


def test_arguments_with_a_callbacks_url_are_not_compared(flows: Flows) -> None:
    body = "cb = ctx.callback(); got = await ctx.all(ctx.step(take, cb.url, base), ctx.step(charge, 5)); ctx.start(cb)"
    kit = flows(written(body))
    run = kit.start("flow")
    assert run.status == "waiting", run.error
    flows.write(written(body, base=2))
    kit.reload()
    kit.event("go")
    assert (run.status, run.result) == ("completed", ["taken", 5]), run.view["waiting_data"]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("ctx.map(charge, [1, object()])", "not_storable"),
        ("ctx.map(nothing, [1])", "step_input"),
        ("ctx.map(charge, [1, 2], timeout='400d')", "timeout_too_long"),
        ("ctx.map(charge, [1, 2], tiemout='2s')", "step_input"),
    ],
)
def test_what_fits_no_item_fails_the_function_where_it_maps(flows: Flows, call: str, error: str) -> None:
    """Not where a worker makes the branch: no function could catch that, and no run could go on."""
    run = flows(written(f"got = await {call}") + "\n@step\ndef nothing() -> None: ...\n").start("flow")
    assert run.error is not None
    assert (run.status, run.error["type"]) == ("failed", error)


@pytest.mark.parametrize(
    "body",
    [
        "got = await ctx.all(ctx.step(charge, 5), ctx.step(even, base))",
        "got = await ctx.map(even, [4, base])",
        "got = await asyncio.gather(ctx.step(charge, 5), ctx.step(even, base))",
        "got = await ctx.step(even, base)",
    ],
)
def test_a_redriven_run_may_ask_for_other_arguments_of_what_failed(flows: Flows, body: str) -> None:
    even = "\n@step\ndef even(n: int) -> int:\n    assert n % 2 == 0\n    return n\n"
    kit = flows(written(body) + even)
    run = kit.start("flow")
    assert run.status == "failed"
    flows.write(written(body, base=2) + even)
    kit.reload()
    again = run.redrive()
    kit.event("go")
    assert again.status == "completed", again.view["waiting_data"]
