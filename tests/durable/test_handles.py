"""Handles: operations and coroutines that are begun now, and awaited later, by whoever has them."""

from __future__ import annotations

import gc
from contextlib import suppress

import pytest

from stepwell.engine.waits.code import DEPLOYED_TOPIC
from stepwell.errors import Conflict
from stepwell.limits import MINUTE_MS
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Event
from stepwell.testing.kit import Run, Stepwell
from tests.durable.conftest import Flows

HEAD = """
import asyncio
from stepwell import StepFailed, sleep, workflow

def double(n: int) -> int:
    return n * 2

def slow(n: int):
    return sleep(n, n)

def broken():
    raise ValueError("no")

"""


def flow(body: str, name: str = "flow") -> str:
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return HEAD + f"@workflow\nasync def {name}(ctx):\n{lines}"


@pytest.fixture(params=[1_000, 0], ids=["warm", "cold"])
def sessions(request: pytest.FixtureRequest) -> int:
    """How many functions are kept between two operations: with none, each is replayed from its log."""
    return int(request.param)


def test_a_handle_begins_at_once_and_is_awaited_any_number_of_times(flows: Flows, sessions: int) -> None:
    kit = flows(flow("""
handle = ctx.start(ctx.step(double, 4))
await ctx.sleep(60)
done = handle.done()
return [done, await handle, await handle]
"""), sessions=sessions)  # fmt: skip
    run = kit.start("flow")
    kit.advance("2m")
    assert run.result == [True, 8, 8]


def test_an_operation_that_is_awaited_twice_is_done_once(flows: Flows, sessions: int) -> None:
    kit = flows(flow("""
one = ctx.step(double, 4)
first = await one
both = await asyncio.gather(one, one, ctx.start(one))
two = ctx.step(double, 5)
return [first, both, await asyncio.gather(two, ctx.start(two))]
"""), sessions=sessions)  # fmt: skip
    counted = kit.mock("double", returns=8)
    run = kit.start("flow")
    assert run.result == [8, [8, 8, 8], [8, 8]]
    assert len(counted.calls) == 2


def test_an_operation_whose_result_has_come_with_others_is_not_done_again(flows: Flows, sessions: int) -> None:
    """As branches, one wait, child runs or tasks, whether it won or failed; and an operand that is given twice."""
    kit = flows(flow("""
one, two, three = ctx.step(double, 1), ctx.step(double, 2), ctx.step(double, 3)
found = [await ctx.all(one, two), await one, await asyncio.gather(one, two), await ctx.all(two, three, three)]
won = ctx.step(double, 4)
found.append([(await ctx.first(ctx.event("never"), won)).value, await won])
paid, seen = ctx.event("paid"), ctx.event("seen")
found.append([(await ctx.first(paid, ctx.timer("1h"))).winner, await paid, await ctx.all(paid, seen), await seen])
bad = ctx.step(broken)
(error, _) = await ctx.all(bad, ctx.step(double, 5), return_exceptions=True)
try:
    await bad
except ValueError as again:
    found.append(again is error)
return found
"""), sessions=sessions)  # fmt: skip
    doubled, broken = kit.mock("double", returns=8), kit.mock("broken", raises=ValueError("no"))
    run = kit.start("flow")
    assert run.waiting_for == "event", run.error
    kit.event("paid", 1)
    kit.event("paid", 2)
    kit.event("seen", 3)
    assert run.result == [[8, 8], 8, [8, 8], [8, 8, 8], [8, 8], [0, 1, [1, 3], 3], True], run.error
    assert (len(doubled.calls), len(broken.calls)) == (5, 1)


def test_a_handle_that_is_cancelled_ends_its_operation(flows: Flows, sessions: int) -> None:
    kit = flows(flow("""
async def waits():
    await ctx.event("never")
handle = ctx.start(waits(), name="waiter")
await ctx.sleep(1)
told = handle.cancel()
await ctx.sleep(1)
return [told, handle.cancelled(), handle.get_name()]
"""), sessions=sessions)  # fmt: skip
    run = kit.start("flow")
    kit.advance("1m")
    assert run.result == [True, True, "waiter"]
    assert [one["status"] for one in run.branches("0/0")] == ["completed", "cancelled"]


def test_handles_come_as_they_end_and_none_is_cancelled(flows: Flows, sessions: int) -> None:
    kit = flows(flow("""
handles = [ctx.start(ctx.step(slow, n)) for n in (9, 3, 6)]
return [await handle async for handle in ctx.as_completed(handles)]
"""), sessions=sessions)  # fmt: skip
    run = kit.start("flow")
    kit.advance("1m")
    assert run.result == [3, 6, 9]


def test_what_is_no_handle_cannot_come_as_it_ends(flows: Flows) -> None:
    kit = flows(
        flow("""
one = ctx.step(double, 1)
try:
    return [await handle async for handle in ctx.as_completed([one])]
except Exception as error:
    return [error.code, error.hint, await one]
""")
    )
    assert kit.start("flow").result == ["bad_value", "begin it with ctx.start", 2]


