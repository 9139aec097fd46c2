"""A run of a durable function is drawn from its log: what followed what, and what stood side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from stepwell.api.drawing.picture import draw
from stepwell.api.drawing.shape import picture
from stepwell.api.runs.explain import explain
from stepwell.api.runs.flows import Flow
from stepwell.api.runs.ran import words_of
from stepwell.api.runs.views import read_run
from stepwell.runtime.calls import survey
from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Run, Stepwell
from tests.durable.conftest import Flows
from tests.durable.drawn import flow_now

STEPS = """
from stepwell import Retry, step, workflow

@step
def mix(x): return x
@step
def bake(x): return x
@step
def taste(x): return x

@workflow
async def cake(ctx):
"""


def drawn(flows: Flows, body: str, advance: str = "3h", mocks: Mapping[str, object] | None = None) -> Flow:
    """The graph of a run of a function with this body, after that time."""
    lines = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    kit = flows(STEPS + lines)
    for name, given in (mocks or {}).items():
        kit.mock(name, **given)  # type: ignore[arg-type]  # its options are given by name
    run = kit.start("cake")
    if advance:
        kit.advance(advance)
    return flow_now(kit, run.id)


def edges(flow: Flow) -> set[str]:
    """Each edge as `from>to`; one that the run did not take as `from..to`."""
    return {edge["id"] if flow.taken.get(edge["id"]) else edge["id"].replace(">", "..") for edge in flow.view["edges"]}


def test_operations_one_after_the_other_are_a_chain_and_a_name_used_again_is_a_node_of_its_own(flows: Flows) -> None:
    flow = drawn(flows, "await ctx.step(mix, 1)\nawait ctx.step(bake, 1)\nawait ctx.step(mix, 2)")
    assert edges(flow) == {"cake>mix", "mix>bake", "bake>mix (2)", "mix (2)>end"}
    assert [(node["name"], node["kind"], node["operation"]) for node in flow.view["nodes"]] == [
        ("cake", "function", None),
        ("mix", "operation", "mix"),
        ("bake", "operation", "bake"),
        ("mix (2)", "operation", "mix"),
    ]
    assert [flow.steps[name]["output"] for name in ("mix", "mix (2)")] == [1, 2]


def test_what_all_awaits_stands_side_by_side_between_what_came_before_and_after(flows: Flows) -> None:
    flow = drawn(flows, """
await ctx.step(mix, 1)
await ctx.all(ctx.step(bake, 1), ctx.step(taste, 1), ctx.step(bake, 2))
await ctx.step(mix, 2)
""")  # fmt: skip
    assert edges(flow) == {
        "cake>mix", "mix>bake", "mix>taste", "mix>bake (2)", "bake>mix (2)", "taste>mix (2)", "bake (2)>mix (2)",
        "mix (2)>end",
    }  # fmt: skip


def test_a_map_is_one_node_with_counts(flows: Flows) -> None:
    flow = drawn(
        flows,
        "await ctx.step(mix, 0)\nawait ctx.map(bake, range(20), retry=Retry(0), return_exceptions=True)\n"
        "await ctx.step(mix, 1)",
        mocks={"bake": {"raises": ValueError("black"), "times": 1}},
    )
    assert edges(flow) == {"cake>mix", "mix>bake", "bake>mix (2)", "mix (2)>end"}
    assert flow.steps["bake"]["branches"] == {"total": 20, "completed": 19, "failed": 1}
    assert words_of(flow.steps)["bake"].startswith("20: 19 completed, 1 failed")


def test_a_map_too_wide_for_its_branches_to_be_read_is_one_node_too(flows: Flows) -> None:
    flow = drawn(flows, "await ctx.map(bake, range(600))")
    assert edges(flow) == {"cake>bake", "bake>end"}
    assert flow.steps["bake"]["branches"] == {"total": 600, "completed": 600}


def test_so_are_tasks_too_many_to_be_read(flows: Flows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "SURVEY_WIDTH", 100)
    flow = drawn(flows, """
async def one(x):
    return await ctx.step(bake, x)
