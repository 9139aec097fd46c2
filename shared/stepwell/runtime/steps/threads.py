"""Time limits that really interrupt: a thread whose attempt takes too long is left behind.

A Python function is interrupted at its next bytecode by an exception that `except Exception` does not catch; one that
blocks in C is abandoned, and its result dropped when it comes. A coroutine that it returns runs on the process's event
loop, and is cancelled.

Handing a function to another thread and waiting for it costs as much CPU as a durable write. So a message is handled on
such a thread as a whole, and its steps run there too. If a step keeps the thread, the rest goes on elsewhere:

     thread 1   handles a message ── step ─────────────────────────── ends, or is interrupted
     watch                            └─ it takes long: the rest moves
     thread 2                            └─ begins other branches, waits for the step, commits it, goes on
"""

from __future__ import annotations

import ctypes
import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from functools import partial
from math import inf
from typing import TYPE_CHECKING, TypeAlias

from stepwell.runtime.steps.batons import Baton, away, compute_with

if TYPE_CHECKING:
    from stepwell.runtime.steps.loop import Running

Answered: TypeAlias = "tuple[object, BaseException | None]"

_CLEAN_UP_SECONDS = 1.0  # time for the `finally` of a cancelled async step
BATON_SECONDS = 0.01  # a step that takes longer passes the baton on
LINGER_SECONDS = BATON_SECONDS  # how long the watch sleeps at most after a step has begun: see Watch


class StepInterrupted(BaseException):
    """Raised inside a step whose time is up. A BaseException: user code must not take it for an error of its own."""


class AttemptTimeoutError(Exception):
    """The attempt did not end in time. Its arguments say why, if that is known."""


_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
_INTERRUPT = ctypes.py_object(StepInterrupted)


def interrupt(thread: threading.Thread, still: Callable[[], bool] | None = None) -> None:
    """Raises StepInterrupted in the thread, at its next bytecode.

    `still`: tells whether the thread still does what is to be interrupted. Else, whether it has not ended.
    """
    how = thread, still or thread.is_alive
    if sys.version_info < (3, 13):
        threading.Thread(target=_interrupt_there_and_here, args=how, name="stepwell-interrupt", daemon=True).start()
    else:
        _interrupt_there(*how)


def _interrupt_there(thread: threading.Thread, still: Callable[[], bool]) -> None:
    there = ctypes.c_ulong(thread.ident or 0)
    if still():  # else another thread may have its ident by now
        _raise_in(there, _INTERRUPT)


def _interrupt_there_and_here(thread: threading.Thread, still: Callable[[], bool]) -> None:
    """Interrupts the thread, and then the current one, which is here for that.

    Up to Python 3.12, all threads look for an interrupt at each call, from when there is one until some thread has
    taken one. A thread that blocks takes its own late, or never. Meanwhile the others are slower, and in Python 3.11
    one with a profiler, a debugger or coverage does not get past its next call. So this thread takes one at once.
    The blocked one finds its own all the same: each thread looks when it gets the interpreter.

    Between the two, no function that is written in Python may be called, for the same reason.
    """
    there, here = ctypes.c_ulong(thread.ident or 0), ctypes.c_ulong(threading.get_ident())
    try:
        if still():
            _raise_in(there, _INTERRUPT)
            _raise_in(here, _INTERRUPT)
        for _ in range(100):  # its own comes at the first of them at the latest
            pass
    except StepInterrupted:
        return


class StepThread(threading.Thread):
    """A thread that may be left behind. Use `take` to get one, `keep` to give it back."""

    def __init__(self) -> None:
        super().__init__(name="stepwell-step", daemon=True)
        self.jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.abandoned = False
        self.can_move = False  # whether its current work can go on in another thread
        self._is_at_work = False
        self._baton: Baton | None = None

    def run(self) -> None:
        try:
            while not self.abandoned:
                job = self.jobs.get()
                self._is_at_work = True  # set before it looks: `interrupt` sees this, or is seen
                if self.abandoned:
                    break
                job()
                self._is_at_work = False
        except StepInterrupted:
            return  # the interrupt came after the step had ended: this thread is abandoned already
        finally:
            self._is_at_work = False

    def begin(self, baton: Baton | None) -> None:
        """Has the thread compute for a message from now on."""
        self._baton = baton
        compute_with(baton)

    @property
    def has_baton(self) -> bool:
        """Tells whether one message computes at a time."""
        return self._baton is not None

    def end(self) -> None:
        """Lets another thread compute."""
        if self._baton is not None:
            self._baton.give_up()

    def interrupt(self) -> None:
        """Interrupts its work, and ends it. It may not have begun to work yet, or have ended just now."""
        self.abandoned = True
        interrupt(self, lambda: self._is_at_work)
        self.jobs.put(lambda: None)  # wakes it if it waits for a job


