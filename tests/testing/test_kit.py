"""What the testing kit gives a test of child runs and of rollbacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.definition.models import NodeDef, TransitionDef, WaitDef, WorkflowDef
from stepwell.errors import DefinitionError, NotFound, UserError
from stepwell.testing.kit import Stepwell
from stepwell.testing.plugin import workflow_folder

TRIP = """
workflow: trip
failure_policy: compensate
timeline:
  - {name: check, children: [{workflow: fraud}, {workflow: stock}]}
  - {name: again, children: [{workflow: stock}]}
  - {name: charge, run: python:shop.charge, compensate: {run: python:shop.refund}}
  - {name: ship, run: python:shop.ship}
"""
FRAUD = "workflow: fraud\ntimeline: [{name: look, wait: {for: approval}}]"
STOCK = "workflow: stock\ntimeline: [{name: count, run: python:shop.count}]"


@pytest.fixture
def stepwell(tmp_path: Path) -> Stepwell:
    kit = Stepwell(tmp_path)
    for text in (TRIP, FRAUD, STOCK):
        kit.define(text)
    kit.mock("count", returns=3)
    kit.mock("charge", returns={"receipt": "r1"})
    kit.mock("ship", raises=ValueError("no stock"))
    return kit


def test_runs_are_listed_of_a_workflow_that_there_is(stepwell: Stepwell) -> None:
    """A misspelt one has none, as the right one may have."""
    assert stepwell.runs("trip") == []
    with pytest.raises(NotFound) as unknown:
        stepwell.runs("tripp")
    assert (unknown.value.code, unknown.value.hint) == ("unknown_workflow", "did you mean `trip`?")


def test_a_step_that_a_run_has_not_reached_is_named_with_those_that_it_has(stepwell: Stepwell) -> None:
    with pytest.raises(KeyError, match="the run has not reached 'shp': it has been at check"):
        stepwell.start("trip").steps["shp"]


def test_a_child_run_that_is_not_there_is_named_with_those_that_are(stepwell: Stepwell) -> None:
    run = stepwell.start("trip")
    with pytest.raises(KeyError, match="the run has no child run 'frau': it has fraud, stock"):
        run.children["frau"]


@pytest.mark.parametrize(
    ("options", "told", "hint"),
    [
        ({"start_at": "2031-01-01T09:00:00Z"}, "a start has no option 'start_at'", "did you mean `start_at_ms`?"),
        ({"tags": ["a"]}, "tags of a start cannot be ['a']", "a dict of text"),
        ({"tags": {"a": 1}}, "tags of a start cannot be {'a': 1}", "a dict of text"),
        ({"priority": "high"}, "priority of a start cannot be 'high'", "give a whole number"),
        ({"priority": True}, "priority of a start cannot be True", "give a whole number"),
        ({"key": 3}, "key of a start cannot be 3", "give text"),
    ],
)
def test_an_option_of_a_start_that_no_call_could_have_is_refused(
    stepwell: Stepwell, options: dict[str, object], told: str, hint: str
) -> None:
    with pytest.raises(UserError) as refused:
        stepwell.start("trip", **options)
    assert str(refused.value).startswith(told)
    assert hint in str(refused.value.hint)
    assert stepwell.start("trip", priority=None, tags={"team": "shop"}, key="k").status == "waiting"


def test_an_input_whose_names_are_no_text_is_refused(stepwell: Stepwell) -> None:
    with pytest.raises(UserError, match="the input has the key 1, which is no text"):
        stepwell.start("trip", {1: "a", "b": 2})


def test_a_mock_that_raises_what_is_no_exception_is_refused(stepwell: Stepwell) -> None:
    with pytest.raises(UserError, match="mock: 'no stock' cannot be raised") as refused:
        stepwell.mock("ship", raises="no stock")  # type: ignore[arg-type]  # a mistake
    assert refused.value.hint == "raises=ValueError('no stock'), or the class of an exception"


def test_the_children_of_a_run_are_runs_by_name(stepwell: Stepwell) -> None:
    run = stepwell.start("trip")
    assert (run.waiting_for, run.children["stock"].result) == ("children", 3)
    run.children["fraud"].approve(by="ana")
    stepwell.mock("refund")
    assert {name: child.status for name, child in run.children.items()} == {
        "fraud": "completed", "check.stock": "completed", "again.stock": "completed"}  # fmt: skip


def test_child_runs_that_the_branches_of_a_fork_start_are_children_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "reload.yaml").write_text("workflow: reload\ntimeline: [{name: load, run: 'python:shop.load'}]")
    (tmp_path / "nightly.yaml").write_text("""
workflow: nightly
nodes:
  begin: {transitions: [{to: each, foreach: "{{ [1, 2] }}"}]}
  each: {run: "workflow:reload", transitions: [{to: all_in}]}
  all_in: {fan_in: {policy: all}}
