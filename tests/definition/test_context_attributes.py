"""`stepwell check` finds attributes of `ctx` that are used as what they are not."""

from __future__ import annotations

import pytest

from stepwell.definition.code.checks import check_code
from stepwell.definition.code.modules import read_code
from tests.definition.test_context_calls import HEAD, problems


@pytest.mark.parametrize(
    ("line", "code", "hint"),
    [
        ("ctx.state = given", "bad_assignment", 'write ctx.state["name"] = value; ctx.state.clear() empties it'),
        ("ctx.state |= given", "bad_assignment", 'write ctx.state["name"] = value; ctx.state.clear() empties it'),
        ("ctx.run_id = given", "bad_assignment", 'keep the value in a variable, or show it in ctx.state["name"]'),
        ("ctx.total = 1", "unknown_operation", 'keep the value in a variable, or in ctx.state["total"]'),
        ("ctx.state.total = 1", "unknown_operation", 'write ctx.state["total"]'),
        ("return ctx.state.total", "unknown_operation", 'write ctx.state["total"]'),
        ("return ctx.now.isoformat()", "never_called", "call it: ctx.now().isoformat"),
        ("return ctx.now - given", "never_called", "call it: ctx.now()"),
        ("if ctx.patched: return 1", "never_called", "call it: ctx.patched(…)"),
        (
            "return ctx.random.choice(given)",
            "never_called",
            "ctx.random() is a number from 0 to 1: random.Random(ctx.random()).choice(…)",
        ),
        ("return ctx.run_id()", "bad_value", "leave out the brackets: ctx.run_id"),
    ],
)
def test_a_misused_attribute_is_told_with_what_to_write(line: str, code: str, hint: str) -> None:
    assert [(one.code, one.hint) for one in problems(line)] == [(code, hint)]


@pytest.mark.parametrize(
    "line",
    [
        "ctx.state['total'] = 1\n    ctx.state.update(given)\n    return ctx.state.get('total')",
        "return ctx.now().isoformat()",
        "ctx.log.info(ctx.run_id + ctx.workflow)",
        "if ctx.patched('audit'): return ctx.random()",
        "clock = ctx.now\n    return clock(), ctx.step.__name__",
        "return await ctx.map(ctx.child, given)",
    ],
)
def test_what_an_attribute_is_for_is_left_alone(line: str) -> None:
    assert problems(line) == []


@pytest.mark.parametrize(
    "made",
    ["ctx = copy_context()\n    ctx.run(pay, n)", "with copy_context() as ctx:\n        ctx.state = n; ctx.event(n)"],
)
@pytest.mark.parametrize("calls", ["await ctx.step(apart, 1)", "apart(1)"])
def test_a_variable_of_this_name_that_is_something_else_is_left_alone(made: str, calls: str) -> None:
    mark = "@step" if "step" in calls else ""
    text = f"from contextvars import copy_context\n{HEAD}{mark}\ndef apart(n):\n    {made}\n"
    text += f"@workflow\nasync def flow(ctx):\n    {calls}\n"
    assert check_code(read_code({"shop": ("shop.py", text)})) == []
