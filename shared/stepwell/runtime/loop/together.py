"""Does the same with many things at once, in threads, where the ports are slow.

    thread 1   things 0 to 99      thread 2   things 100 to 199      …

Each thread has a stretch of its own: things that are side by side often lie in one partition of the store, which takes
only so many writes a second.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextvars import copy_context
from threading import Event
from typing import Any, TypeVar

from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.steps.batons import away

T = TypeVar("T")
STRETCH = 8  # writes that are worth a thread


async def for_all(
    things: Sequence[T], work: Callable[[T], Coroutine[Any, Any, None]], at_once: int, stretch: int = STRETCH
) -> None:
    """Does the work for each thing, in no order that counts. Raises what one raises, and then begins no other.

    `at_once`: the most threads; 1: each thing after the one before it, in this thread. `stretch`: how many things are
    worth a thread.
    """
    count = min(at_once, len(things) // stretch)
    if count < 2:
        for thing in things:
            await work(thing)
        return
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - only where the ports are slow

    failed = Event()

    def run(number: int) -> None:
        try:
            for thing in things[len(things) * number // count : len(things) * (number + 1) // count]:
                if failed.is_set():
                    return
                run_now(work(thing))
        except BaseException:
            failed.set()
            raise

    with away(), ThreadPoolExecutor(count, thread_name_prefix="stepwell-together") as threads:
        begun = [threads.submit(copy_context().run, run, number) for number in range(count)]
    for one in begun:
        one.result()
