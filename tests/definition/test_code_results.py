"""`stepwell check` finds results of operations that are asked for what they cannot have."""

from __future__ import annotations

import pytest

from stepwell.errors import Problem
from tests.definition import test_context_calls

FIRST = "ctx.first(ctx.event('paid'), ctx.timer('2h'))"


def problems(body: str) -> list[Problem]:
    return [one for one in test_context_calls.problems(body) if one.code != "bad_arguments"]


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        (f"if await {FIRST}: return 1", "write (paid,) = await ctx.first(…), or read .winner"),
        (f"return 1 if not await {FIRST} else 2", "write (paid,) = await ctx.first(…), or read .winner"),
        (f"got = await {FIRST}\n    if not got: return 1", "write (got,) = await ctx.first(…), or read .winner"),
        (f"got = await {FIRST}\n    if got is None: return 1", "write (got,) = await ctx.first(…), or read .winner"),
        (f"got = await {FIRST}\n    return got or 1", "write (got,) = await ctx.first(…), or read .winner"),
    ],
)
def test_what_first_gives_is_always_true(line: str, hint: str) -> None:
    assert [(one.code, one.hint) for one in problems(line)] == [("bad_condition", hint)]


@pytest.mark.parametrize(
    "line",
    [
        f"got, = await {FIRST}\n    if got: return 1",
        f"got = await {FIRST}\n    if got[0]: return 1\n    return got.winner",
        f"got = await {FIRST}\n    got = got[0]\n    if got: return 1",
        "if await ctx.first(*given): return 1",
        "if await ctx.first(ctx.timer('1h'), ctx.timer('2h')): return 1",
        "if await ctx.event('paid'): return 1",
    ],
)
def test_what_may_be_false_is_left_alone(line: str) -> None:
    assert problems(line) == []


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("got = await ctx.step(pay, 1)\n    return got.number", "write what it returns, as in def pay(…) -> Receipt"),
        ("got: Receipt = await ctx.step(pay, 1)\n    return got.number", "write what it returns, as in def pay(…)"),
        ("return (await ctx.event('paid')).amount", "say what it is by type="),
        ("got = await ctx.approval('buy')\n    return got.decision", 'it is a dict: read it by its name, ["decision"]'),
    ],
)
def test_an_attribute_of_json_is_told(line: str, hint: str) -> None:
    (found,) = problems(line)
    assert found.code == "untyped_result"
    assert (found.hint or "").startswith(hint)


@pytest.mark.parametrize(
    "line",
    [
        "got = await ctx.step(pay, 1)\n    return got['number'], got.get('number'), got.items()",
        "got = await ctx.step(typed, 1)\n    return got.number",
        "got = await ctx.step(given, 1)\n    return got.number",
        "got = await ctx.event('paid', type=Paid)\n    return got.amount",
        "got = await ctx.event('paid', **given)\n    return got.amount",
        "got = await ctx.event('paid')\n    got = Paid(**got)\n    return got.amount",
        "async def leg():\n        pay = await ctx.event('paid')\n        return pay\n    return pay.__name__",
        "got = await ctx.child(other, 1)\n    return got.amount",
    ],
)
def test_what_may_have_the_attribute_is_left_alone(line: str) -> None:
    assert problems(f"def inner(): ...\n    {line}".replace("typed", "any_of.typed")) == []
