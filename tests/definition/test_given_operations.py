"""`stepwell check` finds what is given to combinations of operations, to `ctx.map` and to asyncio in vain."""

from __future__ import annotations

import pytest

from stepwell.errors import Problem
from tests.definition import test_context_calls


def problems(body: str) -> list[Problem]:
    return test_context_calls.problems(f"import asyncio; from datetime import UTC, datetime\n    {body}")


@pytest.mark.parametrize(
    ("line", "code", "hint"),
    [
        (
            "return await ctx.all(await ctx.step(pay, 1))",
            "bad_await",
            "leave out its own `await`: ctx.all(ctx.step(…), …)",
        ),
        (
            "return await asyncio.gather(await ctx.step(pay, 1))",
            "bad_await",
            "leave out its own `await`: asyncio.gather(ctx.step(…), …)",
        ),
        (
            "return await ctx.start(other)",
            "bad_value",
            "call it, or give an operation: ctx.start(ctx.step(function, …))",
        ),
        (
            "async def leg(): ...\n    return await ctx.all(leg, leg())",
            "bad_value",
            "call it, or give an operation: ctx.all(ctx.step(function, …))",
        ),
        (
            "legs = [ctx.step(pay, n) for n in given]\n    return await ctx.all(legs)",
            "bad_value",
            "write an asterisk: ctx.all(*legs)",
        ),
        (
            "legs = []\n    legs.append(ctx.step(pay, 1))\n    return await ctx.first(legs)",
            "bad_value",
            "write an asterisk: ctx.first(*legs)",
        ),
        (
            "return await asyncio.gather([ctx.step(pay, n) for n in given])",
            "bad_value",
            "write an asterisk: asyncio.gather(*[…])",
        ),
        (
            "async def leg(): ...\n    task = asyncio.create_task(leg)\n    return await task",
            "bad_value",
            "call it, or give an operation: asyncio.create_task(ctx.step(function, …))",
        ),
        ("return await ctx.map([1, 2], pay)", "bad_value", "ctx.map(function, items)"),
        ("return await ctx.map(pay(1), [1, 2])", "bad_step", "give the function itself: ctx.map(pay, …)"),
        (
            "await ctx.sleep(datetime(2030, 1, 1))",
            "bad_value",
            'give it one: tzinfo=UTC, or tzinfo=ZoneInfo("Europe/Madrid")',
        ),
        ("async with asyncio.timeout('2h'): await ctx.event('a')", "bad_duration", "write 7200"),
        ("await asyncio.wait_for(ctx.event('a'), timeout='soon')", "bad_duration", "write a number of seconds"),
        ("for one in ctx.as_completed(given): given = one", "bad_await", "async for … in ctx.as_completed(…)"),
        (
            "return [ctx.step(pay, n) for n in given]",
            "never_awaited",
            "await them: ctx.all(*[…]) gives a list of their results",
        ),
        (
            "legs = [ctx.step(pay, 1)]\n    return legs",
            "never_awaited",
            "await them: ctx.all(*[…]) gives a list of their results",
        ),
    ],
)
def test_what_cannot_be_given_is_told(line: str, code: str, hint: str) -> None:
    assert [(one.code, one.hint) for one in problems(line)] == [(code, hint)]


@pytest.mark.parametrize(
    "line",
    [
        "return await ctx.all(*[ctx.step(pay, 1)], other(ctx, 1))",
        "return await ctx.all(await other(ctx, 1))",
        "leg = other(ctx, 1)\n    return await ctx.all(leg)",
        "legs = [ctx.step(pay, 1)]\n    return await ctx.all(*legs)",
        "legs = [ctx.step(pay, 1)]\n    legs = legs[0]\n    return await ctx.all(legs)",
        "return await asyncio.gather(*[ctx.step(pay, 1)])",
        "return await ctx.map(other.leg(1), [1, 2])",
        "await ctx.sleep(datetime(2030, 1, 1, tzinfo=UTC))",
        "await ctx.sleep(datetime(2030, 1, 1, 0, 0, 0, 0, UTC))",
        "async with asyncio.timeout(7200): await asyncio.sleep(1)",
        "return [await ctx.step(pay, n) for n in given]",
        "return [one for one in await ctx.all(ctx.step(pay, 1))]",
        "legs = {'a': ctx.step(pay, 1)}\n    for leg in legs: legs[leg] = await legs[leg]\n    return legs",
    ],
)
def test_what_can_be_given_is_left_alone(line: str) -> None:
    assert problems(line) == []
