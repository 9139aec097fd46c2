"""Drives async code from plain code: real ports block and never suspend, so no event loop is needed.

The one exception is a Pause, by which a call of the dev server gives its thread back while it waits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Coroutine, Generator
from contextlib import suppress
from contextvars import copy_context
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from stepwell.limits import SECOND_MS
from stepwell.runtime.steps.batons import Baton, away
from stepwell.runtime.steps.threads import Attempt, StepThread, keep, take
from stepwell.values import dataclass

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pause:
    """Awaiting it suspends the coroutine; its driver resumes it after this time, or once `until` is done."""

    duration_ms: int
    until: Future[None] | None = None

    def __await__(self) -> Generator[Pause, None, None]:
        yield self


def run_now(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end; a Pause blocks. Raises RuntimeError if it suspends for anything else."""
    while isinstance(found := run_to_pause(coroutine), Pause):
        block(found)
    return found


def block(pause: Pause) -> None:
    """Blocks this thread for a pause."""
    with away():
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


def run_apart(coroutine: Coroutine[Any, Any, T], free: threading.Lock | None = None) -> T:
    """Runs a coroutine as `run_now` does, on a thread of steps. A step that takes long gets that thread to itself.

    `free`: of the threads that share this lock, one computes at a time.
    """
    return Apart(coroutine, free).result()


class Apart(Generic[T]):
    """A coroutine that goes on in whatever thread of steps is free. It begins at once."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], free: threading.Lock | None = None) -> None:
        """`free`: of the threads that share this lock, one computes at a time."""
        self._coroutine, self._context, self._free = coroutine, copy_context(), free
        self._answer: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        take().jobs.put(self._go_on)

    def result(self, timeout_seconds: float | None = None) -> T:
        """Waits for its result; raises what it raised. Raises queue.Empty if it has not ended in time."""
        made, error = self._answer.get(timeout=timeout_seconds)
        if error is not None:
            raise error
        result: T = made
        return result

    def _go_on(self) -> None:
        """Drives the coroutine to its end, or to a step that keeps this thread."""
        here = threading.current_thread()
        if not isinstance(here, StepThread):
            raise TypeError("only a StepThread can be left to a step")
        here.begin(None if self._free is None else Baton(self._free))
        while (asked := self._next(here)) is not None:
            if isinstance(asked, Pause):
                block(asked)
            elif not asked.run_here(here, self._go_on):
                return
        here.end()
        keep(here)

    def _next(self, here: StepThread) -> Attempt | Pause | None:
        """Returns what the coroutine waits for next; None at its end."""
        here.can_move = True
        try:
            asked: Attempt | Pause = self._context.run(self._coroutine.send, None)
        except StopIteration as stop:
            self._answer.put((stop.value, None))
        except BaseException as error:
            self._answer.put((None, error))
        else:
            return asked
        finally:
            here.can_move = False
        return None
