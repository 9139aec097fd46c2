"""Patterns that go round, end, or begin many instances, held to what their definitions ask for, in virtual time."""

from __future__ import annotations

import pytest

from examples.patterns.test_patterns import approve, done, statuses
from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Stepwell

# -- 10, 11, 21, 43: cycles and ends


def test_arbitrary_cycles_go_round_from_any_place_and_out_at_any(stepwell: Stepwell) -> None:
    run = stepwell.start("10-arbitrary-cycles", {"has_text": True})
    run.approve(wait="read")
    run.reject(wait="review")
    run.approve(wait="read")
    run.approve(wait="review")
    assert done(run) == ["edit", "read", "draft", "review", "edit", "read", "draft", "review", "print"]
    other = stepwell.start("10-arbitrary-cycles", {"has_text": False})
    other.reject(wait="review")
    other.reject(wait="read")
    assert done(other) == ["draft", "review", "edit", "read", "drop"]


def test_a_cycle_through_a_fork_has_new_branches_in_each_round(stepwell: Stepwell) -> None:
    run = stepwell.start("10-cycle-through-a-fork", ["ann", "ben"])
    first = str(run.view["forked"]["id"])
    approve(run, 0)
    run.reject("dull", wait=f"{first}.1")
    second = str(run.view["forked"]["id"])
    assert first != second
    assert statuses(run, second) == ["waiting", "waiting"]
    approve(run, 0, fork=second)
    assert run.status == "waiting"  # what came in the first round does not count in the second
    approve(run, 1, fork=second)
    assert (run.status, done(run)[-1]) == ("completed", "print")


def test_implicit_termination_ends_the_run_when_nothing_is_left(stepwell: Stepwell) -> None:
    ship = stepwell.mock("ship")
    run = stepwell.start("11-implicit-termination")
    approve(run, 0)
    assert (run.status, len(ship.calls)) == ("waiting", 1)
    approve(run, 1)
    assert run.status == "completed"


def test_structured_loop_repeats_until_its_condition_holds(stepwell: Stepwell) -> None:
    assert done(stepwell.start("21-structured-loop", {"rounds": 3})) == ["round", "round", "round", "rest"]
    assert done(stepwell.start("21-structured-loop", {"rounds": 0})) == ["round", "rest"]


def test_recursion_calls_the_workflow_itself(stepwell: Stepwell) -> None:
    run = stepwell.start("22-recursion", {"left": 4})
    assert (run.status, run.result) == ("completed", 4)
    assert [child.status for child in run.children.values()] == ["completed"]


def test_instances_can_begin_while_others_run(stepwell: Stepwell) -> None:
    first = stepwell.start("15-multiple-instances-without-prior-knowledge", {"case": "c"})
    stepwell.event("instances", {"more": True}, key="c")
    stepwell.event("instances", {"more": False}, key="c")
    (second,) = [child for branch in first.branches("0/0") for child in branch["children"]]
    approve(first, 0)
    assert first.status != "completed"
    run_now(stepwell.service.approve(second["run_id"], wait="0/0.0"))
    assert first.status == "completed"


def test_explicit_termination_ends_the_run_at_its_end_node(stepwell: Stepwell) -> None:
    run = stepwell.start("43-explicit-termination")
    run.event("bid", {"buy_now": False})
    assert statuses(run) == ["waiting", "waiting"]
    run.event("bid", {"buy_now": True})
    assert (run.status, statuses(run)) == ("completed", ["completed", "cancelled"])
    late = stepwell.start("43-explicit-termination")
    stepwell.advance("1h")
    assert (late.status, statuses(late)) == ("completed", ["cancelled", "completed"])


# -- 12 to 14, 26: multiple instances


def test_instances_without_synchronization_are_not_waited_for(stepwell: Stepwell) -> None:
    archive = stepwell.mock("archive")
    run = stepwell.start("12-multiple-instances-without-synchronization", ["ann", "ben", "cyd"])
    assert statuses(run) == ["waiting", "waiting", "waiting", "completed"]
    assert len(archive.calls) == 1
    approve(run, 2, 0, 1)
    assert (run.status, len(archive.calls)) == ("completed", 1)


def test_instances_by_the_definition_are_so_many_and_all_waited_for(stepwell: Stepwell) -> None:
    file = stepwell.mock("file")
    run = stepwell.start("13-multiple-instances-design-time")
    assert [branch["item"] for branch in run.branches("0/0")] == ["author", "auditor", "head"]
    approve(run, 1, 2)
    assert (run.status, file.calls) == ("waiting", [])
    approve(run, 0)
    assert (run.status, len(file.calls)) == ("completed", 1)


@pytest.mark.parametrize("items", [[], [7], [3, 1, 2]])
def test_instances_by_the_data_are_as_many_as_there_are_items(stepwell: Stepwell, items: list[int]) -> None:
    run = stepwell.start("14-multiple-instances-run-time", items)
    assert run.status == "completed"
    assert run.state["scores"] == [{"score": item * 10} for item in items]


def test_cancelled_instances_end_and_the_thread_goes_on(stepwell: Stepwell) -> None:
    over = stepwell.mock("over")
    run = stepwell.start("26-cancel-multiple-instances", ["ann", "ben", "cyd"])
    approve(run, 1, fork="0/0.0/0")
    assert (statuses(run), over.calls) == (["running", "waiting"], [])
    run.event("enough")
    assert statuses(run, "0/0.0/0") == ["cancelled", "completed", "cancelled"]
    assert (run.status, len(over.calls)) == ("completed", 1)
