"""Patterns about the state, locks and cancels, held to what their definitions ask for, in virtual time."""

from __future__ import annotations

import pytest

from examples.patterns.test_patterns import approve, done, statuses
from stepwell.errors import Conflict
from stepwell.testing.kit import Stepwell

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
        waiting = [one["current_step"] for one in run.branches("0/0") if one["status"] == "waiting"]
        assert (waiting, discharge.calls) == ([test], [])
        approve(run, index)
    assert (run.status, len(discharge.calls)) == ("completed", 1)


# -- 17, 39: locks


def test_interleaved_tasks_are_done_one_at_a_time_after_those_before_them(stepwell: Stepwell) -> None:
    run = stepwell.start("17-interleaved-parallel-routing")
    order = []
    for _ in range(3):
        found = run.branches("0/0")
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
    assert statuses(run) == ["cancelled", "cancelled"]
    assert statuses(run, "0/0.1/0") == ["completed", "cancelled"]
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
    assert statuses(run, "0/0.0/0") == ["cancelled", "completed"]
    assert statuses(run) == ["completed", "waiting"]
    approve(run, 1)
    assert run.status == "completed"
    assert set(run.state["close"]["left"]) == {"withdrawn"}


def test_a_region_that_is_left_can_be_cancelled_no_more(stepwell: Stepwell) -> None:
    run = stepwell.start("25-cancel-region")
    approve(run, 0, 0, fork="0/0.0/0")
    assert statuses(run, "0/0.0/0") == ["completed", "cancelled"]
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
