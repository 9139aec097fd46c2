"""The event loop of async steps: one for the process, for its life.

     step thread   calls the function ──▶ coroutine
     loop thread                          └── runs it, beside those of other steps ──▶ answer

asyncio objects belong to the loop that first used them. So clients, pools, locks and sessions may be module-level, and
background tasks of a step go on.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TypeAlias

from stepwell.runtime.steps.threads import interrupt

Answer: TypeAlias = Callable[[tuple[object, BaseException | None]], None]

HELD = "another async step blocked the event loop; code that blocks belongs in a plain `def`"
_UNBLOCK_SECONDS = 0.5  # time for an interrupted step to give the loop back
_LOCK = threading.Lock()


class _StepLoop(threading.Thread):
    def __init__(self) -> None:
        super().__init__(name="stepwell-loop", daemon=True)
        self.loop = asyncio.new_event_loop()
        self.tasks: set[asyncio.Task[object]] = set()  # the tasks of steps; not those that steps create
        self.start()

    def run(self) -> None:
        asyncio.set_event_loop(self.loop)
        while not self.loop.is_closed():
            with suppress(BaseException):  # a step's `sys.exit()`, which is in its answer too; or a late interrupt
                self.loop.run_forever()


class _Steps:
    """The loop for the next step. It is replaced only when a step blocks it and cannot be interrupted."""

    current: _StepLoop | None = None


def _step_loop() -> _StepLoop:
    with _LOCK:
        if _Steps.current is None or _Steps.current.loop.is_closed():
            _Steps.current = _StepLoop()
        return _Steps.current


class Running:
    """A step's coroutine on the process's loop."""

    def __init__(
        self, coroutine: Coroutine[object, object, object], then: Callable[[object], object], answer: Answer
    ) -> None:
        self._coroutine, self._then, self._answer = coroutine, then, answer
        self._on = _step_loop()
        self._task: asyncio.Task[object] | None = None
        self._is_cancelled = threading.Event()

    def start(self) -> None:
        self._on.loop.call_soon_threadsafe(self._begin)

    def cancel(self) -> None:
        self._on.loop.call_soon_threadsafe(self._cancel)

    def unblock(self) -> tuple[str, ...]:
        """Interrupts a cancelled step that holds the loop. Returns (HELD,) if another step holds it.

        A loop that stays blocked takes no further steps: they get a new one.
        """
        if self._is_cancelled.is_set():  # the loop is free: this step ignores its cancel, beside others
            return ()
        holder = asyncio.current_task(self._on.loop)
        if holder is not self._task and holder in self._on.tasks:  # that step has a limit of its own
            return (HELD,)
        if holder is not None:  # else an interrupt would hit the loop itself
            interrupt(self._on, lambda: asyncio.current_task(self._on.loop) is holder)
        if not self._is_cancelled.wait(_UNBLOCK_SECONDS):
            with _LOCK:
                _Steps.current = None if _Steps.current is self._on else _Steps.current
        return ()

    def _begin(self) -> None:
        self._task = self._on.loop.create_task(self._run())
        self._on.tasks.add(self._task)
        self._task.add_done_callback(self._end)

    async def _run(self) -> object:
        return self._then(await self._coroutine)

    def _end(self, task: asyncio.Task[object]) -> None:
        self._coroutine.close()  # it has not begun if its time was up before
        self._on.tasks.discard(task)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        self._answer((None, error) if error is not None else (task.result(), None))

    def _cancel(self) -> None:
        self._is_cancelled.set()
        if self._task is not None:
            self._task.cancel()