_IDLE: deque[StepThread] = deque()


def take() -> StepThread:
    """Returns an idle thread."""
    try:
        return _IDLE.pop()
    except IndexError:
        thread = StepThread()
        thread.start()
        return thread


def keep(thread: StepThread) -> None:
    """Puts the thread back among the idle ones, unless it was left behind."""
    if not thread.abandoned:
        _IDLE.append(thread)


class Attempt:
    """A function under a time limit.

    `then` makes the result from what it returned or awaited. After `look_seconds`, or at its limit, the rest moves.
    """

    def __init__(
        self,
        function: Callable[[], object],
        limit_seconds: float,
        then: Callable[[object], object],
        look_seconds: float,
        now: Callable[[], float] = time.monotonic,
        tell_long: Callable[[], None] = lambda: None,
        tell_short: Callable[[], None] | None = None,
    ) -> None:
        """`tell_long` is called if it takes longer than `look_seconds`.

        `tell_short`: given for a step that took long last time, and called if this time it does not.
        """
        self._function, self._then, self._limit_seconds, self._tell_long = function, then, limit_seconds, tell_long
        self._tell_short = tell_short
        self._answer: queue.SimpleQueue[Answered] = queue.SimpleQueue()
        self._context = copy_context()  # for example the ids in its log lines
        self._now, self._began = now, now()
        self.look_at = self._began + min(look_seconds, limit_seconds)
        self._claim = threading.Lock()  # held by the first: its end, or the watch, which moves the rest
        self._apart: StepThread | None = None  # the thread that it has to itself
        self._running: Running | None = None  # set if the function returned a coroutine
        self._is_over = False  # whether nobody waits for the answer any more
        self._made: Answered | None = None

    def __await__(self) -> Generator[Attempt, None, Attempt]:
        """Suspends the coroutine, unless the attempt has a thread of its own. Its driver calls `run_here`."""
        if self._apart is None:
            yield self
        return self

    @property
    def is_expected_long(self) -> bool:
        """Tells whether the step took long when it last ran."""
        return self._tell_short is not None

    def start(self) -> None:
        """Starts the function in a thread of its own."""
        self._apart = take()
        self._apart.jobs.put(self._do)

    def run_here(self, here: StepThread, rest: Callable[[], None]) -> bool:
        """Runs the function in this thread. Returns False if the rest has moved meanwhile."""
        _WATCH.add(self, lambda: self._move(here, rest))
        self._do()
        _WATCH.remove(self)
        return self._claim.acquire(blocking=False)

    def ends_within(self, seconds: float) -> bool:
        """Waits until this many seconds after the start, at most to the limit. Tells whether it has ended."""
        if self._made is not None or self._is_there():
            return True
        return self._comes_within(max(self._began + min(seconds, self._limit_seconds) - self._now(), 0))

    def result(self) -> Answered:
        """Returns the awaited result and the exception: an AttemptTimeoutError if the time is up."""
        if not self.ends_within(self._limit_seconds):
            self._made = None, AttemptTimeoutError(*self._stop())
        if self._apart is not None:
            keep(self._apart)
        return self._made or (None, AttemptTimeoutError())

    def _move(self, here: StepThread, rest: Callable[[], None]) -> None:
        """Has another thread do the rest, unless the attempt has just ended."""
        if self._claim.acquire(blocking=False):
            self._apart = here
            self._tell_long()
            here.end()
            take().jobs.put(rest)

    def _do(self) -> None:
        self._context.run(self._call)

    def _call(self) -> None:
        try:
            made = self._function()
            if isinstance(made, Coroutine):
                self._hand_over(made)
                return
            made = self._then(made)
        except BaseException as error:
            self._end((None, error))
        else:
            self._end((made, None))

    def _end(self, answered: Answered) -> None:
        if self._tell_short is not None and self._now() - self._began < BATON_SECONDS:
            self._tell_short()
        self._answer.put(answered)

    def _hand_over(self, coroutine: Coroutine[object, object, object]) -> None:
        """Starts the coroutine on the loop, unless the time is up: `_stop` has not seen it then, so close it here."""
        from stepwell.runtime.steps.loop import Running  # noqa: PLC0415 - asyncio, which only async steps need

        self._running = Running(coroutine, self._then, self._end)
        if self._is_over:
            coroutine.close()
        else:
            self._running.start()

    def _is_there(self) -> bool:
        try:
            self._made = self._answer.get_nowait()
        except queue.Empty:
            return False
        return True

    def _comes_within(self, seconds: float) -> bool:
        try:
            with away():
                self._made = self._answer.get(timeout=seconds)
        except queue.Empty:
            return False
        return True

    def _stop(self) -> tuple[str, ...]:
        """Cancels an async step and lets it clean up, or interrupts a plain one. Returns what held it up."""
        self._is_over = True
        running = self._running
        if running is None:
            if self._apart is not None:
                self._apart.interrupt()
            return ()
        running.cancel()
        return () if self._is_there() or self._comes_within(_CLEAN_UP_SECONDS) else running.unblock()


