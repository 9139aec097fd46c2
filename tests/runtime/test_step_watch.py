"""The watch over steps sleeps until one takes long, and nobody waits for that one a second time. In virtual time."""

from __future__ import annotations

import queue
from types import SimpleNamespace

import pytest

from stepwell.runtime.steps import threads
from stepwell.runtime.steps.threads import Attempt, Watch

LIMIT_SECONDS = 60.0
LOOK_SECONDS = 0.2


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds


def attempt(clock: Clock, look_seconds: float = LOOK_SECONDS) -> Attempt:
    return Attempt(lambda: None, LIMIT_SECONDS, lambda made: made, look_seconds, clock.now)


def test_the_watch_over_a_long_step_of_a_shared_message_sleeps_until_it_is_due() -> None:
    """Two looks for a step that takes an hour: one to see when it is due, one that moves the rest of its message."""
    clock = Clock()
    watch, moved = Watch(clock.now), list[float]()
    watch.add(attempt(clock), lambda: moved.append(clock.seconds))
    slept: list[float] = []
    while (seconds := watch.look()) is not None:
        slept.append(seconds)
        clock.seconds += seconds
    assert slept == moved == [LOOK_SECONDS]


def test_the_watch_sleeps_until_the_limit_of_a_step_that_shares_its_message_with_nobody() -> None:
    clock = Clock()
    watch = Watch(clock.now)
    watch.add(attempt(clock, LIMIT_SECONDS), lambda: None)
    assert watch.look() == LIMIT_SECONDS


def test_the_watch_sleeps_until_the_first_that_is_due() -> None:
    clock = Clock()
    watch, moved = Watch(clock.now), list[str]()
    watch.add(attempt(clock, LIMIT_SECONDS), lambda: moved.append("alone"))
    watch.add(attempt(clock), lambda: moved.append("shared"))
    assert watch.look() == LOOK_SECONDS
    clock.seconds = LOOK_SECONDS
    assert watch.look() == LIMIT_SECONDS - LOOK_SECONDS
    assert moved == ["shared"]


def test_a_step_that_has_ended_is_looked_after_no_more() -> None:
    clock = Clock()
    watch = Watch(clock.now)
    ended = attempt(clock)
    watch.add(ended, lambda: pytest.fail("it has ended"))
    watch.remove(ended)
    clock.seconds = LOOK_SECONDS
    assert watch.look() is None


def test_the_others_wait_for_a_step_from_its_beginning_and_not_from_the_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the look their thread was the step's own; then they must not wait as long again."""
    clock = Clock()

    class Answers:
        def get_nowait(self) -> None:
            raise queue.Empty

        def get(self, timeout: float) -> None:
            clock.seconds += timeout
            raise queue.Empty

    monkeypatch.setattr(threads, "queue", SimpleNamespace(SimpleQueue=Answers, Empty=queue.Empty))
    late = attempt(clock)
    clock.seconds = LOOK_SECONDS
    assert not late.ends_within(LOOK_SECONDS)
    assert clock.seconds == LOOK_SECONDS
    late.result()
    assert clock.seconds == LIMIT_SECONDS
