"""The workflow control-flow patterns, each held to what its definition asks for, in virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.api.runs.branches import BranchView, branch_view
from stepwell.definition.graph import Json
from stepwell.errors import Conflict
from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Run, Stepwell


def branches(stepwell: Stepwell, run: Run, fork: str = "0/0") -> list[BranchView]:
    """The branches of a fork, which is named by its token and the slot where it opened."""
    stepwell.settle()
    return [branch_view(at) for at in run_now(stepwell.service.branches(run.id, fork, 0, 100))]


def statuses(stepwell: Stepwell, run: Run, fork: str = "0/0") -> list[str]:
    return [branch["status"] for branch in branches(stepwell, run, fork)]


def done(run: Run) -> list[str]:
    """The nodes that the run's own thread has ended, in order."""
    return [entry["step"] for entry in run.history if entry["type"] == "step.completed"]


def approve(run: Run, *indexes: int, fork: str = "0/0") -> None:
    """In these branches, one after the other."""
    for index in indexes:
        run.approve(wait=f"{fork}.{index}")


# -- 1 to 5: basic control flow


def test_sequence_runs_one_after_the_other(stepwell: Stepwell) -> None:
    run = stepwell.start("01-sequence")
    assert run.status == "completed"
    assert done(run) == ["pick", "pack", "ship"]


def test_sequence_does_not_begin_what_follows_before_the_task_has_ended(stepwell: Stepwell) -> None:
    stepwell.mock("pack", raises=ValueError)
    run = stepwell.start("01-sequence")
    assert (run.status, set(run.steps)) == ("failed", {"pick", "pack"})


def test_parallel_split_runs_both_threads_at_once(stepwell: Stepwell) -> None:
    run = stepwell.start("02-parallel-split")
    assert [one["current_step"] for one in branches(stepwell, run)] == ["pack", "bill"]
    assert statuses(stepwell, run) == ["waiting", "waiting"]
    approve(run, 1, 0)
    assert run.status == "completed"


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize(("workflow", "two"), [("03-synchronization", (0, 1)), ("03-synchronization-steps", (1, 2))])
def test_synchronization_goes_on_once_when_both_have_come(
    stepwell: Stepwell, workflow: str, two: tuple[int, int], turn: int
) -> None:
    ship = stepwell.mock("ship")
    run = stepwell.start(workflow)
    first, second = two[::turn]
    fork = str(run.view["forked"]["id"])
    approve(run, first, fork=fork)
    assert (run.status, ship.calls) == ("waiting", [])
    approve(run, second, fork=fork)
    assert (run.status, len(ship.calls)) == ("completed", 1)


@pytest.mark.parametrize(("total", "way"), [(5000, "inspect"), (500, "sample"), (5, "ship")])
def test_exclusive_choice_takes_one_way(stepwell: Stepwell, total: int, way: str) -> None:
    run = stepwell.start("04-exclusive-choice", {"total": total})
    assert done(run) == ["order", way]


@pytest.mark.parametrize(("card", "way"), [(True, "card"), (False, "invoice")])
def test_simple_merge_goes_on_from_either_way(stepwell: Stepwell, card: bool, way: str) -> None:
    run = stepwell.start("05-simple-merge", {"card": card})
    assert done(run) == ["order", way, "ship"]


# -- 6 to 9, 29 to 37, 41, 42: branching and synchronization


@pytest.mark.parametrize("hurt", [False, True])
@pytest.mark.parametrize("fire", [False, True])
def test_multi_choice_takes_every_way_that_fits(stepwell: Stepwell, hurt: bool, fire: bool) -> None:
    run = stepwell.start("06-multi-choice", {"hurt": hurt, "fire": fire})
    assert run.status == "completed"
    called = ["police"] + ["ambulance"] * hurt + ["brigade"] * fire
    assert [list(branch["steps"]) for branch in branches(stepwell, run)] == [[name] for name in called]


