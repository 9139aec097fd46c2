"""Driving the async parts from plain code: real ports block instead of suspending, so no event loop is needed.

The one exception is a Pause, by which a call of the dev server gives its thread back while it waits.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pause:
    """Awaited, it suspends the coroutine; whoever drives it resumes it after this time."""

    duration_ms: int

    def __await__(self) -> Generator[Pause, None, None]:
        yield self


def run_now(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end in one go. Raises RuntimeError for one that suspends: its ports need a loop."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        coroutine.close()
    raise RuntimeError("a port suspended; run_now drives only ports that block")


def run_to_pause(coroutine: Coroutine[Any, Any, T]) -> T | Pause:
    """Runs a coroutine to its end, or to its next Pause: call it again, from any thread, when that is over."""
    try:
        pause = coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    if not isinstance(pause, Pause):
        coroutine.close()
        raise RuntimeError("a port suspended, but not for a Pause")
    return pause
