"""Driving the async parts from plain code: real ports block instead of suspending, so no event loop is needed.

The one exception is a Pause, by which a call of the dev server gives its thread back while it waits.
"""

from __future__ import annotations

import time
from collections.abc import Coroutine, Generator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from stepwell.limits import SECOND_MS

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pause:
    """Awaited, it suspends the coroutine; whoever drives it resumes it after this time, or once `until` is done."""

    duration_ms: int
    until: Future[None] | None = None

    def __await__(self) -> Generator[Pause, None, None]:
        yield self


def run_now(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end; a Pause blocks. Raises RuntimeError where it suspends for anything else."""
    while isinstance(found := run_to_pause(coroutine), Pause):
        block(found)
    return found


def block(pause: Pause) -> None:
    """Blocks this thread for a pause."""
    if pause.until is None:
        time.sleep(pause.duration_ms / SECOND_MS)
        return
    with suppress(TimeoutError):
        pause.until.result(pause.duration_ms / SECOND_MS)


def run_to_pause(coroutine: Coroutine[Any, Any, T]) -> T | Pause:
    """Runs a coroutine to its end, or to its next Pause: call it again, from any thread, when that is over."""
    try:
        pause = coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    if not isinstance(pause, Pause):
        coroutine.close()
        raise RuntimeError("a port suspended; run_now drives only ports that block")
    return pause
