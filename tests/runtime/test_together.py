"""The same with many things at once: each is done once, and one that fails lets no other begin."""

from __future__ import annotations

import threading
from contextvars import ContextVar

import pytest

from stepwell.errors import PortError
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.loop.together import STRETCH, for_all
from stepwell.runtime.steps.batons import Baton, compute_with


@pytest.mark.parametrize("at_once", [1, 2, 7, 100])
@pytest.mark.parametrize("count", [0, 1, STRETCH, 3 * STRETCH + 1, 101])
def test_each_thing_is_done_once(at_once: int, count: int) -> None:
    done = list[int]()

    async def do(thing: int) -> None:
        done.append(thing)

    run_now(for_all(range(count), do, at_once))
    assert sorted(done) == list(range(count))


def test_each_thread_has_a_stretch_of_its_own_and_sees_the_caller_s_context() -> None:
    """Things that are side by side are in one partition: all threads in one of them would be throttled there."""
    asked, held = ContextVar("asked", default=""), threading.Barrier(4, timeout=10)
    asked.set("ana")
    first = dict[str, int]()

    async def do(thing: int) -> None:
        assert asked.get() == "ana"
        if threading.current_thread().name not in first:
            first[threading.current_thread().name] = thing
            held.wait()

    run_now(for_all(range(100), do, 4))
    assert sorted(first.values()) == [0, 25, 50, 75]


@pytest.mark.parametrize("at_once", [1, 8])
def test_few_things_are_done_one_after_the_other_in_this_thread(at_once: int) -> None:
    here = threading.current_thread()

    async def do(_: int) -> None:
        assert threading.current_thread() is here

    run_now(for_all(range(100 if at_once == 1 else 2 * STRETCH - 1), do, at_once))


@pytest.mark.parametrize("at_once", [1, 4])
def test_what_one_raises_is_raised_and_the_others_do_not_go_on(at_once: int) -> None:
    done, failed = list[int](), threading.Event()

    async def do(thing: int) -> None:
        if thing == 0:
            failed.set()
            raise PortError("away")
        failed.wait(10)
        done.append(thing)

    with pytest.raises(PortError, match="away"):
        run_now(for_all(range(10_000), do, at_once))
    assert len(done) < 5_000


def test_another_message_is_computed_meanwhile() -> None:
    free = threading.Lock()

    async def do(_: int) -> None:
        with free:
            pass

    compute_with(Baton(free))
    try:
        run_now(for_all(range(100), do, 4))
        assert free.locked()
    finally:
        free.release()
        compute_with(None)
