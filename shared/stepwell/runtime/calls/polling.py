"""Polling: looks again until something is done or the time is up, less often the longer it takes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import chain, repeat
from typing import TypeVar

from stepwell.runtime.ports import Clock

T = TypeVar("T")

FIRST_PAUSES_MS = (20, 40, 80, 160, 320)
LONGEST_PAUSE_MS = 500


async def poll(
    look: Callable[[], Awaitable[T]],
    is_done: Callable[[T], bool],
    limit_ms: int,
    clock: Clock,
    pause: Callable[[int], Awaitable[None]],
) -> T:
    """Returns what `look` returns once `is_done`, or after `limit_ms`. `pause`: waits between two looks, in ms."""
    until_ms = clock.now_ms() + limit_ms
    for pause_ms in chain(FIRST_PAUSES_MS, repeat(LONGEST_PAUSE_MS)):
        found = await look()
        left_ms = until_ms - clock.now_ms()
        if is_done(found) or left_ms <= 0:
            break
        await pause(min(pause_ms, left_ms))
    return found