@pytest.mark.parametrize(("hurt", "fire", "width"), [(False, False, 1), (False, True, 2), (True, True, 3)])
def test_structured_synchronizing_merge_waits_for_what_was_begun(
    stepwell: Stepwell, hurt: bool, fire: bool, width: int
) -> None:
    report = stepwell.mock("report")
    run = stepwell.start("07-structured-synchronizing-merge", {"hurt": hurt, "fire": fire})
    approve(run, *range(1, width))
    assert (run.status, report.calls) == ("waiting", [])
    approve(run, 0)
    assert (run.status, len(report.calls)) == ("completed", 1)


def test_multi_merge_runs_what_follows_for_each_thread_that_comes(stepwell: Stepwell) -> None:
    account = stepwell.mock("account")
    run = stepwell.start("08-multi-merge")
    approve(run, 1)
    assert (run.status, len(account.calls)) == ("waiting", 1)
    approve(run, 0)
    assert (run.status, len(account.calls)) == ("completed", 2)


@pytest.mark.parametrize(
    ("workflow", "items", "join", "come", "others"),
    [
        ("09-structured-discriminator", None, "triage", [1], "waiting"),
        ("29-cancelling-discriminator", None, "found", [1], "cancelled"),
        ("30-structured-partial-join", None, "sign", [2, 0], "waiting"),
        ("32-cancelling-partial-join", None, "sign", [2, 0], "cancelled"),
        ("34-static-partial-join-for-multiple-instances", [1, 2, 3, 4, 5], "compare", [4, 1, 3], "waiting"),
        ("35-cancelling-partial-join-for-multiple-instances", [1, 2, 3, 4, 5], "compare", [4, 1, 3], "cancelled"),
    ],
)
def test_discriminators_and_partial_joins_go_on_once_with_the_first_that_come(
    stepwell: Stepwell, workflow: str, items: Json, join: str, come: list[int], others: str
) -> None:
    joined = stepwell.mock(join)
    run = stepwell.start(workflow, items)
    width = len(branches(stepwell, run))
    approve(run, *come[:-1])
    assert (run.status, joined.calls) == ("waiting", [])
    approve(run, come[-1])
    assert statuses(stepwell, run) == ["completed" if index in come else others for index in range(width)]
    assert len(joined.calls) == 1


@pytest.mark.parametrize(
    ("workflow", "join", "come", "late"),
    [("09-structured-discriminator", "triage", [1], 0), ("30-structured-partial-join", "sign", [2, 0], 1)],
)
def test_the_branches_that_nobody_waits_for_run_to_their_ends_and_change_nothing(
    stepwell: Stepwell, workflow: str, join: str, come: list[int], late: int
) -> None:
    joined = stepwell.mock(join)
    run = stepwell.start(workflow)
    approve(run, *come, late)
    assert set(statuses(stepwell, run)) == {"completed"}
    assert (run.status, len(joined.calls)) == ("waiting", 1)


def test_acyclic_synchronizing_merge_waits_for_both_while_both_can_come(stepwell: Stepwell) -> None:
    pay = stepwell.mock("pay")
    run = stepwell.start("37-acyclic-synchronizing-merge")
    approve(run, 1)
    assert (run.status, pay.calls) == ("waiting", [])
    approve(run, 0)
    assert (run.status, len(pay.calls)) == ("completed", 1)
    assert {"car", "person"} <= set(run.state["came"])


def test_acyclic_synchronizing_merge_does_not_wait_for_a_branch_that_went_elsewhere(stepwell: Stepwell) -> None:
    pay, write_off = stepwell.mock("pay"), stepwell.mock("write_off")
    run = stepwell.start("37-acyclic-synchronizing-merge")
    approve(run, 1)
    run.reject("rust", wait="0/0.0")
    assert (run.status, len(pay.calls), len(write_off.calls)) == ("completed", 1, 1)
    assert "car" not in run.state["came"]


def test_thread_split_and_merge_make_three_threads_of_one_way_and_one_again(stepwell: Stepwell) -> None:
    stow, leave = stepwell.mock("stow"), stepwell.mock("leave")
    run = stepwell.start("41-thread-merge")
    assert statuses(stepwell, run) == ["waiting"] * 3
    approve(run, 2, 0)
    assert (run.status, len(stow.calls), leave.calls) == ("waiting", 2, [])
    approve(run, 1)
    assert (run.status, len(stow.calls), len(leave.calls)) == ("completed", 3, 1)


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
    assert statuses(stepwell, run, second) == ["waiting", "waiting"]
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
    (second,) = [child for branch in branches(stepwell, first) for child in branch["children"]]
    approve(first, 0)
    assert first.status != "completed"
    run_now(stepwell.service.approve(second["run_id"], wait="0/0.0"))
    assert first.status == "completed"