await ctx.map(one, range(120))
await ctx.step(mix, 1)
""")  # fmt: skip
    assert edges(flow) == {"cake>bake", "bake>mix", "mix>end"}
    assert flow.steps["bake"]["branches"] == {"total": 120, "completed": 120}


def test_one_name_many_times_side_by_side_is_one_node(flows: Flows) -> None:
    flow = drawn(flows, "await ctx.all(*[ctx.step(bake, x) for x in range(7)], ctx.step(mix, 1))")
    assert edges(flow) == {"cake>bake", "cake>mix", "bake>end", "mix>end"}
    assert flow.steps["bake"]["branches"] == {"total": 7, "completed": 7}
    assert flow.steps["mix"]["branches"] is None


def test_the_loser_of_first_was_begun_and_not_gone_on_from(flows: Flows) -> None:
    flow = drawn(flows, """
async def slow():
    await ctx.sleep("2h")
await ctx.first(ctx.step(bake, 1), slow())
await ctx.step(mix, 1)
""")  # fmt: skip
    assert (flow.states["bake"], flow.states["sleep"]) == ("completed", "cancelled")
    assert edges(flow) == {"cake>bake", "cake>sleep", "bake>mix", "sleep..mix", "mix>end"}


def test_a_fork_in_a_fork_begins_where_that_begins_and_ends_where_that_ends(flows: Flows) -> None:
    flow = drawn(flows, """
await ctx.all(ctx.all(ctx.step(mix, 1), ctx.step(bake, 1)), ctx.step(taste, 1))
await ctx.step(mix, 3)
""")  # fmt: skip
    assert edges(flow) == {
        "cake>mix", "cake>bake", "cake>taste", "mix>mix (2)", "bake>mix (2)", "taste>mix (2)", "mix (2)>end",
    }  # fmt: skip


def test_what_a_task_begins_follows_what_that_task_had_ended(flows: Flows) -> None:
    flow = drawn(flows, """
async def one():
    await ctx.step(mix, 1)
    await ctx.step(bake, 1)
async def other():
    await ctx.step(taste, 1)
    await ctx.all(ctx.step(mix, 2), ctx.step(bake, 2))
await ctx.all(one(), other())
await ctx.step(taste, 3)
""")  # fmt: skip
    assert edges(flow) == {
        "cake>mix", "cake>taste", "mix>bake", "taste>mix (2)", "taste>bake (2)",
        "bake>taste (2)", "mix (2)>taste (2)", "bake (2)>taste (2)", "taste (2)>end",
    }  # fmt: skip


def test_which_of_several_ends_a_task_awaited_is_not_known(flows: Flows) -> None:
    """The last of them made a task go on; the others are drawn as what came before."""
    flow = drawn(flows, """
async def wave(minutes):
    await ctx.sleep(f"{minutes}m")
    await ctx.step(mix, minutes)
async def both():
    await ctx.all(ctx.step(bake, 1), ctx.sleep("1h"))
    await ctx.step(taste, 1)
await ctx.all(wave(1), wave(5), both(), ctx.sleep("2h"))
await ctx.step(taste, 2)
""")  # fmt: skip
    unsure = {edge["id"] for edge in flow.view["edges"] if edge["stage"] == "after"}
    assert unsure == {"mix>mix (2)", "mix (2)>taste"}
    assert {"sleep>mix", "sleep (2)>mix (2)", "sleep (3)>taste"} <= edges(flow)


def test_what_runs_beside_the_function_is_met_where_the_function_meets_it(flows: Flows) -> None:
    flow = drawn(flows, """
beside = ctx.start(ctx.step(bake, 1))
await ctx.step(mix, 1)
await ctx.step(taste, 1)
await beside
await ctx.step(mix, 2)
""")  # fmt: skip
    assert edges(flow) == {
        "cake>mix", "cake>bake", "mix>taste", "bake>mix (2)", "taste>mix (2)", "mix (2)>end",
    }  # fmt: skip


def test_many_tasks_of_one_shape_are_a_chain_of_nodes_with_counts(flows: Flows) -> None:
    flow = drawn(flows, """
async def whole(x):
    await ctx.step(mix, x)
    await ctx.sleep("1m")
    await ctx.step(bake, x)
