"""Steps run in the thread that handles their message. Where one takes long, the rest goes on in another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar

import pytest

from stepwell.runtime.loop.driving import run_apart, run_now
from stepwell.runtime.steps.threads import Answered, AttemptTimeoutError, StepThreads, take

pytestmark = pytest.mark.usefixtures("no_collection")

LONG_SECONDS = 60.0
ABOUT: ContextVar[str] = ContextVar("ABOUT", default="nothing")


async def attempt(function: Callable[[], object], limit_seconds: float, look_seconds: float = LONG_SECONDS) -> Answered:
    begun = await StepThreads().begun(function, limit_seconds, lambda made: made, look_seconds)
    return begun.result()


def test_steps_run_in_the_thread_of_their_message() -> None:
    async def message() -> list[object]:
        steps = [await attempt(threading.get_ident, LONG_SECONDS) for _ in range(3)]
        return [threading.get_ident(), *(made for made, _ in steps)]

    assert len(set(run_apart(message()))) == 1


def test_a_step_that_takes_long_keeps_the_thread_and_the_rest_moves() -> None:
    released = threading.Event()

    def step() -> int:
        assert released.wait(LONG_SECONDS)
        return threading.get_ident()

    async def message() -> tuple[int, int, object]:
        before = threading.get_ident()
        begun = await StepThreads().begun(step, LONG_SECONDS, lambda made: made, 0.01)
        after = threading.get_ident()
        released.set()
        return before, after, begun.result()[0]

    before, after, ran = run_apart(message())
    assert before == ran != after


def test_a_step_out_of_time_is_left_behind_with_its_thread() -> None:
    released = threading.Event()

    async def message() -> tuple[Answered, Answered]:
        late = await attempt(lambda: released.wait(LONG_SECONDS), 0.02)
        return late, await attempt(threading.get_ident, LONG_SECONDS)

    (_, error), (made, _) = run_apart(message())
    released.set()
    assert isinstance(error, AttemptTimeoutError)
    assert made is not None


def test_the_thread_of_a_step_that_ends_as_its_time_is_up_ends_too() -> None:
    thread = take()
    thread.interrupt()
    thread.join(LONG_SECONDS)
    assert not thread.is_alive()


def test_what_a_message_is_about_moves_with_it() -> None:
    released = threading.Event()

    async def message() -> str:
        ABOUT.set("this run")
        await attempt(lambda: released.wait(LONG_SECONDS), 0.02)
        return ABOUT.get()

    about = run_apart(message())
    released.set()
    assert about == "this run"


def test_a_step_that_drives_something_itself_has_its_steps_in_threads_of_their_own() -> None:
    async def inner() -> object:
        return (await attempt(threading.get_ident, LONG_SECONDS))[0]

    async def message() -> tuple[object, object]:
        made, error = await attempt(lambda: (threading.get_ident(), run_now(inner())), LONG_SECONDS)
        assert error is None
        assert isinstance(made, tuple)
        return made

    own, inners = run_apart(message())
    assert own != inners


def test_what_a_message_raises_comes_to_its_caller() -> None:
    async def message() -> None:
        await attempt(int, LONG_SECONDS)
        raise KeyError("x")

    with pytest.raises(KeyError):
        run_apart(message())
