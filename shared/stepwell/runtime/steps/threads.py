"""Time limits that really interrupt: each attempt runs in a thread of its own, which is left behind when time is up.

A Python function is interrupted at its next bytecode by an exception that `except Exception` does not catch; one that
blocks in C is abandoned, and its result dropped when it comes. An async function is cancelled, and its thread left
behind with whatever would not stop.
"""

from __future__ import annotations

import asyncio
import ctypes
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

_CLEAN_UP_SECONDS = 1.0  # what a cancelled async step gets for its `finally`


class StepInterrupted(BaseException):
    """Raised inside a step whose time is up. A BaseException: user code must not take it for an error of its own."""


class AttemptTimeoutError(Exception):
    """The attempt did not end in time."""


@dataclass(slots=True)
class _Job:
    function: Callable[[], object]
    answer: queue.SimpleQueue[tuple[object, BaseException | None]] = field(default_factory=queue.SimpleQueue)
    limit_seconds: float = 0.0
    is_async: bool = False


class _StepThread(threading.Thread):
    def __init__(self) -> None:
        super().__init__(name="stepwell-step", daemon=True)
        self.jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self.abandoned = False
        self._runner: asyncio.Runner | None = None

    def run(self) -> None:
        try:
            self._serve()
        except StepInterrupted:
            return  # the interrupt came after the step had ended: this thread is abandoned already

    def _serve(self) -> None:
        try:
            while not self.abandoned:
                job = self.jobs.get()
                job.answer.put(self._do(job))
        finally:
            if self._runner is not None:
                self._runner.close()

    def _do(self, job: _Job) -> tuple[object, BaseException | None]:
        try:
            made = job.function()
            if isinstance(made, Coroutine):
                job.is_async = True
                made = self._run_async(made, job.limit_seconds)
        except BaseException as error:
            return None, error
        return made, None

    def _run_async(self, coroutine: Coroutine[object, object, object], limit_seconds: float) -> object:
        if self._runner is None:
            self._runner = asyncio.Runner()
        try:
            return self._runner.run(_limited(coroutine, limit_seconds))
        finally:
            if asyncio.all_tasks(self._runner.get_loop()):
                self.abandoned = True  # what the step left running must not run beside the next one

    def interrupt(self) -> None:
        self.abandoned = True
        if self.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident), ctypes.py_object(StepInterrupted))


async def _limited(coroutine: Coroutine[object, object, object], limit_seconds: float) -> object:
    task = asyncio.ensure_future(coroutine)
    done, _ = await asyncio.wait({task}, timeout=limit_seconds)
    if not done:
        task.cancel()
        await asyncio.wait({task}, timeout=_CLEAN_UP_SECONDS)
        raise AttemptTimeoutError
    return task.result()


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
            self._stop()
        if not self._thread.abandoned:
            self._threads.keep(self._thread)
        return self._made or (None, AttemptTimeoutError())

    def _is_answered(self, seconds: float) -> bool:
        try:
            self._made = self._job.answer.get(timeout=seconds)
        except queue.Empty:
            return False
        return True

    def _stop(self) -> None:
        """An async step may be cleaning up; a plain one is interrupted, and not waited for."""
        if not self._job.is_async or not self._is_answered(_CLEAN_UP_SECONDS + 0.5):
            self._thread.interrupt()


class StepThreads:
    """Threads for attempts, kept for the next one unless they were abandoned. Safe to call from many threads."""

    def __init__(self) -> None:
        self._idle: deque[_StepThread] = deque()

    def start(self, function: Callable[[], object], limit_seconds: float) -> Attempt:
        """Starts the function, which may take so long."""
        thread = self._take()
        job = _Job(function, limit_seconds=limit_seconds)
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