await ctx.map(whole, range(9))
""")  # fmt: skip
    assert edges(flow) == {"cake>mix", "mix>sleep", "sleep>bake", "bake>end"}
    assert {step["branches"]["total"] for step in flow.steps.values() if step["branches"]} == {9}


def test_an_open_fork_and_a_wait_have_no_end_yet(flows: Flows) -> None:
    flow = drawn(flows, """
await ctx.step(mix, 1)
await ctx.all(ctx.step(bake, 1), ctx.approval("chef"))
await ctx.step(mix, 2)
""")  # fmt: skip
    assert edges(flow) == {"cake>mix", "mix>bake", "mix>chef"}
    assert flow.states == {"cake": "waiting", "mix": "completed", "bake": "completed", "chef": "waiting"}
    assert {node["name"]: node["wait"] for node in flow.view["nodes"]}["chef"] == "approval"


def test_tries_are_those_of_their_place(flows: Flows) -> None:
    flow = drawn(
        flows, "await ctx.step(mix, 1, retry=Retry(2))\nawait ctx.step(mix, 2)",
        mocks={"mix": {"raises": TimeoutError("hot"), "times": 2}},
    )  # fmt: skip
    assert [flow.steps[name]["attempts"] for name in ("mix", "mix (2)")] == [3, 1]
    assert edges(flow) == {"cake>mix", "mix>mix (2)", "mix (2)>end"}


def test_a_step_named_as_the_function_or_as_the_end_is_no_edge_to_that(flows: Flows) -> None:
    flow = drawn(flows, 'await ctx.step(mix, 1, name="cake")\nawait ctx.step(mix, 1, name="end")')
    assert edges(flow) == {"cake>cake (2)", "cake (2)>end (2)", "end (2)>end"}


def test_of_a_long_log_the_newest_operations_are_drawn(flows: Flows, monkeypatch: pytest.MonkeyPatch) -> None:
    """They keep their numbers, so that a node is the same operation however far the run goes on."""
    monkeypatch.setattr("stepwell.api.runs.flows.DRAWN", 2)
    flow = drawn(flows, "for x in range(5):\n    await ctx.step(mix, x)")
    assert edges(flow) == {"cake>mix (4)", "mix (4)>mix (5)", "mix (5)>end"}
    assert [edge["when"] for edge in flow.view["edges"]] == ["3 nodes before", None, None]
    assert flow.steps["mix (5)"]["output"] == 4


def test_the_api_draws_a_run_of_a_function_operation_by_operation(flows: Flows) -> None:
    kit = flows(STEPS + "    await ctx.all(ctx.step(bake, 1), ctx.step(taste, 1))\n    await ctx.step(bake, 2)\n")
    run = kit.start("cake")
    told = json.loads(kit.client().handle(run.id).graph("json"))
    assert [node["name"] for node in told["nodes"]] == ["cake", "bake", "taste", "bake (2)"]
    assert told["start"] == "cake"
    assert set(told["states"]) == {"cake", "bake", "taste", "bake (2)"}
    assert set(told["steps"]) == {"bake", "taste", "bake (2)"}
    assert set(told["taken"]) == {edge["id"] for edge in told["edges"]}
    assert "n0 --> n2" in kit.client().handle(run.id).graph("mermaid")
    assert "n0 -> n2" in kit.client().handle(run.id).graph("dot")
    assert kit.client().handle(run.id).graph("svg").startswith("<svg")


def test_every_form_of_the_picture_has_them_side_by_side(flows: Flows) -> None:
    flow = drawn(flows, "await ctx.all(ctx.step(bake, 1), ctx.step(taste, 1))\nawait ctx.step(mix, 2)")
    shown = picture(flow.view, flow.states, words_of(flow.steps), flow.taken)
    assert [(shape.id, shape.title, shape.status) for shape in shown.shapes] == [
        ("s", "start", ""), ("n0", "bake", "completed"), ("n1", "taste", "completed"), ("n2", "mix", "completed"),
        ("e", "end", ""),
    ]  # fmt: skip
    ways = {("s", "n0"), ("s", "n1"), ("n0", "n2"), ("n1", "n2"), ("n2", "e")}
    assert {(line.source, line.target) for line in shown.lines if line.taken} == ways
    told = draw("mermaid", flow.view, flow.states, words_of(flow.steps), flow.taken)
    assert all(f"    {one} --> {other}" in told for one, other in ways)
    told = draw("dot", flow.view, flow.states, words_of(flow.steps), flow.taken)
    assert all(f"    {one} -> {other} [penwidth=3]" in told for one, other in ways)
    assert draw("svg", flow.view, flow.states, words_of(flow.steps), flow.taken).count("✓") >= 3


CONDITION = """
items = []
ctx.update("add", lambda item: items.append(item))
await ctx.step(mix, 1)
await ctx.until(lambda: len(items) >= 2, timeout="1h")
await ctx.step(bake, 1)
"""


def conditional(flows: Flows) -> tuple[Stepwell, Run]:
    """A run that waits for a second item, and had one."""
    lines = "".join(f"    {line}\n" for line in CONDITION.strip("\n").splitlines())
    kit = flows(STEPS + lines)
    run = kit.start("cake")
    run.update("add", {"item": "salt"})
    return kit, run


@pytest.mark.parametrize("failing", ['raise ValueError("no flour\\nleft")', "await ctx.step(bake, 1)"])
def test_the_end_of_a_run_that_failed_is_drawn_as_failed_with_the_error(flows: Flows, failing: str) -> None:
    """Where the function's own code raised it, all operations have completed."""
    kit = flows(f"{STEPS}    await ctx.step(mix, 1)\n    {failing}\n")
    kit.mock("bake", raises=ValueError("no flour\nleft"))
    run = kit.start("cake")
    kit.advance("1m")
    assert run.status == "failed"
    ends = {
        "svg": ">✗ ValueError: no flour left<",
        "mermaid": '(["#10007; ValueError#58; no flour left"])',
        "dot": '"✗ ValueError: no flour left"',
    }
    for form, end in ends.items():
        assert end in kit.client().handle(run.id).graph(form), form