""")
    kit = Stepwell(tmp_path)
    kit.mock("load", returns=1)
    assert [child.status for child in kit.start("nightly").children.values()] == ["completed", "completed"]


def test_child_runs_that_tasks_start_of_one_workflow_are_numbered(tmp_path: Path) -> None:
    (tmp_path / "families.py").write_text("""
import asyncio
from stepwell import workflow

@workflow
async def kid(ctx, n: int) -> int:
    await ctx.sleep(10)
    return n

@workflow
async def parent(ctx) -> list:
    first = await ctx.child(kid, 0)
    return [first, *await asyncio.gather(*(ctx.child(kid, n) for n in (1, 2, 3)))]
""")
    kit = Stepwell(tmp_path)
    run = kit.start("parent")
    assert {*run.children} == {"kid"}
    kit.advance("10s")
    kit.advance("10s")
    assert {name: child.result for name, child in run.children.items()} == {
        "kid.kid": 0, "kid.kid_2": 1, "kid.kid_3": 2, "kid.kid_4": 3}  # fmt: skip


def test_a_compensation_is_mocked_by_its_node(stepwell: Stepwell) -> None:
    refund = stepwell.mock("charge.compensate", returns="refunded")
    run = stepwell.start("trip", {"order": 7})
    run.children["fraud"].approve()
    assert (run.status, run.steps["charge"].status) == ("compensated", "compensated")
    assert refund.calls[0]["output"] == {"receipt": "r1"}
    assert run.rollback is not None
    assert [one["step"] for one in run.rollback["undone"]] == ["charge"]


def test_a_compensation_that_fails_is_a_partial_rollback(stepwell: Stepwell) -> None:
    stepwell.mock("charge.compensate", raises=ValueError("no refund"))
    run = stepwell.start("trip")
    run.children["fraud"].approve()
    assert (run.status, run.view["outcome"]) == ("failed", "partial_rollback")
    assert run.rollback is not None
    assert [one["step"] for one in run.rollback["not_undone"]] == ["charge"]


def test_a_folder_of_durable_functions_is_a_workflow_folder(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("from stepwell import workflow\n\n@workflow\nasync def one(ctx): pass\n")
    assert workflow_folder(tmp_path / "tests" / "test_one.py", tmp_path, "") == tmp_path


def test_files_of_other_tools_do_not_make_a_workflow_folder(tmp_path: Path) -> None:
    (tmp_path / "cdk.json").write_text("{}")
    (tmp_path / "tests").mkdir()
    assert workflow_folder(tmp_path / "tests" / "test_one.py", tmp_path, "") == tmp_path / "tests"


def test_a_folder_called_workflows_comes_before_the_definitions_beside_it(tmp_path: Path) -> None:
    (tmp_path / "exported.json").write_text('{"StartAt": "A", "States": {"A": {"Type": "Succeed"}}}')
    folder = tmp_path / "workflows"
    folder.mkdir()
    (folder / "one.py").write_text("from stepwell import workflow\n\n@workflow\nasync def one(ctx): pass\n")
    assert workflow_folder(tmp_path / "tests" / "test_one.py", tmp_path, "") == folder


def test_a_workflow_may_be_built_of_models(stepwell: Stepwell) -> None:
    ask = NodeDef(wait=WaitDef(for_="approval", timeout="2h"), transitions=[TransitionDef(to="end")])
    stepwell.define(WorkflowDef(workflow="built", nodes={"ask": ask}))
    run = stepwell.start("built")
    run.approve(by="ana")
    assert run.status == "completed"
    with pytest.raises(DefinitionError, match="unknown_target"):
        stepwell.define(WorkflowDef(workflow="bad", nodes={"ask": NodeDef(transitions=[TransitionDef(to="nowhere")])}))


def test_a_reload_takes_away_what_left_the_folder_and_keeps_what_the_test_defined(tmp_path: Path) -> None:
    (tmp_path / "old.yaml").write_text("workflow: old\ntimeline: [{name: ask, wait: {for: approval}}]")
    (tmp_path / "kept.yaml").write_text("workflow: kept\ntimeline: [{name: ask, wait: {for: approval}}]")
    kit = Stepwell(tmp_path)
    for text in (FRAUD, "workflow: kept\ntimeline: [{name: rest, sleep: 1h}]"):
        kit.define(text)
    run = kit.start("old")
    (tmp_path / "old.yaml").unlink()
    (tmp_path / "kept.yaml").unlink()
    kit.reload()
    run.approve()
    assert run.status == "completed"  # it keeps its version
    assert kit.start("fraud").waiting_for == "approval"
    assert kit.start("kept").waiting_for == "sleep"
    with pytest.raises(NotFound, match="there is no workflow 'old'"):
        kit.start("old")


def test_a_folder_without_workflows_is_named(tmp_path: Path) -> None:
    """The test is elsewhere than its author thinks."""
    with pytest.raises(NotFound) as unknown:
        Stepwell(tmp_path).start("order")
    assert str(unknown.value).startswith(f"there is no workflow 'order': {tmp_path} has no workflows")
    assert "stepwell_folder of pytest's settings" in str(unknown.value.hint)
