"""Child runs of durable functions, of graphs, and durable functions among the nodes of a graph."""

from __future__ import annotations

from tests.durable.conftest import Flows

HEAD = """
from stepwell import ChildFailed, workflow

@workflow
async def double(ctx, n: int) -> int:
    await ctx.sleep("1m")
    return n * 2

@workflow
async def broken(ctx):
    raise ValueError("never")

"""
GRAPH = """
workflow: graph
timeline:
  - {name: nap, sleep: 1m}
  - {name: add, run: "python:flow.add"}
"""


def test_a_function_awaits_the_result_of_another(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx):
    return [await ctx.child(double, 4), await ctx.child("double", {"n": 5})]
"""
    )
    run = kit.start("flow")
    assert (run.status, run.waiting_for) == ("waiting", "children")
    kit.advance("2m")
    assert run.result == [8, 10]


def test_a_function_awaits_a_graph(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
def add(n: int):
    return n + 1

@workflow
async def flow(ctx):
    return await ctx.child("graph", {"n": 4})
"""
    )
    kit.define(GRAPH)
    run = kit.start("flow")
    kit.advance("2m")
    assert run.result == 5


def test_a_node_of_a_graph_runs_a_durable_function(flows: Flows) -> None:
    kit = flows(HEAD)
    kit.define("""
workflow: around
timeline:
  - {name: call, run: "workflow:double", input: {n: 21}}
""")
    run = kit.start("around")
    kit.advance("1m")
    assert (run.status, run.steps["call"].output) == ("completed", 42)


def test_a_childs_failure_is_raised_and_caught_it_does_not_fail_its_parent(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx, take: bool):
    try:
        await ctx.child(broken)
    except ChildFailed as error:
        if not take:
            raise
        return [error.type, str(error)]
"""
    )
    taken, not_taken = kit.start("flow", {"take": True}), kit.start("flow", {"take": False})
    assert taken.result[0] == "child_failed"
    assert "never" in taken.result[1]
    assert not_taken.error is not None
    assert (not_taken.status, not_taken.error["type"]) == ("failed", "child_failed")


def test_a_detached_child_is_waited_for_by_nobody(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx):
    return await ctx.child(double, 4, detached=True)
"""
    )
    run = kit.start("flow")
    (child,) = kit.runs("double")
    assert (run.status, run.result, child.status) == ("completed", child.id, "waiting")
    kit.advance("1m")
    assert child.result == 8


def test_the_detached_children_of_a_function_are_listed_with_those_that_it_waits_for(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
def same(run_id: str) -> str:
    return run_id

@workflow
async def other(ctx):
    return None

@workflow
async def flow(ctx, foreign: str):
    await ctx.step(same, foreign)  # looks like a child
    await ctx.all(ctx.child(other, detached=True), ctx.step(same, "x"))
    mine = await ctx.child("double", {"n": 4}, detached=True)
    await ctx.event("go")
    await ctx.child(broken)
"""
    )
    kit.start("other")
    foreign = "run_" + "0" * 26
    assert kit.start("double", {"n": 1}, run_id=foreign).status == "waiting"
    run = kit.start("flow", {"foreign": foreign})
    there = {name: one.id for name in ("double", "other") for one in kit.runs(name) if one.view["parent"] == run.id}
    listed = [{"name": name, "workflow": name, "run_id": there[name], "step": name, "status": status, "detached": True,
               "links": {"self": f"/runs/{there[name]}"}}
              for name, status in (("double", "waiting"), ("other", "completed"))]  # fmt: skip
    assert run.view["children"] == listed
    kit.event("go")
    assert [one["detached"] for one in run.view["children"]] == [True, False, True]


def test_a_step_that_returns_the_id_of_a_child_lists_it_no_second_time(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
def same(run_id: str) -> str:
    return run_id

@workflow
async def other(ctx):
    return None

@workflow
async def flow(ctx):
    await ctx.child(other)
    await ctx.step(same, await ctx.event("told"))
    await ctx.event("go")
"""
    )
    run = kit.start("flow", {})
    (child,) = run.view["children"]
    kit.event("told", child["run_id"])
    assert run.view["steps"]["same"]["output"] == child["run_id"]
    assert run.view["children"] == [child]


def test_a_child_that_nobody_has_deployed_fails_as_a_child(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx, detached: bool):
    try:
        await ctx.child("nobody", detached=detached)
    except ChildFailed as error:
        return str(error)
"""
    )
    assert "nobody" in kit.start("flow", {"detached": False}).result
    assert "nobody" in kit.start("flow", {"detached": True}).result


def test_a_childs_time_is_limited(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
from stepwell import WaitTimedOut

@workflow
async def flow(ctx):
    try:
        await ctx.child(double, 1, timeout="30s")
    except WaitTimedOut as error:
        return error.type
"""
    )
    run = kit.start("flow")
    kit.advance("30s")
    assert run.result == "children_timeout"
    (child,) = run.children.values()
    assert child.status == "cancelled"


def test_children_of_one_workflow_and_of_several_run_at_once(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx):
    return await ctx.all(*[ctx.child(double, n) for n in range(5)])
"""
    )
    run = kit.start("flow")
    kit.advance("1m")
    assert run.result == [0, 2, 4, 6, 8]
    assert run.view["cost"]["records"] == 3


def test_a_child_that_fails_cancels_the_others(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx):
    try:
        await ctx.all(ctx.child(double, 1), ctx.child(broken))
    except ChildFailed as error:
        return error.type
"""
    )
    run = kit.start("flow")
    assert run.result == "child_failed"
    assert {child.status for child in run.children.values()} == {"cancelled", "failed"}


def test_the_first_of_two_children_cancels_the_other(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def slow(ctx):
    await ctx.sleep("1d")

@workflow
async def flow(ctx):
    first = await ctx.first(ctx.child(slow), ctx.child(double, 3))
    return [first.winner, first.value, list(first)]
"""
    )
    run = kit.start("flow")
    kit.advance("1m")
    assert run.result == [1, 6, [None, 6]]
    assert {kit.view(one.id)["status"] for one in kit.runs("slow")} == {"cancelled"}


def test_a_run_shows_the_children_that_its_tasks_have_started_also_after_they_have_ended(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx):
    handles = [ctx.start(ctx.child(double, n)) for n in range(2)]
    before = await ctx.child(double, 7)
    return [before, *[await handle for handle in handles], await ctx.all(both(ctx, 3), both(ctx, 4))]

async def both(ctx, n):
    return await ctx.child(double, n)
"""
    )
    run = kit.start("flow")
    assert [(one["name"], one["step"], one["status"]) for one in run.view["children"]] == [
        ("double", "double", "waiting")] * 3  # fmt: skip
    kit.advance("3m")
    assert run.result == [14, 0, 2, [6, 8]]
    children = run.view["children"]
    assert [one["status"] for one in children] == ["completed"] * 5
    assert {one["run_id"] for one in children} == {one.id for one in kit.runs("double")}
