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


class StepThreads:
    """Threads for attempts, kept for the next one unless they were abandoned. Safe to call from many threads."""

    def __init__(self) -> None:
        self._idle: deque[_StepThread] = deque()

    def run(self, function: Callable[[], object], limit_seconds: float) -> tuple[object, BaseException | None]:
        """What the function returned, awaited if need be, and what it raised: an AttemptTimeoutError out of time."""
        thread = self._take()
        job = _Job(function, limit_seconds=limit_seconds)
        thread.jobs.put(job)
        try:
            value, error = job.answer.get(timeout=limit_seconds)
        except queue.Empty:
            value, error = self._last_word(thread, job)
        if not thread.abandoned:
            self._idle.append(thread)
        return value, error

    def _last_word(self, thread: _StepThread, job: _Job) -> tuple[object, BaseException | None]:
        """An async step may be cleaning up; a plain one is interrupted, and not waited for."""
        if job.is_async:
            try:
                return job.answer.get(timeout=_CLEAN_UP_SECONDS + 0.5)
            except queue.Empty:
                thread.interrupt()
                return None, AttemptTimeoutError()
        thread.interrupt()
        return None, AttemptTimeoutError()

    def _take(self) -> _StepThread:
        try:
            return self._idle.pop()
        except IndexError:
            thread = _StepThread()
            thread.start()
            return thread
