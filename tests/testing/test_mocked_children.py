"""A child run is mocked by its workflow, as a step is by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.errors import UserError
from stepwell.testing.kit import Stepwell

FAMILY = """
from dataclasses import dataclass
from stepwell import ChildFailed, WaitTimedOut, workflow

@dataclass
class Grade:
    score: int

@workflow
async def kid(ctx, n: int) -> Grade:
    await ctx.event("never")

@workflow(name="aunt")
async def relative(ctx) -> int:
    return 1

@workflow
async def parent(ctx):
    return [(await ctx.child(kid, 7)).score, await ctx.child("aunt"), await ctx.child("cousin")]

@workflow
async def both(ctx):
    return [one.score for one in await ctx.all(ctx.child(kid, 1), ctx.child(kid, 2))]

@workflow
async def careful(ctx):
    try:
        return (await ctx.child(kid, 1, timeout="1h")).score
    except (ChildFailed, WaitTimedOut) as failed:
        return failed.type

@workflow
async def leaving(ctx):
    return await ctx.child(kid, 1, detached=True)
"""
TRIP = """
workflow: trip
timeline:
  - {name: look, run: "workflow:fraud", input: {n: 1}}
  - {name: ask, wait: {for: approval}}
"""
FRAUD = "workflow: fraud\ntimeline: [{name: judge, wait: {for: approval}}]"


@pytest.fixture
def family(tmp_path: Path) -> Stepwell:
    (tmp_path / "family.py").write_text(FAMILY)
    return Stepwell(tmp_path)


def test_a_mock_replaces_child_runs_by_the_name_of_their_workflow(family: Stepwell) -> None:
    """Also by the name of its function, and of a workflow that this folder does not have."""
    kid, aunt = family.mock("kid", returns={"score": 3}), family.mock("relative", returns=4)
    family.mock("cousin", returns=5)
    run = family.start("parent")
    assert run.result == [3, 4, 5]
    assert (kid.calls, len(aunt.calls)) == ([{"n": 7}], 1)
    assert {name: child.status for name, child in run.children.items()} == {
        "kid": "completed", "aunt": "completed", "cousin": "completed"}  # fmt: skip
    family.close()


def test_a_mock_replaces_as_many_child_runs_as_it_may(family: Stepwell) -> None:
    family.mock("kid", returns={"score": 3}, times=1)
    run = family.start("both")
    statuses = [child.status for child in run.children.values()]
    assert (run.status, sorted(statuses)) == ("waiting", ["completed", "waiting"])


def test_a_mock_may_tell_its_result_by_the_input(family: Stepwell) -> None:
    family.mock("kid", returns=lambda given: {"score": given["n"] * 10})
    assert family.start("both").result == [10, 20]


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"raises": ValueError("no")}, "child_failed"),
        ({"times_out": True}, "child_failed"),
        ({"takes": "2h", "returns": {"score": 1}}, "children_timeout"),
        ({"takes": "59m", "returns": {"score": 1}}, 1),
    ],
)
def test_a_mocked_child_run_fails_and_takes_time_as_a_step_does(
    family: Stepwell, how: dict[str, object], told: object
) -> None:
    family.mock("kid", **how)  # type: ignore[arg-type]  # its options are given by name
    assert family.start("careful").result == told


def test_a_mock_replaces_a_detached_child_run(family: Stepwell) -> None:
    kid = family.mock("kid")
    run = family.start("leaving")
    (child,) = family.runs("kid")
    assert (child.id, child.status, kid.calls) == (run.result, "completed", [{"n": 1}])


def test_a_run_that_the_test_starts_is_not_mocked(family: Stepwell) -> None:
    family.mock("kid", returns={"score": 3})
    assert family.start("kid", {"n": 1}).status == "waiting"


def test_a_mock_replaces_the_child_run_of_a_graphs_node(tmp_path: Path) -> None:
    kit = Stepwell(tmp_path)
    for text in (TRIP, FRAUD):
        kit.define(text)
    fraud = kit.mock("fraud", returns={"ok": True})
    run = kit.start("trip")
    assert (run.waiting_for, run.steps["look"].output, fraud.calls) == ("approval", {"ok": True}, [{"n": 1}])
    kit.close()


@pytest.mark.parametrize("name", ["look", "ask"])
def test_a_mock_of_a_node_that_has_no_step_is_refused(tmp_path: Path, name: str) -> None:
    kit = Stepwell(tmp_path)
    for text in (TRIP, FRAUD):
        kit.define(text)
    with pytest.raises(UserError, match=f"no step is called '{name}'"):
        kit.mock(name)
