"""The event loop of a durable function: deterministic asyncio, without threads, sockets, or a clock of its own.

    ready callbacks, first in first out ── nothing ready ── the turn is over: what the tasks await goes to the log

Its time is the time of the last record. A timer is due when a record is at least as old; so `asyncio.sleep` is a
durable wait. Everything that would let the outside world in raises `foreign_await`.
"""

from __future__ import annotations

import asyncio
import heapq
import sys
from asyncio import events
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from contextvars import Context, copy_context
from functools import wraps
from itertools import count
from math import ceil, isnan
from typing import Any, NoReturn, TypeVar
from weakref import WeakSet, ref

from stepwell.definition.durations import LONGEST_MS
from stepwell.definition.graph import Json
from stepwell.engine.durable.finished import UNKNOWN
from stepwell.engine.durable.runner import Pending
from stepwell.engine.durable.session import CURRENT, Session
from stepwell.limits import SECOND_MS
from stepwell.runtime.durable.operations import Operation
from stepwell.runtime.durable.places import foreign, here, raised_at, waits_at
from stepwell.runtime.durable.scopes import number_scopes
from stepwell.runtime.durable.sending import ChildTask
from stepwell.runtime.durable.tasks import Future, Ready, RunCancelled, Task
from stepwell.runtime.durable.unheard import Unheard
from stepwell.runtime.steps.threads import StepInterrupted

T = TypeVar("T")
FARTHEST_SECONDS = LONGEST_MS / SECOND_MS  # of a timer: a calendar ends, and a database's numbers do
_UNWINDS = 100  # rounds for cancelled tasks to end; a task that goes on after them is closed
_OF_CLOSING = (Exception, GeneratorExit, asyncio.CancelledError)  # what users' code may raise while it is closed
_Abstract: Any = asyncio.AbstractEventLoop


