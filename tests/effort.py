"""How much work a call is, in loops of plain Python: a slow machine makes fewer of both."""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time

TIMES = 3  # the best of them counts, before the call and after it


def loops(call: Callable[[], object]) -> float:
    """The CPU time that this thread spends on the call, as a multiple of what it spends on a million additions."""
    before = _loop_seconds()
    began = thread_time()
    call()
    taken = thread_time() - began
    return taken / max(before, _loop_seconds())


def _loop_seconds() -> float:
    return min(_once() for _ in range(TIMES)) * 10


def _once() -> float:
    began = thread_time()
    total = 0
    for number in range(100_000):
        total += number
    return thread_time() - began