def test_a_dag_is_handles_that_await_handles(flows: Flows, sessions: int) -> None:
    kit = flows(flow("""
async def node(n, *needs):
    return n + sum([await need for need in needs]) + await ctx.step(double, n)
a = ctx.start(node(1))
b, c = ctx.start(node(2, a)), ctx.start(node(3, a))
return await node(4, b, c)
"""), sessions=sessions)  # fmt: skip
    run = kit.start("flow")
    assert run.result == 12 + (6 + 3) + (9 + 3)


@pytest.mark.parametrize("name", ["tasks", "all", "first", "step"])
def test_a_function_may_have_any_name(flows: Flows, sessions: int, name: str) -> None:
    kit = flows(flow("""
both = await asyncio.gather(ctx.step(double, 1), ctx.step(double, 2))
return [both, await ctx.all(ctx.step(double, 3), ctx.step(double, 4)), await ctx.step(double, 5, name="tasks")]
""", name), sessions=sessions)  # fmt: skip
    assert kit.start(name).result == [[2, 4], [6, 8], 10]


@pytest.mark.parametrize(
    ("body", "line"),
    [("ctx.step(double, 1)", 16), ("x = ctx.child('nobody', detached=True)\nawait ctx.sleep(1)", 16)],
)
def test_an_operation_that_is_left_behind_fails_the_run_with_its_line(flows: Flows, body: str, line: int) -> None:
    kit = flows(flow(body))
    run = kit.start("flow")
    kit.advance("1m")
    assert run.error is not None
    assert (run.error["type"], f"flow.py:{line}" in run.error["message"]) == ("never_awaited", True), run.error
    named = "children nobody" if "child" in body else "step double"
    assert run.error["message"].startswith(f"the operation {named} at")


@pytest.mark.parametrize(
    "body",
    [
        "await asyncio.to_thread(print)",
        "await asyncio.get_running_loop().run_in_executor(None, print)",
        "loop = asyncio.SelectorEventLoop()\nloop.close()\nawait loop.create_future()",
        "await asyncio.Event().wait()",
        "await asyncio.get_running_loop().create_future()",
        """async def out():
    await asyncio.to_thread(print)
async with asyncio.TaskGroup() as group:
    group.create_task(out())""",
        """try:
    await asyncio.to_thread(print)
except Exception as error:
    raise OSError("lost") from error""",
    ],
)
def test_what_comes_from_outside_fails_the_run_with_its_line(flows: Flows, body: str) -> None:
    kit = flows(flow(body))
    run = kit.start("flow")
    assert run.error is not None
    line = 15 + max(number for number, text in enumerate(body.splitlines(), 1) if "await " in text)
    assert (run.error["type"], f"flow.py:{line}" in run.error["message"]) == ("foreign_await", True), run.error


def test_a_lock_of_the_run_waits_for_the_steps_beside_it_and_tasks_take_turns(flows: Flows, sessions: int) -> None:
    kit = flows(flow("""
within, most = 0, 0
async def leg(n):
    nonlocal within, most
    async with ctx.lock("room"):
        within, most = within + 1, max(most, within + 1)
        await asyncio.sleep(n)
        within -= 1
        return await ctx.step(double, n)
handle = ctx.start(ctx.step(slow, 5))
async with ctx.lock("room"):
    got = await handle
return [got, await asyncio.gather(leg(1), leg(2), leg(3)), most]
"""), sessions=sessions)  # fmt: skip
    run = kit.start("flow")
    kit.advance("1m")
    assert run.result == [5, [2, 4, 6], 1], run.error


def test_a_lock_of_the_run_beside_a_wait_is_told(flows: Flows) -> None:
    kit = flows(flow("""
handle = ctx.start(ctx.event("later"))
async with ctx.lock("room"):
    return await handle
"""))  # fmt: skip
    run = kit.start("flow")
    kit.advance("1m")
    assert run.error is not None
    assert run.error["type"] == "lock_in_task"
    assert " at flow.py:17 " in run.error["message"]


def test_the_end_of_an_operation_is_told_by_its_name(flows: Flows) -> None:
    """Of a wait and of a fork too, whose branch ends at the function."""
    kit = flows(flow("""
async def both():
    return await ctx.all(ctx.step(double, 1), ctx.sleep(5))
return len(await ctx.all(both(), ctx.event("never", timeout="1m"), ctx.sleep(2), return_exceptions=True))
"""))  # fmt: skip
    run = kit.start("flow")
    kit.advance("1h")
    ends = {one["token"]: one["step"] for one in run.history if one["type"].startswith("branch.")}
    assert sorted(ends.values()) == ["all", "double", "never", "sleep"], (run.result, ends)


def test_code_that_awaits_more_than_once_at_its_end_is_left_quietly(flows: Flows, sessions: int) -> None:
    """Python would tell on stderr of each coroutine that awaits again when it is closed."""
    gc.freeze()  # the collection below is to look at what this test makes
    kit = flows(flow("""
from contextlib import AsyncExitStack
async def undo(n):
    await ctx.step(double, n)
async def within():
    async with AsyncExitStack() as stack:
        for n in range(3):
            stack.push_async_callback(undo, n)
        await ctx.sleep(60)
await within()
return "left"
"""), sessions=sessions)  # fmt: skip
    run = kit.start("flow")
    kit.advance("1h")
    del kit
    gc.collect()  # pytest fails a test whose coroutines could not be closed
    assert run.result == "left"


