"""A waiting function that gets an update, and the slot that a function has entered when it waits for code."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepwell.engine.actions import Drop, Write
from stepwell.engine.decide import decide
from stepwell.engine.fold import apply
from stepwell.engine.inputs import UpdateAsked
from stepwell.engine.records import Arm, Kind, Parked, Record, Resumption, Status
from stepwell.engine.table import Phase
from stepwell.engine.token import Cleaning, Token
from tests.engine.kit import NOW_MS, Play, graph_of

MOMENT = Play(graph_of("workflow: flow\ntimeline: [{name: a, run: python:m.a}]\n")).moment
WAITS = Token(
    phase=Phase.WAITING_FOR_EVENT, node="event", parked=Parked("event", (Arm("event"),), of_function=True), slot=3
)
ASKED = UpdateAsked(Resumption("update", name="add", event_id="u1"))


def test_a_function_that_waits_takes_an_update() -> None:
    assert isinstance(decide(MOMENT, WAITS, ASKED), Write)


@pytest.mark.parametrize(
    "token",
    [
        replace(WAITS, cleaning=Cleaning(Status.CANCELLED, NOW_MS + 7)),
        replace(WAITS, resumption=Resumption("event")),
        replace(WAITS, parked=Parked("event", (Arm("event"),))),
    ],
    ids=["cleans up", "its wait is over", "a step's wait"],
)
def test_nobody_else_does(token: Token) -> None:
    assert decide(MOMENT, token, ASKED) == Drop()


def test_a_function_that_waits_for_code_before_its_next_step_has_not_entered_that_step() -> None:
    """The step's idempotency key is made of the slot in which it is entered, whatever it waited for before."""
    over = replace(
        WAITS, phase=Phase.EXECUTING_STEP, entered_slot=1, visits={"event": 1}, resumption=Resumption("event")
    )
    aside = Record(4, Kind.WAITING, "w", NOW_MS, "a", parked=Parked("code", (Arm("event"),)))
    after = apply(over, aside)
    assert (after.node, after.entered_slot, after.visits) == ("event", 1, {"event": 1})
