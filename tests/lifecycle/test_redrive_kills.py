"""Whoever redrives a run may die at any call: the run that goes on is made once, and moves only when it is whole."""

from __future__ import annotations

from collections import Counter

import pytest

from stepwell.errors import EngineFault
from stepwell.runtime.loop.driving import run_now
from tests.lifecycle.kills import killed
from tests.lifecycle.test_redrive import FLOW, FORKED, ran, redriven, world_of


@pytest.mark.parametrize("definition", [FLOW, FORKED], ids=["a timeline", "kept branches"])
@pytest.mark.parametrize("done", [False, True], ids=["before it", "after it"])
def test_a_caller_that_dies_at_any_call_and_asks_again_has_one_run_that_goes_on(done: bool, definition: str) -> None:
    for world, run_id in killed(lambda: world_of(definition), redriven, done=done, least=8):
        world.pass_time(60_000)  # whoever the dead one woke goes first
        again = redriven(world, run_id)
        world.pass_time(600_000)
        assert world.header(again).status == "completed"
        assert set(ran(world, again)) <= {"ship", "tell"}
        assert Counter(ran(world, again)).most_common(1)[0][1] == 1


@pytest.mark.parametrize("done", [False, True], ids=["before it", "after it"])
def test_a_run_that_was_not_made_whole_is_moved_and_shown_by_nobody(done: bool) -> None:
    """The sweeper wakes what stands still: until REDRIVEN is written there is nothing to wake."""
    for world, run_id in killed(lambda: world_of(FLOW), redriven, done=done, least=8):
        world.lose_messages()
        world.pass_time(3_600_000)
        run_now(world.sweeper.sweep(0))
        world.pass_time(600_000)
        made = [call for call in world.steps.calls if call.run_id != run_id]
        assert [call.node for call in made] in ([], ["ship", "tell"])


def test_a_run_that_is_moved_before_it_is_whole_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant of the test above."""
    monkeypatch.setattr("stepwell.runtime.log.standing.Standing.is_whole", True)
    with pytest.raises((AssertionError, EngineFault)):
        test_a_run_that_was_not_made_whole_is_moved_and_shown_by_nobody(done=True)
