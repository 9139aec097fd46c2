"""`stepwell check` finds forms in which `ctx` cannot be used, and says what to write."""

from __future__ import annotations

import pytest

from tests.definition.test_context_calls import problems


@pytest.mark.parametrize(
    ("line", "code", "hint"),
    [
        ("await ctx.patched('audit')", "bad_await", "it answers at once: leave out `await`"),
        ("return await ctx.now()", "bad_await", "it answers at once: leave out `await`"),
        ("await ctx.lock('till')", "bad_await", "async with ctx.lock(…): what it is for"),
        ("with ctx.lock('till'): await ctx.step(pay, 1)", "bad_await", "async with ctx.lock(…):"),
        ("await ctx.all([ctx.step(pay, 1), ctx.step(pay, 2)])", "bad_value", "write an asterisk: ctx.all(*[…])"),
        ("await ctx.first(ctx.step(pay, n) for n in given)", "bad_value", "write an asterisk: ctx.first(*[…])"),
    ],
)
def test_a_form_that_raises_is_told_with_the_one_to_write(line: str, code: str, hint: str) -> None:
    assert [(one.code, one.hint) for one in problems(line)] == [(code, hint)]


@pytest.mark.parametrize(
    "line",
    [
        "if ctx.patched('audit'): return ctx.now()",
        "async with ctx.lock('till'): await ctx.step(pay, 1)",
        "await ctx.all(*[ctx.step(pay, n) for n in (1, 2)])",
        "await ctx.all(*(ctx.step(pay, n) for n in (1, 2)), max_concurrency=2)",
        "with open_till() as till: await ctx.run(till.pay)",
    ],
)
def test_a_form_that_there_is_has_no_problem(line: str) -> None:
    assert [one.code for one in problems(line) if one.code in {"bad_await", "bad_value"}] == []