def test_the_end_of_a_run_that_completed_is_no_failure(flows: Flows) -> None:
    flow = drawn(flows, "await ctx.step(mix, 1)")
    assert "✗" not in draw("mermaid", flow.view, flow.states)


def test_a_wait_for_a_condition_is_a_node_that_waits_and_is_done_when_the_function_goes_on(flows: Flows) -> None:
    kit, run = conditional(flows)
    flow = flow_now(kit, run.id)
    assert edges(flow) == {"cake>mix", "mix>until"}
    assert (flow.states["until"], flow.view["nodes"][-1]["wait"]) == ("waiting", "tasks")
    kit.advance("10m")
    run.update("add", {"item": "milk"})
    flow = flow_now(kit, run.id)
    assert edges(flow) == {"cake>mix", "mix>until", "until>bake", "bake>end"}
    assert words_of(flow.steps)["until"] == "10 min"


@pytest.mark.parametrize(("is_cancelled", "state"), [(True, "cancelled"), (False, "completed")])
def test_a_wait_for_a_condition_ends_with_its_time_or_with_its_run(
    flows: Flows, state: str, *, is_cancelled: bool
) -> None:
    kit, run = conditional(flows)
    if is_cancelled:
        run.cancel()
    else:
        kit.advance("1h")
    assert flow_now(kit, run.id).states["until"] == state


def test_the_run_and_its_history_call_a_wait_for_a_condition_until(flows: Flows) -> None:
    """The run, its explanation and its tokens say the same of it as the list of runs does."""
    kit, run = conditional(flows)
    view = run_now(read_run(kit.service, run.id))
    why = explain(run_now(kit.service.standing(run.id)), int(kit.now.timestamp() * 1000), None, {})
    assert (view["current_steps"], why["current_steps"], view["tokens"][0]["step"]) == (["until"],) * 2 + ("until",)
    assert (view["waiting_for"], why["waiting_for"], view["tokens"][0]["awaits"]) == ("tasks", "tasks", ["tasks"])
    kit.advance("1h")
    told = [(one["type"], one["step"]) for one in run.history if one["type"] in {"tasks.waiting", "timer.fired"}]
    assert told == [("tasks.waiting", "tasks"), ("tasks.waiting", "until"), ("timer.fired", "until")]
