"""Whoever redrives a run may die at any call: the run that goes on is made once, and moves only when it is whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stepwell.errors import EngineFault, PortError
from stepwell.runtime.loop.driving import run_now
from tests.lifecycle.test_redrive import FLOW, FORKED, ran, redriven, world_of
from tests.runtime.kit import World


class Killer:
    """A store whose n-th call of all does not answer: before it happened, or after."""

    def __init__(self, world: World, at: int, done: bool) -> None:
        self._at, self._done, self._calls, self.has_killed = at, done, 0, False
        self._inner: Any = world.store.inner
        world.store.inner = self

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._inner, name)

        async def call(*args: Any, **named: Any) -> Any:
            self._calls += 1
            dies = self._calls == self._at
            self.has_killed |= dies
            if dies and not self._done:
                raise PortError("away")
            made = await method(*args, **named)
            if dies:
                raise PortError("no answer")
            return made

        return call


def worlds_killed(done: bool, definition: str) -> Iterator[tuple[World, str]]:
    """A world for each call that a redrive makes, in which that call kills the caller."""
    at, is_killed = 1, True
    while is_killed:
        world, run_id = world_of(definition)
        killer = Killer(world, at, done)
        try:
            redriven(world, run_id)
        except PortError:
            assert killer.has_killed
        is_killed = killer.has_killed
        if is_killed:
            yield world, run_id
        at += 1
    assert at > 8


@pytest.mark.parametrize("definition", [FLOW, FORKED], ids=["a timeline", "kept branches"])
@pytest.mark.parametrize("done", [False, True], ids=["before it", "after it"])
def test_a_caller_that_dies_at_any_call_and_asks_again_has_one_run_that_goes_on(done: bool, definition: str) -> None:
    for world, run_id in worlds_killed(done, definition):
        world.pass_time(60_000)  # whoever the dead one woke goes first
        again = redriven(world, run_id)
        world.pass_time(600_000)
        assert world.header(again).status == "completed"
        assert set(ran(world, again)) <= {"ship", "tell"}
        assert Counter(ran(world, again)).most_common(1)[0][1] == 1


@pytest.mark.parametrize("done", [False, True], ids=["before it", "after it"])
def test_a_run_that_was_not_made_whole_is_moved_and_shown_by_nobody(done: bool) -> None:
    """The sweeper wakes what stands still: until REDRIVEN is written there is nothing to wake."""
    for world, run_id in worlds_killed(done, FLOW):
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
