"""The workflow control-flow patterns, held to what their definitions ask for, in virtual time: how ways split and join.

`test_cycles.py` has those that go round, end, or begin many instances. `test_cancels.py` has those about the state,
locks and cancels.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.definition.graph import Json
from stepwell.testing.kit import Run, Stepwell


def statuses(run: Run, fork: str = "0/0") -> list[str]:
    """Of the branches of a fork, which is named by its token and the slot where it opened."""
    return [branch["status"] for branch in run.branches(fork)]


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
    assert [one["current_step"] for one in run.branches("0/0")] == ["pack", "bill"]
    assert statuses(run) == ["waiting", "waiting"]
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
    assert [list(branch["steps"]) for branch in run.branches("0/0")] == [[name] for name in called]


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
    width = len(run.branches("0/0"))
    approve(run, *come[:-1])
    assert (run.status, joined.calls) == ("waiting", [])
    approve(run, come[-1])
    assert statuses(run) == ["completed" if index in come else others for index in range(width)]
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
    assert set(statuses(run)) == {"completed"}
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
    assert statuses(run) == ["waiting"] * 3
    approve(run, 2, 0)
    assert (run.status, len(stow.calls), leave.calls) == ("waiting", 2, [])
    approve(run, 1)
    assert (run.status, len(stow.calls), len(leave.calls)) == ("completed", 3, 1)


# -- all of them


def test_every_pattern_here_has_a_test() -> None:
    folder = Path(__file__).parent
    sources = "".join(file.read_text(encoding="utf-8") for file in folder.glob("test_*.py"))
    names = [file.stem for file in folder.glob("[0-9]*.yaml")]
    assert names
    assert [name for name in names if f'"{name}"' not in sources] == []