def test_explicit_termination_ends_the_run_at_its_end_node(stepwell: Stepwell) -> None:
    run = stepwell.start("43-explicit-termination")
    run.event("bid", {"buy_now": False})
    assert statuses(stepwell, run) == ["waiting", "waiting"]
    run.event("bid", {"buy_now": True})
    assert (run.status, statuses(stepwell, run)) == ("completed", ["completed", "cancelled"])
    late = stepwell.start("43-explicit-termination")
    stepwell.advance("1h")
    assert (late.status, statuses(stepwell, late)) == ("completed", ["cancelled", "completed"])


# -- 12 to 14, 26: multiple instances


def test_instances_without_synchronization_are_not_waited_for(stepwell: Stepwell) -> None:
    archive = stepwell.mock("archive")
    run = stepwell.start("12-multiple-instances-without-synchronization", ["ann", "ben", "cyd"])
    assert statuses(stepwell, run) == ["waiting", "waiting", "waiting", "completed"]
    assert len(archive.calls) == 1
    approve(run, 2, 0, 1)
    assert (run.status, len(archive.calls)) == ("completed", 1)


def test_instances_by_the_definition_are_so_many_and_all_waited_for(stepwell: Stepwell) -> None:
    file = stepwell.mock("file")
    run = stepwell.start("13-multiple-instances-design-time")
    assert [branch["item"] for branch in branches(stepwell, run)] == ["author", "auditor", "head"]
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
    assert (statuses(stepwell, run), over.calls) == (["running", "waiting"], [])
    run.event("enough")
    assert statuses(stepwell, run, "0/0.0/0") == ["cancelled", "completed", "cancelled"]
    assert (run.status, len(over.calls)) == ("completed", 1)


# -- 16, 18, 40: by the state


@pytest.mark.parametrize(("comes", "way"), [("paid", "ship"), ("voided", "close"), ("", "remind")])
def test_deferred_choice_is_made_by_what_comes_first(stepwell: Stepwell, comes: str, way: str) -> None:
    run = stepwell.start("16-deferred-choice")
    assert run.status == "waiting"
    if comes:
        run.event(comes)
    else:
        stepwell.advance("24h")
    assert run.view["current_steps"] == [way]
    for late in ("paid", "voided"):
        run.event(late)
    assert run.view["current_steps"] == [way]


def test_milestone_lets_a_task_run_only_while_it_holds(stepwell: Stepwell) -> None:
    reseat = stepwell.mock("reseat")
    run = stepwell.start("18-milestone")
    run.event("change_seat")
    run.event("change_seat")
    assert (run.view["current_steps"], len(reseat.calls)) == (["booked"], 2)
    run.event("boarded")
    run.event("change_seat")
    assert (run.view["current_steps"], len(reseat.calls)) == (["fly"], 2)


def test_interleaved_routing_runs_each_task_once_and_one_at_a_time(stepwell: Stepwell) -> None:
    discharge = stepwell.mock("discharge")
    tests = ["xray", "blood", "eyes"]
    run = stepwell.start("40-interleaved-routing", tests)
    for index, test in enumerate(tests):
        waiting = [one["current_step"] for one in branches(stepwell, run) if one["status"] == "waiting"]
        assert (waiting, discharge.calls) == ([test], [])
        approve(run, index)
    assert (run.status, len(discharge.calls)) == ("completed", 1)


# -- 17, 39: locks


def test_interleaved_tasks_are_done_one_at_a_time_after_those_before_them(stepwell: Stepwell) -> None:
    run = stepwell.start("17-interleaved-parallel-routing")
    order = []
    for _ in range(3):
        found = branches(stepwell, run)
        (task,) = [str(one["current_step"]) for one in found if one["waiting_for"] == "approval"]
        run.approve(wait=task)
        order.append(task)
    assert (run.status, sorted(order)) == ("completed", ["grind", "wash", "weigh"])
    assert order.index("weigh") < order.index("wash")


