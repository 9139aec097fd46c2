"""Of the messages of one process one computes, and lets another do so while it waits for something."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from stepwell.runtime.executor import FunctionSteps
from stepwell.runtime.loop.driving import run_apart
from stepwell.runtime.steps.batons import Baton, away, compute_with
from stepwell.runtime.steps.port import StepCall
from stepwell.runtime.steps.threads import StepThreads
from stepwell.runtime.stores.clocks import RealClock

LONG_SECONDS = 60.0
GATED = f"""
import threading

GATE = threading.Event()

def gated():
    return GATE.wait({LONG_SECONDS} / 2)
"""


def begin(message: Callable[[], Coroutine[Any, Any, None]], free: threading.Lock) -> threading.Thread:
    thread = threading.Thread(target=lambda: run_apart(message(), free), daemon=True)
    thread.start()
    return thread


def test_a_message_waits_until_another_has_computed() -> None:
    free, order = threading.Lock(), list[str]()
    first = Baton(free)
    first.take()

    async def message() -> None:
        order.append("second")

    second = begin(message, free)
    second.join(0.05)
    order.append("first")
    first.give_up()
    second.join(LONG_SECONDS)
    assert order == ["first", "second"]


def test_who_waits_for_the_disk_lets_another_compute() -> None:
    free, other_has_computed = threading.Lock(), threading.Event()
    compute_with(Baton(free))
    try:

        async def message() -> None:
            other_has_computed.set()

        with away():
            begin(message, free)
            assert other_has_computed.wait(LONG_SECONDS)
    finally:
        compute_with(None)


def test_a_step_that_takes_long_holds_up_other_messages_once_and_not_again() -> None:
    free, threads, released = threading.Lock(), StepThreads(), threading.Event()
    begun = threading.Semaphore(0)

    def step() -> None:
        begun.release()
        assert released.wait(LONG_SECONDS)

    async def message() -> None:
        (await threads.begun(step, LONG_SECONDS, lambda made: made, LONG_SECONDS, "slow")).result()

    messages = [begin(message, free) for _ in range(3)]
    assert all(begun.acquire(timeout=LONG_SECONDS) for _ in messages)
    assert "slow" in threads.long
    released.set()
    for one in messages:
        one.join(LONG_SECONDS)

    async def short() -> None:
        (await threads.begun(int, LONG_SECONDS, lambda made: made, LONG_SECONDS, "slow")).result()

    run_apart(short(), free)
    assert not threads.long


def test_nobody_who_shares_a_message_waits_for_a_step_that_took_long_when_it_last_ran(tmp_path: Path) -> None:
    """The step ends because the others were let begin, long before they would be let begin anyway."""
    (tmp_path / "m.py").write_text(GATED)
    steps, let_begin = FunctionSteps(tmp_path, RealClock()), list[str]()
    steps._threads.long.add("python:m.gated")

    async def message() -> None:
        async def late() -> None:
            let_begin.append("the others")
            sys.modules["m"].GATE.set()

        long_ms = int(LONG_SECONDS * 1_000)
        call = StepCall("python:m.gated", None, "r1", "w", "0", "n", 1, "k", 2 * long_ms, None, dict,
                        late_ms=long_ms, is_shared=True, late=late)  # fmt: skip
        outcome = await steps.run(call)
        assert outcome.value is True

    run_apart(message(), threading.Lock())
    assert let_begin


def test_a_baton_that_another_thread_gave_up_is_not_taken_again() -> None:
    free = threading.Lock()
    baton = Baton(free)
    baton.take()
    with baton:
        baton.give_up()
    assert not free.locked()
    baton.take()
    assert not free.locked()
