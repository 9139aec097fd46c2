"""How a durable function can end, and what it may do that it should not."""

from __future__ import annotations

import pytest

from stepwell.engine.durable.turns import Asked
from stepwell.runtime.durable import sessions as module
from stepwell.runtime.durable.held import nothing
from stepwell.runtime.durable.operations import Operation
from tests.durable.conftest import Flows

HEAD = """
import asyncio, sys, time
from stepwell import External, StepError, StepFailed, Transient, workflow

def double(n: int) -> int:
    return n * 2

def leave():
    sys.exit(3)

def interrupt():
    raise KeyboardInterrupt

def generate():
    yield 1

class Odd(BaseException):
    pass

class Refused(StepError):
    pass

"""


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("raise ValueError('no')", "ValueError"),
        ("raise Refused('no', data={'a': 1})", "Refused"),
        ("raise SystemExit(3)", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("raise StopAsyncIteration", "StopAsyncIteration"),
        ("raise StopIteration", "RuntimeError"),
        ("raise asyncio.CancelledError", "CancelledError"),
        ("raise Odd", "Odd"),
        ("f = lambda: f()\n    f()", "RecursionError"),
        ("await asyncio.Event().wait()", "foreign_await"),
        ("await asyncio.to_thread(print)", "foreign_await"),
        ("await asyncio.wrap_future(__import__('concurrent').futures.Future())", "foreign_await"),
        ("await asyncio.open_connection('stepwell.test', 80)", "foreign_await"),
        ("loop = asyncio.SelectorEventLoop()\n    loop.close()\n    await loop.create_future()", "foreign_await"),
        ("await Other()", "foreign_await"),
        ("await 5", "TypeError"),
        ("await ctx.step(leave)", "SystemExit"),
        ("await ctx.step(interrupt)", "KeyboardInterrupt"),
        ("[await one for one in ()]\n    return object()", "not_storable"),
        ("a = ctx.sleep(0)\n    await a\n    await a\n    raise ValueError('both')", "ValueError"),
        ("return ctx.sleep(1)", "never_awaited"),
        ("ctx.child('nobody', detached=True)", "never_awaited"),
        ("async with asyncio.TaskGroup() as group: group.create_task(ctx.step(leave))", "ExceptionGroup"),
        ("assert False, 'never'", "AssertionError"),
        ("import nowhere", "ModuleNotFoundError"),
    ],
)
def test_whatever_a_function_does_its_run_ends_with_an_error_that_says_it(flows: Flows, body: str, kind: str) -> None:
    kit = flows(
        HEAD
        + f"""
class Other:
    def __await__(self):
        yield "something"

@workflow
async def flow(ctx):
    {body}
"""
    )
    run = kit.start("flow")
    kit.advance("1m")
    assert run.error is not None, (run, run.result, run.view["waiting_data"])
    assert (run.status, run.error["type"]) == ("failed", kind), run.error
    assert kit.start("flow").status == "failed"  # and the next one finds everything in order


def test_a_function_of_the_workflow_s_that_is_mapped_as_a_step_fails_with_what_to_do(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
async def leg(ctx, item): await ctx.sleep("1h")

@workflow
async def flow(ctx, wrapped: bool = False):
    return await ctx.map((lambda item: leg(ctx, item)) if wrapped else leg, [1, 2])
"""
    )
    error = kit.start("flow").error
    assert error is not None
    assert (error["type"], error["step"]) == ("AttributeError", "leg")
    assert error["message"].startswith("a step's ctx has no 'sleep' (operations are a workflow's")
    run = kit.start("flow", {"wrapped": True})
    kit.advance("1h")
    assert run.status == "completed"


def test_the_error_of_a_task_group_says_what_failed_in_it(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
def charge(): raise ValueError("no funds")

@workflow
async def flow(ctx):
    async with asyncio.TaskGroup() as group:
        group.create_task(ctx.step(charge))
"""
    )
    error = kit.start("flow").error
    assert error is not None
    assert error["message"] == "unhandled errors in a TaskGroup (1 sub-exception): ValueError: no funds"
    assert "\nwith ValueError: no funds" in error["traceback"]


@pytest.mark.parametrize("sessions", [0, 1_000], ids=["cold", "warm"])
def test_a_refusal_of_what_reaches_out_can_be_caught_and_is_in_each_replay(flows: Flows, sessions: int) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx):
    caught = []
    for reaches in (lambda: asyncio.to_thread(print), lambda: asyncio.open_connection("stepwell.test", 80)):
        try:
            await reaches()
        except Exception as error:
            caught.append(error.code)
        await ctx.sleep("1h")
    return caught
""",
        sessions=sessions,
    )
    run = kit.start("flow")
    kit.advance("2h")
    assert run.result == ["foreign_await", "foreign_await"]


def test_a_function_that_blocks_is_kept_and_goes_on_after_a_fix(flows: Flows, monkeypatch: pytest.MonkeyPatch) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx):
    while True:
        pass
"""
    )
    run = kit.start("flow")
    with monkeypatch.context() as patch:
        patch.setattr(module, "SESSION_SECONDS", 0.05)
        assert (run.status, run.waiting_for) == ("waiting", "code")
    assert run.view["waiting_data"]["type"] == "function_stuck"
    flows.write(
        HEAD
        + """
@workflow
async def flow(ctx):
    return await ctx.step(double, 2)
"""
    )
    kit.reload()
    kit.advance("1m")
    assert run.result == 4