def test_a_critical_section_is_entered_by_one_thread_at_a_time(stepwell: Stepwell) -> None:
    first, other = stepwell.start("39-critical-section"), stepwell.start("39-critical-section")
    for _ in range(4):
        stepwell.settle()
        (section,) = [one for one in stepwell.runs("39-the-section") if one.status == "waiting"]
        section.approve()
        assert section.view["current_steps"] == ["stamp"]
        section.approve()
    assert (first.status, other.status) == ("completed", "completed")
    assert len(stepwell.runs("39-the-section")) == 4


# -- 19, 20, 23 to 25: cancelling and triggers


def test_a_cancelled_task_is_withdrawn_and_the_thread_goes_on(stepwell: Stepwell) -> None:
    pay = stepwell.mock("pay")
    run = stepwell.start("19-cancel-task")
    run.event("withdrawn")
    with pytest.raises(Conflict):
        run.approve(wait="assess")
    assert (run.view["current_steps"], pay.calls) == (["close"], [])


def test_a_task_that_ended_first_is_not_cancelled(stepwell: Stepwell) -> None:
    run = stepwell.start("19-cancel-task")
    run.approve()
    assert (run.status, done(run)) == ("completed", ["assess", "pay"])


def test_a_cancelled_case_ends_in_all_of_its_branches(stepwell: Stepwell) -> None:
    lend = stepwell.mock("lend")
    run = stepwell.start("20-cancel-case")
    approve(run, 0, fork="0/0.1/0")
    assert run.cancel("found a better bank", by="ann")
    assert run.status == "cancelled"
    assert statuses(stepwell, run) == ["cancelled", "cancelled"]
    assert statuses(stepwell, run, "0/0.1/0") == ["completed", "cancelled"]
    for wait in ("0/0.0", "0/0.1/0.1"):
        with pytest.raises(Conflict):
            run.approve(wait=wait)
    assert lend.calls == []


@pytest.mark.parametrize("reviewed", [False, True])
def test_a_cancelled_region_ends_wherever_it_stands_and_nothing_outside_it(stepwell: Stepwell, reviewed: bool) -> None:
    run = stepwell.start("25-cancel-region")
    if reviewed:
        approve(run, 0, fork="0/0.0/0")
    run.event("withdrawn")
    assert statuses(stepwell, run, "0/0.0/0") == ["cancelled", "completed"]
    assert statuses(stepwell, run) == ["completed", "waiting"]
    approve(run, 1)
    assert run.status == "completed"
    assert set(run.state["close"]["left"]) == {"withdrawn"}


def test_a_region_that_is_left_can_be_cancelled_no_more(stepwell: Stepwell) -> None:
    run = stepwell.start("25-cancel-region")
    approve(run, 0, 0, fork="0/0.0/0")
    assert statuses(stepwell, run, "0/0.0/0") == ["completed", "cancelled"]
    run.event("withdrawn")
    approve(run, 1)
    assert "withdrawn" not in run.state["close"]["left"]
    assert {"draft", "review"} <= set(run.state["close"]["left"])


def test_a_transient_trigger_is_lost_when_nobody_waits_for_it(stepwell: Stepwell) -> None:
    run = stepwell.start("23-transient-trigger")
    with pytest.raises(Conflict):
        run.approve()
    stepwell.advance("1h")
    assert run.waiting_for == "approval"
    run.approve()
    assert done(run)[-1] == "turn"


def test_a_persistent_trigger_is_kept_until_somebody_waits_for_it(stepwell: Stepwell) -> None:
    run = stepwell.start("24-persistent-trigger")
    run.event("go")
    assert run.phase == "sleeping"
    stepwell.advance("1h")
    assert (run.status, done(run)[-1]) == ("completed", "turn")


def test_every_pattern_here_has_a_test() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    names = [file.stem for file in Path(__file__).parent.glob("[0-9]*.yaml")]
    assert names
    assert [name for name in names if f'"{name}"' not in source] == []
