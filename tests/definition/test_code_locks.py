"""`stepwell check` finds locks that a run cannot take, loops that never end, and a `ctx` that is of no use."""

from __future__ import annotations

import pytest

from stepwell.definition.code.checks import check_code
from stepwell.definition.code.modules import read_code
from stepwell.errors import Problem
from tests.definition import test_context_calls
from tests.definition.test_context_calls import HEAD


def problems(body: str) -> list[Problem]:
    return test_context_calls.problems(f"import asyncio\n    {body}")


@pytest.mark.parametrize(
    ("line", "code", "hint"),
    [
        (
            "async with ctx.lock('a'):\n        if given:\n            async with ctx.lock('b'): ...",
            "lock_nested",
            'take both at once: async with ctx.lock("a", "b"):',
        ),
        (
            "async with ctx.lock('a'), ctx.lock('b'): ...",
            "lock_nested",
            'take both at once: async with ctx.lock("a", "b"):',
        ),
        (
            "async with asyncio.timeout(60), ctx.lock('a'): ...",
            "lock_in_task",
            "put the time limit into the block of the lock, or use asyncio.Lock there",
        ),
    ],
)
def test_a_lock_that_cannot_be_taken_is_told(line: str, code: str, hint: str) -> None:
    assert [(one.code, one.hint) for one in problems(line)] == [(code, hint)]


def test_so_is_a_lock_of_a_function_whose_runs_hold_one() -> None:
    text = f"{HEAD}@workflow(lock='till')\nasync def flow(ctx):\n    async with ctx.lock('a'): ...\n"
    (found,) = check_code(read_code({"shop": ("shop.py", text)}))
    assert (found.code, found.hint) == ("lock_nested", "name both in the `lock` of the workflow")
    assert check_code(read_code({"shop": ("shop.py", text.replace("'till'", "None"))})) == []


@pytest.mark.parametrize(
    "line",
    [
        "async with ctx.lock('a'): ...\n    async with ctx.lock('b'): ...",
        "async with ctx.lock('a'):\n        async with asyncio.timeout(60): await ctx.sleep(1)",
        "async with asyncio.timeout(None), ctx.lock('a'): ...",
        "async with ctx.limit('a'), ctx.lock('b'): ...",
        "async with ctx.lock('a'):\n        async def b():\n            async with ctx.lock('b'): ...\n    await b()",
    ],
)
def test_a_lock_that_can_be_taken_is_left_alone(line: str) -> None:
    assert problems(line) == []


@pytest.mark.parametrize(
    "loop",
    [
        "while not given: pass",
        "while True: ctx.log.info('waits')",
        "while len(given) < 2:\n        if given: continue",
        "while ctx.now() < given: print('waits')",
        "while not given.done(): ...",
    ],
)
def test_a_loop_that_waits_for_what_cannot_change_is_told(loop: str) -> None:
    (found,) = problems(loop)
    assert (found.code, found.hint) == ("endless_loop", "await ctx.until(lambda: …), or await ctx.sleep(…) in it")


@pytest.mark.parametrize(
    "loop",
    [
        "while not given: await ctx.sleep(1)",
        "while True:\n        if given: break",
        "while True:\n        if given: return 1",
        "while given: given -= 1",
        "while given: given.pop()",
        "while (one := given.pop()): print(one)",
        "while given: given[0] = 1",
        "while False: pass",
        "def wait():\n        while not given: pass\n    await ctx.run(wait)",
    ],
)
def test_a_loop_that_may_end_is_left_alone(loop: str) -> None:
    assert problems(loop) == []


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("await ctx.step(pay, ctx, 1)", "bad_arguments", "ctx cannot be given to pay, which gets a ctx of its own"),
        (
            "await ctx.child(other, 1, ctx=ctx)",
            "bad_arguments",
            "ctx cannot be given to other, which gets a ctx of its own",
        ),
        (
            "await ctx.run(lambda: ctx.step(pay, 1))",
            "nested_step",
            "what ctx.run calls asks for ctx.step, and is no part of the workflow",
        ),
        (
            "async def leg(): await ctx.sleep(1)\n    await ctx.run(leg)",
            "nested_step",
            "what ctx.run calls asks for ctx.sleep, and is no part of the workflow",
        ),
    ],
)
def test_a_ctx_that_is_of_no_use_is_told(line: str, code: str, message: str) -> None:
    assert [(one.code, one.message) for one in problems(line)] == [(code, message)]


def test_a_function_that_gets_the_ctx_of_the_workflow_by_run_is_told_only_if_it_asks() -> None:
    text = (
        HEAD + "async def leg(ctx, n): await ctx.{}\n@workflow\nasync def flow(ctx):\n    await ctx.run(leg, {}, 1)\n"
    )
    for asked, given, codes in (("sleep(1)", "ctx", ["nested_step"]), ("log", "ctx", []), ("sleep(1)", "None", [])):
        found = check_code(read_code({"shop": ("shop.py", text.format(asked, given))}))
        assert [one.code for one in found] == codes


@pytest.mark.parametrize(
    "line",
    [
        "await ctx.run(lambda: given, 1)",
        "def leg(): return given\n    await ctx.run(leg)",
        "await other(ctx, 1)",
        "await ctx.map(lambda n: other(ctx, n), given)",
    ],
)
def test_a_ctx_in_its_place_is_left_alone(line: str) -> None:
    assert problems(line) == []


@pytest.mark.parametrize(
    ("made", "hint"),
    [
        ("async def ship(n): send(n)", "await send(…)"),
        ("async def ship(n): return send(n)", "await send(…)"),
        ("def ship(n): send(n)", "await it: async def ship(…), and await send(…)"),
        ("async def ship(n): return send(n)['id']", "await send(…)"),
        ("async def ship(n):\n    if send(n): return 1", "await send(…)"),
        ("async def ship(n):\n    sent = send(n)\n    return f'{sent}'", "await send(…)"),
        ("async def ship(n): sent = send(n)", "await send(…)"),
    ],
)
def test_a_step_that_leaves_a_coroutine_alone_is_told(made: str, hint: str) -> None:
    (found,) = check_code(read_code({"shop": ("shop.py", f"{HEAD}async def send(n): ...\n@step\n{made}\n")}))
    assert (found.code, found.hint, found.severity) == ("never_awaited", hint, "error")


@pytest.mark.parametrize(
    "made",
    [
        "async def ship(n): return await send(n)",
        "def ship(n): return asyncio.run(send(n))",
        "def ship(n): return send(n)",  # a worker awaits it
        "async def ship(n):\n    sent = send(n)\n    return (await sent)['id']",
        "async def ship(n):\n    sent = [send(n), send(n)]\n    return await asyncio.gather(*sent)",
        "def ship(n): pay(n)",
        "async def ship(send): send()",
    ],
)
def test_a_step_that_awaits_is_left_alone(made: str) -> None:
    text = f"import asyncio\n{HEAD}async def send(n): ...\n@step\n{made}\n"
    assert check_code(read_code({"shop": ("shop.py", text)})) == []
