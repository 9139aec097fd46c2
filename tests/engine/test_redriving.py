"""Redriving: where the log of a failed run can go on, and where it cannot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stepwell.engine.records import End, Failure, Fork, Goto, Group, Kind, Record, Status, Tally
from stepwell.engine.redriving import _failed_operation, check_start, kept_of
from stepwell.engine.table import Phase
from stepwell.engine.token import Begun, Locks, Token
from stepwell.errors import Conflict
from tests.engine.kit import NOW_MS


@pytest.mark.parametrize("phase", [Phase.INITIALIZING, Phase.EXECUTING_STEP])
def test_a_run_goes_on_where_nothing_else_was_under_way(phase: Phase) -> None:
    check_start(Token(phase=phase))


@pytest.mark.parametrize(
    ("token", "code"),
    [
        (Token(phase=Phase.WAITING_AT_FAN_IN), "failed_in_fork"),
        (Token(phase=Phase.EXECUTING_STEP, tasks={3: Begun("w", 0, open=(0,))}), "failed_in_fork"),
        (Token(phase=Phase.EXECUTING_STEP, locks=Locks(("till",), 0, held=True)), "held_lock"),
    ],
)
def test_a_run_does_not_go_on_amid_what_cannot_be_had_again(token: Token, code: str) -> None:
    with pytest.raises(Conflict) as refused:
        check_start(token)
    assert refused.value.code == code


BROKEN = Failure("Broken", "step", "no luck")


def done(slot: int, node: str, **parts: Any) -> Record:
    return Record(slot, Kind.STEP, "w", NOW_MS, node, attempt=1, **parts)


def test_a_run_that_failed_between_two_steps_goes_on_from_a_step_that_is_named() -> None:
    """No visit of a node would repeat what failed: the rules that lead from one to the next."""
    records = [done(0, "a", next=Goto("b")), done(1, "b", next=End(Status.FAILED, BROKEN))]
    with pytest.raises(Conflict) as refused:
        kept_of("r1", records)
    assert refused.value.code == "failed_between"
    assert [one.node for one in kept_of("r1", records, "b").records] == ["a"]


def test_an_operation_of_an_earlier_life_is_not_the_one_that_failed() -> None:
    """A function that began anew, and whose own code then raises what an operation had failed with before."""
    failed = done(0, "a", error=BROKEN, next=Goto(""))
    again = Record(1, Kind.RETURNED, "w", NOW_MS, next=Goto("flow"))
    over = Record(2, Kind.RETURNED, "w", NOW_MS, error=BROKEN, next=End(Status.FAILED, BROKEN))
    found = _failed_operation([failed, replace(over, slot=1)])
    assert found is not None
    assert (found.name, found.slot) == ("a", 0)
    assert _failed_operation([failed, again, over]) is None


@pytest.mark.parametrize(("bounds", "by_arrival"), [((0, 0), False), ((0, 2), True), ((2, 2), True)])
def test_a_fork_that_goes_on_keeps_the_order_of_arrival_if_any_of_its_rules_is_bounded(
    bounds: tuple[int, int], by_arrival: bool
) -> None:
    """The first to end lets the next one begin, and some have ended in the run before."""
    groups = tuple(Group(f"rule{number}", "work", 2, bound) for number, bound in enumerate(bounds))
    failed = Record(
        1, Kind.JOINED, "w", NOW_MS, "meet", error=BROKEN, tally=Tally(4, 1), next=End(Status.FAILED, BROKEN)
    )
    kept = kept_of("r1", [done(0, "a", next=Fork(groups, "meet")), failed])
    assert kept.reopens is not None
    assert kept.reopens.by_arrival is by_arrival