def test_a_function_that_begins_with_nothing_to_await_ends_at_once(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx):
    return {"done": True}
"""
    )
    run = kit.start("flow")
    assert (run.status, run.result, run.view["cost"]["records"]) == ("completed", {"done": True}, 1)


def test_what_nobody_can_catch_by_accident_is_not_swallowed(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx):
    for n in range(3):
        try:
            await ctx.sleep(1)
        except Exception:
            return "swallowed"
    return "slept"
""",
        sessions=0,
    )
    run = kit.start("flow")
    kit.advance("3s")
    assert run.result == "slept"


def test_a_finally_that_awaits_does_not_trouble_a_session_that_is_let_go(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx):
    try:
        await ctx.sleep(1)
    finally:
        await ctx.step(double, 1)
    return "both"
""",
        sessions=0,
    )
    run = kit.start("flow")
    kit.advance("3s")
    assert run.result == "both"


def test_ctx_cannot_be_used_outside_of_its_function(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
import threading
HELD = []

def use():
    return str(HELD[0].now())

async def awaits():
    return await HELD[0].step(double, 1)

@workflow
async def flow(ctx, where: str):
    HELD[:] = [ctx]
    if where == "step":
        await ctx.step(use)
    if where == "async":
        await ctx.step(awaits)
    threading.Thread(target=use).start()
"""
    )
    in_a_step, in_a_thread = kit.start("flow", {"where": "step"}), kit.start("flow", {"where": "thread"})
    assert in_a_step.error is not None
    assert in_a_step.error["type"] == "no_workflow"
    in_an_async_step = kit.start("flow", {"where": "async"})
    assert in_an_async_step.error is not None
    assert in_an_async_step.error["type"] == "no_workflow"
    assert in_a_thread.error is not None
    assert in_a_thread.error["type"] == "not_deterministic"


def test_hundreds_of_operations_in_one_function_end_well(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx):
    total = 0
    for n in range(500):
        total += await ctx.step(double, n)
    return total
"""
    )
    assert kit.start("flow").result == 249_500


def test_a_closed_coroutine_that_catches_all_and_asks_again_comes_to_an_end() -> None:
    """Python finalizes what could not be closed, outside of its run: there an operation gives way before it raises."""
    caught: list[BaseException] = []

    async def kept() -> None:
        for _ in range(100):
            try:
                await Operation[None](Asked("sleep", "sleep"), nothing)
            except BaseException as error:
                caught.append(error)

    coro = kept()
    coro.send(None)
    with pytest.raises(RuntimeError, match="ignored GeneratorExit"):
        coro.close()
    assert len(caught) == 1
    for _ in range(98):
        coro.send(None)
    with pytest.raises(StopIteration):
        coro.send(None)


@pytest.mark.parametrize(
    "use",
    [
        "await KEPT[0].step(double, 1)",
        "await KEPT[0].run(lambda: 1)",
        "await KEPT[0].sleep(1)",
        "await KEPT[0].event('e', timeout=1)",
        "await KEPT[0].approval(timeout=1)",
        "KEPT[0].callback(timeout=1)",
        "await KEPT[0].child('flow', {})",
        "await KEPT[0].transact([])",
        "await KEPT[0].send('e')",
        "await KEPT[0].map(double, [1])",
        "await KEPT[0].all(ctx.sleep(1))",
        "await KEPT[0].first(ctx.sleep(1))",
        "KEPT[0].start(ctx.sleep(1))",
        "await KEPT[0].until(lambda: True)",
        "KEPT[0].lock('a')",
        "KEPT[0].limit('few')",
        "KEPT[0].now()",
        "KEPT[0].random()",
        "KEPT[0].uuid()",
        "KEPT[0].patched('p')",
        "KEPT[0].state['a'] = 1",
        "KEPT[0].query('q', lambda: 1)",
        "KEPT[0].update('u', lambda: 1)",
        "return KEPT[0].continue_as(first)",
    ],
)
def test_the_ctx_of_another_run_is_refused(flows: Flows, use: str) -> None:
    kit = flows(
        HEAD
        + f"""
KEPT = []

@workflow
async def first(ctx):
    KEPT.append(ctx)
    await ctx.sleep("1d")

@workflow
async def flow(ctx):
    {use}
"""
    )
    kit.start("first")
    run = kit.start("flow")
    kit.advance("10s")
    assert run.error is not None, run.result
    assert run.error["type"] == "no_workflow", run.error
    assert "flow.py:" in run.error["message"]


@pytest.mark.parametrize("sessions", [1_000, 0], ids=["warm", "cold"])
def test_a_lock_of_the_module_that_another_run_has_is_awaited_by_no_run(flows: Flows, sessions: int) -> None:
    """The first that waits for it binds it to its loop; the error says where it was, and what to do."""
    kit = flows(
        """
import asyncio
from stepwell import workflow

DOOR = asyncio.Lock()
DOOR._locked = True  # a run of this process has it

@workflow
async def flow(ctx):
    async with DOOR:
        return 1

@workflow
async def patient(ctx):
    async with asyncio.timeout(60), DOOR:
        return 1
""",
        sessions=sessions,
    )
    run = kit.start("flow")
    assert run.error is not None
    assert run.error["type"] == "foreign_await"
    assert "flow.py:10; if a module made it, make it in the function" in run.error["message"]
    other = kit.start("patient")
    assert other.error is not None
    assert (other.status, other.error["type"], "flow.py:15" in other.error["message"]) == (
        "failed", "foreign_await", True
    )  # fmt: skip
