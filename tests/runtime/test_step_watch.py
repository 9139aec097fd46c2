"""The watch over steps sleeps until one takes long, and nobody waits for that one a second time. In virtual time."""

from __future__ import annotations

import queue
import threading
from types import SimpleNamespace

import pytest

from stepwell.runtime.steps import threads
from stepwell.runtime.steps.threads import LINGER_SECONDS, Attempt, Watch

LIMIT_SECONDS = 60.0
LOOK_SECONDS = 0.2


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds


class Idle:
    """A thread that never runs: the test looks in its place."""

    def __init__(self, **_: object) -> None:
        self.start, self.is_alive = lambda: None, lambda: True


@pytest.fixture(autouse=True)
def nobody_else_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "threading", SimpleNamespace(Event=Wake, Lock=threading.Lock, Thread=Idle))
    Wake.woken = 0


class Wake(threading.Event):
    woken = 0

    def set(self) -> None:
        Wake.woken += 1


def linger(watch: Watch, clock: Clock) -> None:
    """The first look after a step has begun."""
    assert watch.look() == LINGER_SECONDS
    clock.seconds += LINGER_SECONDS


def attempt(clock: Clock, look_seconds: float = LOOK_SECONDS) -> Attempt:
    return Attempt(lambda: None, LIMIT_SECONDS, lambda made: made, look_seconds, clock.now)


def test_the_watch_over_a_long_step_of_a_shared_message_sleeps_until_it_is_due() -> None:
    """Three looks for a step that takes an hour: two to see when it is due, one that moves the rest of its message."""
    clock = Clock()
    watch, moved = Watch(clock.now), list[float]()
    watch.add(attempt(clock), lambda: moved.append(clock.seconds))
    slept: list[float] = []
    while (seconds := watch.look()) is not None:
        slept.append(seconds)
        clock.seconds += seconds
    assert slept == [LINGER_SECONDS, LOOK_SECONDS - LINGER_SECONDS]
    assert moved == [LOOK_SECONDS]


def test_the_watch_sleeps_until_the_limit_of_a_step_that_shares_its_message_with_nobody() -> None:
    clock = Clock()
    watch = Watch(clock.now)
    watch.add(attempt(clock, LIMIT_SECONDS), lambda: None)
    linger(watch, clock)
    assert watch.look() == LIMIT_SECONDS - LINGER_SECONDS


def test_the_watch_sleeps_until_the_first_that_is_due() -> None:
    clock = Clock()
    watch, moved = Watch(clock.now), list[str]()
    watch.add(attempt(clock, LIMIT_SECONDS), lambda: moved.append("alone"))
    watch.add(attempt(clock), lambda: moved.append("shared"))
    linger(watch, clock)
    assert watch.look() == LOOK_SECONDS - LINGER_SECONDS
    clock.seconds = LOOK_SECONDS
    assert watch.look() == LIMIT_SECONDS - LOOK_SECONDS
    assert moved == ["shared"]


def test_a_step_that_has_ended_is_looked_after_no_more() -> None:
    clock = Clock()
    watch = Watch(clock.now)
    ended = attempt(clock)
    watch.add(ended, lambda: pytest.fail("it has ended"))
    watch.remove(ended)
    linger(watch, clock)
    clock.seconds = LOOK_SECONDS
    assert watch.look() is None


def test_short_steps_that_follow_each_other_wake_the_watch_once() -> None:
    """Waking a thread takes longer than such a step."""
    clock = Clock()
    watch, looks_at = Watch(clock.now), 0.0
    for number in range(1_000):
        clock.seconds = number / 10_000
        short = attempt(clock)
        watch.add(short, lambda: pytest.fail("it is short"))
        if clock.seconds >= looks_at:
            looks_at = clock.seconds + (watch.look() or 0)
        watch.remove(short)
    assert Wake.woken == 1


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