class Loop(_Abstract):  # type: ignore[misc]  # its methods take any arguments of asyncio's
    """Runs one function and its tasks, one turn after the other. The runner of its session."""

    def __init__(self, body: Coroutine[Any, Any, object]) -> None:
        self.fresh: list[Pending] = []
        self.cancelled: list[Pending] = []
        self.ready: deque[Ready | events.Handle] = deque()
        self.tasks: dict[Task, None] = {}  # open tasks beside the function itself, in the order of their start
        self._timers: list[tuple[float, int, events.TimerHandle]] = []
        self.numbers, self._names = count(), count(1)
        self._of_left = count(-2, -1)  # numbers for tasks that close generators, apart from the others
        self._now_ms, self._slot = 0, 0
        self.since: int | None = None  # the slot as well, but -1 before the first record
        self._conditions: list[tuple[Callable[[], object], asyncio.Future[None]]] = []  # conditions that tasks wait for
        self._ending: list[Task] | None = None  # tasks still open when the function ended
        self._is_closed = self._is_last_round = False
        self._unheard: Unheard | None = None  # errors that nobody awaits
        self._interrupted: RunCancelled | None = None  # the cancel of its run
        self._generators: WeakSet[AsyncGenerator[Any, Any]] = WeakSet()
        self.context, self.before = copy_context(), copy_context()
        number_scopes()
        self.main = Task(body, self, context=self.context)
        self.ready.append(Ready(self.main))

    def attach(self, session: Session) -> None:
        """Makes the session the current one for `ctx`."""
        self._unheard = Unheard(session)
        self.context.run(CURRENT.set, session)

    # -- for the session

    @property
    def is_ready(self) -> bool:
        return bool(self.ready or self._conditions)

    @property
    def place(self) -> str:
        return waits_at(self.main.get_coro())

    def place_of(self, pending: Pending) -> str:
        return waits_at(pending.task.get_coro())

    @property
    def is_shared(self) -> bool:
        return bool(self.tasks)

    def run(self, now_ms: int, slot: int) -> None:
        """Runs callbacks as asyncio does: those that were ready first, and in each round the timers that are due."""
        self._now_ms, self._slot = now_ms, slot
        self.since = -1 if self.since is None else slot
        with nullcontext() if events._get_running_loop() is self else self.running():
            self._rounds()
        if self._unheard is not None:
            self._unheard.tell(is_last=self._ending is not None)

    @contextmanager
    def at(self, now_ms: int) -> Iterator[None]:
        """Makes this the running loop at this time: for a plain handler of an update, live and replayed alike."""
        self._now_ms = now_ms
        with nullcontext() if events._get_running_loop() is self else self.running():
            yield

    def _rounds(self) -> None:
        while self.ready or self._timers or self._conditions:
            if self._conditions and not self.ready:
                self._look()
            if self._timers:
                self._fire()
            if not self.ready:
                break
            self._round()

    def until(self, condition: Callable[[], object]) -> asyncio.Future[None]:
        """Returns a future that ends once the condition is true. It is checked whenever nothing else can go on."""
        future = self.create_future()
        self._conditions.append((condition, future))
        return future

    def start(self, coro: Coroutine[Any, Any, object]) -> None:
        self.create_task(coro, context=self.context.copy())

    def _look(self) -> None:
        left = []
        for condition, future in self._conditions:
            try:
                if not future.done() and self.context.run(condition):
                    future.set_result(None)
            except StepInterrupted:  # the turn's time is up
                raise
            except StopIteration as error:  # a future cannot raise it, nor can a coroutine
                future.set_exception(RuntimeError(f"the condition raised StopIteration{raised_at(error)}"))
            except BaseException as error:  # users' code can raise anything
                future.set_exception(error)
            if not future.done():
                left.append((condition, future))
        self._conditions = left

    def _fire(self) -> None:
        timers = self._timers
        while timers and (timers[0][2].cancelled() or _ms(timers[0][0]) <= self._now_ms):
            handle = heapq.heappop(timers)[2]
            if not handle.cancelled():
                self.ready.append(handle)

    def _round(self) -> None:
        ready, is_last = self.ready, self._is_last_round
        for _ in range(len(ready)):
            one = ready.popleft()
            if not one.cancelled():
                one._run()
        if not self.main.done():
            return
        if self._ending is not None:
            if all(task.done() for task in self._ending):
                ready.clear()
                self._timers.clear()
        elif is_last:
            self._ending = list(self.tasks)
            for task in self._ending:
                task.cancel()
            if not self._ending:
                ready.clear()
                self._timers.clear()
        else:  # as `asyncio.run` does, which notices one round later
            self._is_last_round = True
            ready.append(Ready(self.main))

    def outcome(self) -> tuple[object, BaseException | None] | None:
        if self._ending is None or any(not task.done() for task in self._ending):
            return None
        if self._interrupted is not None and self.main.cancelled():  # also by asyncio's, of a task that it awaited
            return None, self._interrupted
        return self.main.outcome()

    def end(self, pending: Pending, value: Json, error: BaseException | None) -> None:
        task: Task = pending.task
        task.pending = None
        self.ready.append(Ready(task, value, error))

    def interrupt(self, error: BaseException, under_way: list[Pending]) -> None:
        self._interrupted = RunCancelled(*error.args)
        self.main.interrupt(self._interrupted)  # as asyncio does: with everything that it awaits
        for pending in under_way:
            if pending.task.pending is pending:  # a task that the function does not await
                self.end(pending, None, RunCancelled(*error.args))
        self.cancelled.clear()  # none of them goes on: the record of the interrupt says so

    @property
    def due_ms(self) -> int | None:
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        return _ms(timers[0][0]) if timers else None

    def close(self) -> None:
        self._is_closed = True
        try:
            with self.running():
                if self._generators:
                    self._unwind()
                for task in (*self.tasks, self.main):
                    task.close()
                for task in self.tasks:
                    if not task.done():  # made by one that was closed: it has not begun
                        task.close()
                for generator in list(self._generators):
                    self._close_generator(generator)
        finally:
            self.ready.clear()
            self._timers.clear()
            self.tasks.clear()

    def _unwind(self) -> None:
        """Cancels all tasks as `asyncio.run` does: closing a coroutine does not close the async generators in it."""
        for task in (*self.tasks, self.main):
            task.cancel()
        for _ in range(_UNWINDS):
            if self.ready:
                self._round()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Makes this the thread's loop and registers its async generators, so that abandoned ones are closed here."""
        before, hooks = events._get_running_loop(), sys.get_asyncgen_hooks()
        events._set_running_loop(self)
        sys.set_asyncgen_hooks(self._generators.add, self._left)
        try:
            yield
        finally:
            sys.set_asyncgen_hooks(*hooks)
            events._set_running_loop(before)

    def _left(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Closes an abandoned async generator in a task, so that its `finally` runs, as elsewhere in asyncio."""
        self._generators.discard(generator)
        if events._get_running_loop() is self and not self._is_closed:
            numbers, self.numbers = self.numbers, self._of_left  # garbage collection differs between replays
            try:
                self.create_task(generator.aclose(), name="close")
            finally:
                self.numbers = numbers
            return
        with self.running():
            self._close_generator(generator)

    def _close_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        closing: Any = generator.aclose()
        with suppress(*_OF_CLOSING):  # its state is in the log, as for a coroutine
            self.context.run(closing.send, None)
        with suppress(*_OF_CLOSING):
            closing.close()

    # -- for its tasks

    def give_up(self, pending: Pending) -> None:
        """Drops the operation of a cancelled task. If it has no record yet, it never begins."""
        if pending in self.fresh:
            self.fresh.remove(pending)
        else:
            self.cancelled.append(pending)

    def has_failed(self, task: Task) -> None:
        """Notes that the task has failed. Whether anybody awaits it, will be seen."""
        if self._unheard is not None and task is not self.main:
            self._unheard.failed.append(ref(task))

    # -- asyncio

    def time(self) -> float:
        return self._now_ms / SECOND_MS

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> events.Handle:
        handle = events.Handle(callback, args, self, context)
        self.ready.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> events.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> events.TimerHandle:
        if isnan(when):
            raise ValueError("a timer needs a time, not NaN")
        handle = events.TimerHandle(when, callback, args, self, context)
        number = next(self.numbers)
        if when - self.time() <= FARTHEST_SECONDS:  # else its time never comes, as for `anyio.sleep_forever`
            heapq.heappush(self._timers, (when, number, handle))
        return handle

    def _timer_handle_cancelled(self, handle: events.TimerHandle) -> None:
        """Does nothing: a cancelled timer is skipped when its time comes."""

    def create_future(self) -> asyncio.Future[Any]:
        return Future(self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        kind = ChildTask if isinstance(coro, Operation) and coro.is_child else Task
        if isinstance(coro, Operation):
            coro = coro.taken().__await__()  # each task that awaits it has an iterator of its own
        elif not asyncio.iscoroutine(coro):
            raise TypeError(f"a coroutine was expected, got {coro!r}")
        shown = f"Task-{next(self._names)}" if name is None else str(name)
        made = kind(coro, self, name=shown, context=context, by=self._next_by())
        self.tasks[made] = None
        self.ready.append(Ready(made))
        task: Any = made  # as callers see it
        return task  # type: ignore[no-any-return]  # see above

    @contextmanager
    def made_since(self, slot: int) -> Iterator[None]:
        """Names the tasks that are made in it as made in this earlier slot: what came since is not why they are."""
        now, self._slot = self._slot, slot
        try:
            yield
        finally:
            self._slot = now

    def _next_by(self) -> str:
        maker: Any = asyncio.current_task(self)
        is_steady = maker is not None and self.numbers is not self._of_left
        return maker.next_by(self._slot) if is_steady else UNKNOWN

    def get_task_factory(self) -> None:
        return None

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        """Does nothing: this loop has no debug mode."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._unheard is not None and not self._is_closed:
            self._unheard.add(context)

    default_exception_handler = call_exception_handler

    def _foreign(self, *args: Any, **named: Any) -> NoReturn:
        raise foreign("it used what reaches outside of a workflow: a thread, a socket, a process or a signal", here())


for _name in dir(asyncio.AbstractEventLoop):
    if not _name.startswith("_") and _name not in vars(Loop):
        setattr(Loop, _name, Loop._foreign)


def _ms(when: float) -> int:
    """Returns a time of the loop in milliseconds, rounded up, but for the rounding errors of floats."""
    return ceil(round(when * SECOND_MS, 3))


_as_completed: Any = asyncio.as_completed


@wraps(_as_completed)
def _in_order(fs: Iterable[Any], **options: Any) -> Any:
    """Starts the awaitables in the given order in a durable function; asyncio's order depends on addresses."""
    loop = events._get_running_loop()
    if isinstance(loop, Loop):
        fs = [asyncio.ensure_future(one, loop=loop) for one in dict.fromkeys(fs)]
    return _as_completed(fs, **options)


asyncio.as_completed = asyncio.tasks.as_completed = _in_order  # unchanged outside of a durable function
