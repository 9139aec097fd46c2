"""`stepwell check` finds conditions that always hold."""

from __future__ import annotations

import pytest

from tests.definition.test_context_calls import problems


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "async def paid(): return given\n    await ctx.until(paid)",
            "the condition paid is an async function: it is never awaited, and always holds",
        ),
        (
            "async def paid(): return given\n    await ctx.until(lambda: paid(), timeout='1h')",
            "the condition gives paid(), which nobody awaits: it always holds",
        ),
        (
            "await ctx.until(lambda: given and ctx.event('paid'))",
            "the condition gives ctx.event('paid'), which nobody awaits: it always holds",
        ),
        (
            "async def paid(): ...\n    def ready():\n        return paid()\n    await ctx.until(condition=ready)",
            "the condition gives paid(), which nobody awaits: it always holds",
        ),
    ],
)
def test_a_condition_that_is_a_coroutine_always_holds(line: str, message: str) -> None:
    (found,) = problems(line)
    assert (found.code, found.message) == ("bad_condition", message)
    assert "such as lambda: len(items) > 1" in found.hint


@pytest.mark.parametrize("value", ["len(given) > 2", "not given", "True", "ctx.event('paid')"])
def test_a_condition_that_is_no_function_is_told_as_the_run_does(value: str) -> None:
    (found,) = problems(f"await ctx.until({value})")
    assert (found.code, found.hint) == ("bad_value", "await ctx.until(lambda: …)")


@pytest.mark.parametrize(
    "line",
    [
        "await ctx.until(lambda: len(given) > 2)",
        "await ctx.until(given.is_full)",
        "def ready(): return given\n    await ctx.until(ready)",
        "def ready():\n        async def paid(): ...\n        return bool(given)\n    await ctx.until(ready)",
        "@given\n    async def ready(): ...\n    await ctx.until(ready)",
        "task = ctx.start(other(ctx, 1))\n    await ctx.until(lambda: task.done())",
        "await ctx.until(given or (lambda: True))",
    ],
)
def test_a_condition_that_may_change_is_left_alone(line: str) -> None:
    assert problems(line) == []
