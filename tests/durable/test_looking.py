"""What a durable function sees of the time, and what people see of the function."""

from __future__ import annotations

from typing import Any

from stepwell.api.drawing.shape import picture
from stepwell.api.graphs import graph_view
from stepwell.api.runs.ran import words_of
from stepwell.engine.entries import Entry
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports.headers import RunQuery
from stepwell.testing.kit import Stepwell
from tests.durable.conftest import Flows
from tests.durable.drawn import flow_now

DAYS = """
from stepwell import workflow

@workflow
async def days(ctx, left: int):
    ctx.state[f"day {left}"] = ctx.now().isoformat()
    if not left:
        return None
    await ctx.sleep("1d")
    return ctx.continue_as(days, left - 1)
"""
NAMED = """
from stepwell import step, workflow

@step
def cook(dish: str) -> str: return dish

@workflow
async def dinner(ctx):
    await ctx.all(ctx.step(cook, "soup"), ctx.step(cook, "rice"), name="courses")
    first = await ctx.first(ctx.event("guest"), ctx.timer("2h"), name="bell")
    return first.winner
"""


ORDERED = """
from stepwell import Retry, step, workflow

@step
def cook(dish: str) -> str: return dish

@step
def burn(dish: str) -> str: return dish

@workflow
async def feast(ctx):
    async def course(dish):
        return await ctx.step(cook, dish, retry=Retry(1))
    async def extra():
        try:
            return await ctx.step(burn, "toast", retry=Retry(0))
        except ValueError:
            return "none"
    async def asked():
        return (await ctx.approval("chef", timeout="2h"))["decision"]
    return await ctx.all(course("soup"), extra(), asked(), name="courses")
"""


def test_a_retry_a_failure_and_an_approval_inside_all_are_everywhere_that_people_look(flows: Flows) -> None:
    kit = flows(ORDERED)
    kit.mock("cook", raises=TimeoutError("hot"), times=1)
    kit.mock("burn", raises=ValueError("black"))
    run = kit.start("feast")
    kit.advance("10s")
    steps = {name: (step.status, step.attempts) for name, step in run.steps.items()}
    assert steps == {"cook": ("completed", 2), "burn": ("failed", 1), "chef": ("waiting", 0)}
    told = {(entry["type"], entry["step"]) for entry in run.history}
    assert {("step.retry_scheduled", "cook"), ("step.failed", "burn"), ("approval.requested", "chef")} <= told
    (listed,) = run_now(kit.service.runs(RunQuery(waiting_for=frozenset({"approval"})))).headers
    assert (listed.run_id, listed.status.value, listed.waiting_node) == (run.id, "waiting", "chef")
    rows: Any = run_now(kit.service.ports.runs.stats())
    assert [row["count"] for row in rows if row["waiting_for"] == "approval"] == [1]
    drawn = flow_now(kit, run.id)
    assert {name: status for name, status in drawn.states.items() if name != "feast"} == {
        "cook": "completed", "burn": "failed", "chef": "waiting",
    }  # fmt: skip


def test_a_function_that_begins_anew_begins_at_the_time_it_is_then(flows: Flows) -> None:
    stepwell = flows(DAYS)
    run = stepwell.start("days", {"left": 2})
    stepwell.advance("2d")
    days = [str(run.state[f"day {left}"])[:10] for left in (2, 1, 0)]
    assert (run.status, days) == ("completed", ["2030-01-01", "2030-01-02", "2030-01-03"])


def test_all_and_first_go_by_the_names_that_they_are_given_in_a_replay_too(flows: Flows) -> None:
    stepwell = flows(NAMED, sessions=0)
    run = stepwell.start("dinner")
    assert (run.view["current_steps"], run.waiting_for) == (["bell"], "event")
    assert [entry["step"] for entry in run.history if entry["type"] == "fork.opened"] == ["courses"]
    stepwell.advance("2h")
    assert (run.status, run.result) == ("completed", 1)


def test_a_function_that_has_not_begun_is_drawn_as_one_node_and_then_operation_by_operation(flows: Flows) -> None:
    stepwell = flows(NAMED)
    run = stepwell.start("dinner")
    at = run_now(stepwell.service.standing(run.id))
    assert [node["name"] for node in graph_view(at.graph)["nodes"]] == ["dinner"]
    assert [shape.title for shape in picture(at.graph, {}).shapes] == ["start", "dinner", "end"]
    stepwell.settle()
    drawn = flow_now(stepwell, run.id)
    shown = picture(drawn.view, drawn.states, words_of(drawn.steps), drawn.taken)
    assert [(shape.title, shape.words, shape.status) for shape in shown.shapes] == [
        ("start", "", ""), ("cook", "", "completed"), ("cook (2)", "", "completed"), ("bell", "", "waiting"),
    ]  # fmt: skip
    assert [(line.source, line.target) for line in shown.lines] == [
        ("s", "n0"),
        ("s", "n1"),
        ("n0", "n2"),
        ("n1", "n2"),
    ]


BESIDE = """
from stepwell import step, workflow

@step
def cook(dish: str) -> str: return dish

@workflow
async def buffet(ctx):
    async def slow():
        await ctx.sleep("1h")
        await ctx.step(cook, "roast")
        await ctx.sleep("3h")
        return await ctx.step(cook, "gravy")
    async def quick():
        for hour in range(3):
            await ctx.step(cook, f"soup {hour}")
            await ctx.sleep("50m")
    await ctx.all(slow(), quick())
    await ctx.step(cook, "coffee")
"""


def test_the_history_of_a_function_with_tasks_is_in_order_of_time(flows: Flows) -> None:
    """Also where a reader goes on after any entry of it."""
    kit = flows(BESIDE)
    run = kit.start("buffet")
    kit.advance("2h")
    half = [entry.id for entry in told(kit, run.id)]
    kit.advance("4h")
    entries = told(kit, run.id)
    times, ids = [one.at_ms for one in entries], [one.id for one in entries]
    assert times == sorted(times)
    assert {one.token for one in entries} >= {"0", "0/0.0", "0/2.0"}
    assert len(set(ids)) == len(ids)
    assert ids[: len(half)] == half
    for at, known in enumerate(ids):
        assert [one.id for one in told(kit, run.id, known)] == ids[at + 1 :]


def told(kit: Stepwell, run_id: str, after: str = "") -> list[Entry]:
    async def read() -> list[Entry]:
        return [entry async for entry in (await kit.service.narrator(run_id)).entries(after=after)]

    return run_now(read())
