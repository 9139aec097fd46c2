"""An approval that has the name of a step, of which `stepwell check` warns: the run's view has one row for both."""

from __future__ import annotations

from textwrap import dedent

import pytest

from stepwell.definition.code.checks import check_code
from stepwell.definition.code.modules import read_code
from stepwell.errors import Problem

STEPS = """
from stepwell import step

def pay(n): ...

@step(name="charge")
def take(n): ...
"""


def found(first: str, second: str) -> list[Problem]:
    flow = f"""
    from shop import pay, take
    from stepwell import workflow
    @workflow
    async def flow(ctx, n: int):
        await {first}
        await {second}
    """
    return check_code(read_code({"shop": ("shop.py", STEPS), "flow": ("flow.py", dedent(flow))}))


@pytest.mark.parametrize(
    ("operation", "approval", "name"),
    [
        ("ctx.step(pay, n)", "ctx.approval('pay')", "pay"),
        ("ctx.step(take, n)", "ctx.approval(type='charge', need=2)", "charge"),
        ("ctx.step(pay, n, name='ask')", "ctx.approval('ask')", "ask"),
        ("ctx.run(print, n)", "ctx.approval('print')", "print"),
    ],
)
def test_an_approval_with_the_name_of_a_step_is_told_with_its_line(operation: str, approval: str, name: str) -> None:
    for before, after, line in ((operation, approval, 7), (approval, operation, 6)):
        (problem,) = found(before, after)
        assert (problem.code, problem.severity, problem.line) == ("shared_name", "warning", line)
        assert problem.message == f"a step and an approval of flow are both called '{name}', and are easily confused"


@pytest.mark.parametrize(
    ("operation", "approval"),
    [
        ("ctx.step(pay, n)", "ctx.approval('payment')"),
        ("ctx.step(take, n)", "ctx.approval('take')"),
        ("ctx.step(pay, n, name='ask')", "ctx.approval('pay')"),
        ("ctx.step(pay, n)", "ctx.approval()"),
        ("ctx.step(pay, n)", "ctx.approval(str(n))"),
        ("ctx.event('pay')", "ctx.approval('pay')"),
    ],
)
def test_other_names_are_left_alone(operation: str, approval: str) -> None:
    assert found(operation, approval) == []
