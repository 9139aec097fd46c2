"""Time limits that really interrupt: each attempt runs in a thread of its own, which is left behind when time is up.

A Python function is interrupted at its next bytecode by an exception that `except Exception` does not catch; one that
blocks in C is abandoned, and its result dropped when it comes. A coroutine that it returns runs on the process's event
loop, and is cancelled.
"""

from __future__ import annotations

import ctypes
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepwell.runtime.steps.loop import Running

_CLEAN_UP_SECONDS = 1.0  # what a cancelled async step gets for its `finally`


class StepInterrupted(BaseException):
    """Raised inside a step whose time is up. A BaseException: user code must not take it for an error of its own."""


class AttemptTimeoutError(Exception):
    """The attempt did not end in time. Its arguments say why, if that is known."""


def interrupt(thread: threading.Thread) -> None:
    """Raises StepInterrupted in the thread, at its next bytecode."""
    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(StepInterrupted))


@dataclass(slots=True)
class _Job:
    function: Callable[[], object]
    then: Callable[[object], object]
    answer: queue.SimpleQueue[tuple[object, BaseException | None]] = field(default_factory=queue.SimpleQueue)
    limit_seconds: float = 0.0
    running: Running | None = None  # what the function returned, if that is a coroutine
    is_over: bool = False  # nobody waits for the answer any more
    context: Context = field(default_factory=copy_context)  # such as the ids in its log lines


class _StepThread(threading.Thread):
    def __init__(self) -> None:
        super().__init__(name="stepwell-step", daemon=True)
        self.jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self.abandoned = False

    def run(self) -> None:
        try:
            while not self.abandoned:
                job = self.jobs.get()
                job.context.run(self._do, job)
        except StepInterrupted:
            return  # the interrupt came after the step had ended: this thread is abandoned already

    def _do(self, job: _Job) -> None:
        try:
            made = job.function()
            if isinstance(made, Coroutine):
                self._hand_over(made, job)
                return
            made = job.then(made)
        except BaseException as error:
            job.answer.put((None, error))
        else:
            job.answer.put((made, None))

    def _hand_over(self, coroutine: Coroutine[object, object, object], job: _Job) -> None:
        """To the loop, unless the time is up: then whoever stops the attempt has not seen that there is a coroutine."""
        from stepwell.runtime.steps.loop import Running  # noqa: PLC0415 - asyncio, which only async steps need

        job.running = Running(coroutine, job.then, job.answer.put)
        if job.is_over:
            coroutine.close()
        else:
            job.running.start()

    def interrupt(self) -> None:
        self.abandoned = True
        interrupt(self)


class Attempt:
    """A function that runs in a thread of its own."""

    def __init__(self, threads: StepThreads, thread: _StepThread, job: _Job) -> None:
        self._threads, self._thread, self._job = threads, thread, job
        self._began = time.monotonic()
        self._made: tuple[object, BaseException | None] | None = None

    def ends_within(self, seconds: float) -> bool:
        """Waits so long at the most, and no longer than the attempt may take."""
        left_seconds = self._began + self._job.limit_seconds - time.monotonic()
        return self._is_answered(max(min(seconds, left_seconds), 0))

    def result(self) -> tuple[object, BaseException | None]:
        """What the function returned, awaited if need be, and what it raised: an AttemptTimeoutError out of time."""
        if not self._made and not self.ends_within(self._job.limit_seconds):
            self._made = None, AttemptTimeoutError(*self._stop())
        if not self._thread.abandoned:
            self._threads.keep(self._thread)
        return self._made or (None, AttemptTimeoutError())

    def _is_answered(self, seconds: float) -> bool:
        try:
            self._made = self._job.answer.get(timeout=seconds)
        except queue.Empty:
            return False
        return True

    def _stop(self) -> tuple[str, ...]:
        """An async step may clean up; a plain one is interrupted, and not waited for. Returns what kept it."""
        self._job.is_over = True
        running = self._job.running
        if running is None:
            self._thread.interrupt()
            return ()
        running.cancel()
        return () if self._is_answered(_CLEAN_UP_SECONDS) else running.unblock()


class StepThreads:
    """Threads for attempts, kept for the next one unless they were abandoned. Safe to call from many threads."""

    def __init__(self) -> None:
        self._idle: deque[_StepThread] = deque()

    def start(
        self, function: Callable[[], object], limit_seconds: float, then: Callable[[object], object] = lambda made: made
    ) -> Attempt:
        """Starts the function, which may take so long. `then` makes the result of what it returned or awaited."""
        thread = self._take()
        job = _Job(function, then, limit_seconds=limit_seconds)
        attempt = Attempt(self, thread, job)
        thread.jobs.put(job)
        return attempt

    def run(self, function: Callable[[], object], limit_seconds: float) -> tuple[object, BaseException | None]:
        """The result of the function, which may take so long."""
        return self.start(function, limit_seconds).result()

    def keep(self, thread: _StepThread) -> None:
        """The thread is free for the next attempt."""
        self._idle.append(thread)

    def _take(self) -> _StepThread:
        try:
            return self._idle.pop()
        except IndexError:
            thread = _StepThread()
            thread.start()
            return thread
