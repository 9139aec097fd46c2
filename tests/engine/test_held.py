"""A pause holds what goes on, and not what ends: a rollback, a clean-up and an end go on in a paused run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepwell.engine.holding import can_be_held, is_held
from stepwell.engine.records import End, Status
from stepwell.engine.table import Phase
from stepwell.engine.token import Cleaning, Token, Undoing
from tests.engine.kit import Play, graph_of

RUN = Play(graph_of("workflow: flow\ntimeline: [{name: a, run: python:m.a}]\n")).run
GOES_ON = Token(phase=Phase.EXECUTING_STEP, node="a")
ENDS = {
    "undone": replace(GOES_ON, phase=Phase.COMPENSATING, undoing=Undoing(Status.FAILED)),
    "cleans up": replace(GOES_ON, cleaning=Cleaning(Status.CANCELLED, 7)),
    "ended": replace(GOES_ON, phase=Phase.COMPLETED, end=End(Status.COMPLETED)),
}


def test_a_pause_holds_a_token_that_goes_on() -> None:
    assert is_held(replace(RUN, is_paused=True), GOES_ON)
    assert not is_held(RUN, GOES_ON)


@pytest.mark.parametrize("token", ENDS.values(), ids=ENDS)
def test_a_pause_does_not_hold_what_ends(token: Token) -> None:
    assert not can_be_held(token)
    assert not is_held(replace(RUN, is_paused=True), token)
