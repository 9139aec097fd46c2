"""Driving the async parts from plain code: real ports block instead of suspending, so no event loop is needed."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


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