class Watch:
    """Watches the steps that run in their messages' threads, from a thread that sleeps until one takes long.

    While short steps follow each other it looks every `LINGER_SECONDS`. To wake it for each of them would take longer
    than they do.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._under_way: dict[Attempt, Callable[[], None]] = {}
        self._is_busy = False  # a step has begun since it looked last
        self._wake = threading.Event()
        self._looks_at = inf  # when it looks next, unless it is woken
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def add(self, attempt: Attempt, move: Callable[[], None]) -> None:
        """Has the rest moved if the attempt takes too long. Wakes the watch only if it would look too late."""
        self._under_way[attempt] = move
        self._is_busy = True
        if attempt.look_at < self._looks_at:
            self._wake.set()
            self._start()

    def remove(self, attempt: Attempt) -> None:
        """Removes the attempt. The watch stays asleep, even if it would look at this one next."""
        self._under_way.pop(attempt, None)

    def look(self) -> float | None:
        """Moves the rest of attempts that take too long. Returns the seconds until the next is due; None if none is."""
        self._looks_at = inf  # until it is known, so that attempts added meanwhile wake it
        self._wake.clear()
        is_busy, self._is_busy = self._is_busy, False
        now = self._now()
        for attempt, move in list(self._under_way.items()):
            if attempt.look_at <= now:
                self.remove(attempt)
                move()
        lingers_until = now + LINGER_SECONDS if is_busy else inf
        looks_at = min((attempt.look_at for attempt in list(self._under_way)), default=inf)
        self._looks_at = looks_at = min(looks_at, lingers_until)
        return None if looks_at == inf else max(looks_at - self._now(), 0)

    def _start(self) -> None:
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._look_on, name="stepwell-watch", daemon=True)
                self._thread.start()

    def _look_on(self) -> None:
        while True:
            self._wake.wait(self.look())


_WATCH = Watch()


class StepThreads:
    """Runs functions under a time limit. Safe to call from many threads."""

    def __init__(self) -> None:
        self.long: set[str] = set()  # steps that took long when they last ran: each gets a thread at once

    def begun(
        self,
        function: Callable[[], object],
        limit_seconds: float,
        then: Callable[[object], object],
        look_seconds: float,
        name: str = "",
    ) -> Attempt:
        """Starts the function. Awaiting the attempt ends when it has ended, or after `look_seconds`, or at once.

        `name`: of the step. If one message computes at a time, a long step delays the others once, and not again.
        """
        here = threading.current_thread()
        if not isinstance(here, StepThread) or not here.can_move:
            return self.start(function, limit_seconds, then)
        if not here.has_baton:
            return Attempt(function, limit_seconds, then, look_seconds)
        if name in self.long:
            attempt = Attempt(function, limit_seconds, then, 0, tell_short=partial(self.long.discard, name))
            attempt.start()
            return attempt
        look_seconds, learn = min(look_seconds, BATON_SECONDS), partial(self.long.add, name)
        return Attempt(function, limit_seconds, then, look_seconds, tell_long=learn)

    def start(
        self, function: Callable[[], object], limit_seconds: float, then: Callable[[object], object] = lambda made: made
    ) -> Attempt:
        """Starts the function, with this limit, in a thread of its own."""
        attempt = Attempt(function, limit_seconds, then, limit_seconds)
        attempt.start()
        return attempt

    def run(self, function: Callable[[], object], limit_seconds: float) -> Answered:
        """Returns the result of the function, run with this limit."""
        return self.start(function, limit_seconds).result()
