"""An error that nobody awaits is logged once, with its run and its line, and not again in a replay."""

from __future__ import annotations

import pytest

from tests.durable.conftest import Flows

HEAD = """
import asyncio
from stepwell import workflow

def note(n: int = 0): return n

async def fails(ctx, operation=None):
    if operation is not None:
        await operation
    raise ValueError("nobody hears it")

def call_back():
    raise KeyError("in a callback")

@workflow
async def flow(ctx):
    ctx.query("n", lambda: 7)
"""
DROPPED = ["asyncio.create_task(fails(ctx))", "await ctx.sleep(1)", "await ctx.step(note)"]
LATER = ["asyncio.create_task(fails(ctx, ctx.sleep(2)))", "await ctx.sleep(5)", "await ctx.step(note)"]
HELD = ["task = ctx.start(fails(ctx))", "await ctx.sleep(1)", "await ctx.step(note)"]
ENDS = ["await ctx.sleep(1)", "task = ctx.start(fails(ctx))", "await asyncio.sleep(0)"]
AWAITED = ["task = ctx.start(fails(ctx))", "await ctx.sleep(1)", "try: await task", "except ValueError: pass"]
ASKED = ["task = ctx.start(fails(ctx))", "await ctx.sleep(1)", "task.exception()", "await ctx.step(note)"]
OF_ANOTHER = ["async def other(): await asyncio.create_task(fails(ctx, ctx.sleep(1)))",
              "asyncio.create_task(other())", "await ctx.sleep(5)", "await ctx.step(note)"]  # fmt: skip


@pytest.fixture(params=[1_000, 0], ids=["warm", "cold"])
def sessions(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def warned(flows: Flows, caplog: pytest.LogCaptureFixture, lines: list[str], sessions: int) -> list[str]:
    kit = flows(HEAD + "".join(f"    {line}\n" for line in lines), sessions=sessions)
    run = kit.start("flow")
    for _ in range(10):
        kit.advance("1s")
        if run.status != "completed":
            assert run.query("n") == 7
    assert run.status == "completed", run.error
    assert run.query("n") == 7
    return [one.getMessage() for one in caplog.records]


@pytest.mark.parametrize("lines", [DROPPED, LATER, HELD, ENDS, OF_ANOTHER],
                         ids=["dropped", "later", "held", "ends", "of another"])  # fmt: skip
def test_an_error_that_nobody_awaits_is_logged_once(
    flows: Flows, caplog: pytest.LogCaptureFixture, lines: list[str], sessions: int
) -> None:
    assert warned(flows, caplog, lines, sessions) == [
        "run_000001: Task exception was never retrieved at flow.py:10: ValueError"
    ]
    assert caplog.records[0].run_id == "run_000001"  # type: ignore[attr-defined]  # an extra
    assert "nobody hears it" in caplog.text


@pytest.mark.parametrize("lines", [AWAITED, ASKED], ids=["awaited", "asked"])
def test_one_that_somebody_awaits_is_not(
    flows: Flows, caplog: pytest.LogCaptureFixture, lines: list[str], sessions: int
) -> None:
    assert warned(flows, caplog, lines, sessions) == []


def test_so_is_that_of_a_callback(flows: Flows, caplog: pytest.LogCaptureFixture, sessions: int) -> None:
    lines = ["asyncio.get_running_loop().call_soon(call_back)", "await ctx.sleep(1)", "await ctx.step(note)"]
    (told,) = warned(flows, caplog, lines, sessions)
    assert told.startswith("run_000001: Exception in callback call_back() at ")
    assert told.endswith(" at flow.py:13: KeyError")