def test_tasks_run_while_the_run_has_a_lock(flows: Flows, sessions: int) -> None:
    kit = flows(flow("""
async with ctx.lock("room"):
    return await asyncio.gather(ctx.step(double, 1), ctx.step(double, 2))
"""), sessions=sessions)  # fmt: skip
    run = kit.start("flow")
    assert run.result == [2, 4]
    assert "unlock" in {one["step"] for one in run.history}


AWAITED_LATER = """
handle = ctx.start(ctx.event("paid"))
await asyncio.sleep(60)
await ctx.step(double, 1)
return await handle
"""


def test_code_that_begins_other_operations_leaves_its_run_waiting_for_code(flows: Flows) -> None:
    text = flow(AWAITED_LATER)
    kit = flows(text)
    run = kit.start("flow")
    kit.settle()
    flows.write(text.replace('event("paid")', 'event("sent")'))
    kit.reload()
    kit.advance("2m")
    assert run.waiting_for == "code"
    assert "tasks that begin event paid" in run.view["waiting_data"]["message"]
    flows.write(text)
    kit.reload()
    kit.event("paid", 7)
    kit.advance("2m")
    assert run.result == 7


def without_its_code(flows: Flows) -> tuple[Stepwell, Run, str]:
    """A run that waits for code while its operation is under way, and the code that would let it go on."""
    text = flow(AWAITED_LATER)
    kit = flows(text)
    run = kit.start("flow")
    kit.settle()
    flows.write("import nowhere\n" + text)
    kit.reload()
    kit.advance("2m")
    return kit, run, text


def test_the_end_of_an_operation_that_comes_while_the_run_waits_for_code_is_kept(flows: Flows) -> None:
    kit, run, text = without_its_code(flows)
    assert run.waiting_for == "code"
    kit.event("paid", 7)
    kit.settle()
    flows.write(text)
    kit.reload()
    kit.advance("2m")
    assert run.result == 7


def test_the_end_of_an_operation_registers_a_wait_for_code_whose_worker_died_before_it_did(flows: Flows) -> None:
    """Its message comes again, finds a record that others wrote, and is done."""
    kit, run, text = without_its_code(flows)
    mailbox = kit._parts.ports.mailbox
    (waiter,) = run_now(mailbox.waiters(DEPLOYED_TOPIC))
    run_now(mailbox.forget_waiter(waiter))
    kit.event("paid", 7)
    kit.settle()
    assert run.waiting_for == "code"
    flows.write(text)
    kit.reload()
    assert (run.status, run.result) == ("completed", 7)


def test_a_second_cancel_leaves_what_a_run_does_since_the_first_to_its_own_worker(flows: Flows) -> None:
    """It would read the mailbox, end the wait for code, and wake nobody."""
    text = flow("""
try:
    await ctx.event("never")
finally:
    ctx.state["cleaned"] = await ctx.step(double, 1)
""")
    kit = flows(text)
    run = kit.start("flow")
    kit.settle()
    flows.write("import nowhere\n" + text)
    kit.reload()
    run.cancel()
    assert run.waiting_for == "code"
    now_ms = kit._parts.ports.clock.now_ms()
    deployed = Event(DEPLOYED_TOPIC, "d1", {}, now_ms, now_ms + MINUTE_MS)
    run_now(kit._parts.ports.mailbox.put_event(deployed, 10))  # its message is still on its way
    with suppress(Conflict):
        run.cancel()
    assert run.waiting_for == "code"
    flows.write(text)
    kit.reload()
    assert (run.status, run.state["cleaned"]) == ("cancelled", 2)


def test_a_cancelled_run_cancels_its_tasks_which_may_clean_up(flows: Flows, sessions: int) -> None:
    kit = flows(flow("""
from stepwell import Cancelled
async def waits(n):
    try:
        await ctx.event("never")
    finally:
        ctx.state[str(n)] = await ctx.step(double, n)
try:
    async with asyncio.TaskGroup() as group:
        group.create_task(waits(1))
        group.create_task(waits(2))
except Cancelled:
    ctx.state["told"] = True
    raise
"""), sessions=sessions)  # fmt: skip
    run = kit.start("flow")
    kit.settle()
    assert run.cancel("enough")
    kit.advance("1m")
    assert run.status == "cancelled"
    assert run.state == {"1": 2, "2": 4, "told": True}


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("asyncio.create_task(asyncio.shield(asyncio.sleep(1)))", "TypeError: a coroutine was expected, got <Future"),
        ("asyncio.create_task(7)", "TypeError: a coroutine was expected, got 7"),
        ("ctx.start(asyncio.gather())", "bad_value: `start` takes an operation or a coroutine, not <Future"),
    ],
)
def test_what_is_no_coroutine_makes_no_task(flows: Flows, made: str, told: str) -> None:
    error = flows(flow(made)).start("flow").error
    assert error is not None
    assert f"{error['type']}: {error['message']}".startswith(told)
