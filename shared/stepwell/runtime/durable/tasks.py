"""Tasks of a durable function: asyncio's tasks, which may also await operations."""

from __future__ import annotations

import asyncio
import sys
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, NoReturn

from stepwell.definition.graph import Throttle
from stepwell.engine.durable.finished import task_name
from stepwell.engine.durable.runner import Pending
from stepwell.engine.durable.turns import Asked
from stepwell.errors import Cancelled
from stepwell.runtime.durable.places import foreign, waits_at
from stepwell.runtime.steps.threads import StepInterrupted

if TYPE_CHECKING:
    from stepwell.runtime.durable.loop import Loop

_enter_task: Any = asyncio.tasks._enter_task  # these accept any object that behaves like a task
_leave_task: Any = asyncio.tasks._leave_task
_register_task: Any = asyncio.tasks._register_task
_TAKES_BACK = sys.version_info >= (3, 13)  # the last `uncancel` takes back a cancel that was not raised yet
_CLOSES = 20  # tries per coroutine: each `finally` that awaits takes one more


class RunCancelled(Cancelled, asyncio.CancelledError):
    """The run is cancelled. asyncio takes it for the cancellation of a task."""


class Ready:
    """A task that can go on, with the result or error of what it awaited."""

    __slots__ = ("error", "task", "value")

    def __init__(self, task: Task, value: object = None, error: BaseException | None = None) -> None:
        self.task, self.value, self.error = task, value, error

    def cancelled(self) -> bool:
        return False

    def _run(self) -> None:
        task = self.task
        task.context.run(task.step, self.value, self.error)


class _Numbered:
    """Hashes by a number that is the same in every replay, and so are asyncio's sets of futures and tasks."""

    _number: int

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


def _without_this_frame(error: BaseException) -> BaseException:
    """Returns the error that is being handled, without the frame that handles it: that would keep its task alive."""
    trace = sys.exc_info()[2]
    return BaseException.with_traceback(error, trace and trace.tb_next)


class Future(_Numbered, asyncio.Future[Any]):
    """asyncio's future, with a number."""

    def __init__(self, loop: Loop) -> None:
        super().__init__(loop=loop)
        self._number = next(loop.numbers)


_init: Any = asyncio.Future.__init__  # the part of a task that is a future
_cancelled: Any = asyncio.Future.cancel
_returned: Any = asyncio.Future.set_result
_failed: Any = asyncio.Future.set_exception


class Task(_Numbered, asyncio.Task[Any]):
    """Drives a coroutine. An `Asked` that it yields is an operation, whose result the session brings.

    asyncio's own tasks await futures alone. Libraries check for `asyncio.Task`, so this is a subclass; but it uses only
    the future of that class, and implements the rest itself.
    """

    _coro: Any = None  # these names are asyncio's; libraries read some of them
    _fut_waiter: asyncio.Future[Any] | None = None
    _must_cancel: bool = False

    def __init__(
        self, coro: Any, loop: Loop, *, name: str = "Task-0", context: Context | None = None, by: str = ""
    ) -> None:
        """`by`: its name in the log (`engine/durable/finished.py`), the same in every replay and in a redriven run."""
        _init(self, loop=loop)
        self._number = next(loop.numbers)
        self.by, self._made = by, 0
        self._coro, self._own, self._name = coro, loop, name
        self.context = copy_context() if context is None else context
        maker = asyncio.current_task(loop) if context is None else None
        self.throttle: Throttle | None = getattr(maker, "throttle", None)  # of the `ctx.limit` block that it is in
        self.pending: Pending | None = None
        self._fut_waiter = None
        self._must_cancel, self._cancels, self._message = False, 0, None
        self._raised: asyncio.CancelledError | None = None
        self._told: RunCancelled | None = None  # the cancel of its run, not yet raised in it
        _register_task(self)

    def next_by(self, slot: int) -> str:
        """Returns the name of the next task that this one makes, in reaction to the record in this slot."""
        self._made += 1
        return task_name(self.by, self._made, slot)

    # -- running

    def step(self, value: object = None, error: BaseException | None = None) -> None:
        """Runs the coroutine until it awaits something."""
        if self.done():
            return
        if self._must_cancel or self._told is not None:
            error = self._met(error)
        self._fut_waiter = self.pending = None
        _enter_task(self._own, self)
        try:
            awaited = self._coro.send(value) if error is None else self._coro.throw(error)
        except StopIteration as end:
            self._ended()
            if self._must_cancel:  # cancelled as it returned
                self._must_cancel = False
                _cancelled(self, self._message)
            else:
                _returned(self, end.value)
        except asyncio.CancelledError as raised:
            self._ended()
            self._raised = raised
            _cancelled(self, raised.args[0] if type(raised) is asyncio.CancelledError and raised.args else None)
        except StepInterrupted:  # the turn's time is up
            raise
        except BaseException as raised:
            self._ended()
            _failed(self, _without_this_frame(raised))
            self._own.has_failed(self)
        else:
            self._await(awaited)
        finally:
            _leave_task(self._own, self)

    def _met(self, error: BaseException | None) -> BaseException | None:
        """Returns the error to raise in the coroutine: a cancel that came while it was ready, its run's, or `error`."""
        if self._must_cancel:
            self._must_cancel = False
            if not isinstance(error, asyncio.CancelledError):
                error = self._cancelled_error()
        if self._told is not None and isinstance(error, asyncio.CancelledError):
            error, self._told = self._told, None
        return error

    def _ended(self) -> None:
        self._own.tasks.pop(self, None)

    def _await(self, awaited: Any) -> None:
        if type(awaited) is Asked:
            self.pending = Pending(awaited, self, by=self.by)
            self._own.fresh.append(self.pending)
            if self._must_cancel:
                self._must_cancel = False
                self._give_up()
        elif awaited is None:
            self._own.ready.append(Ready(self))
        elif awaited is self:
            self._own.ready.append(Ready(self, error=RuntimeError(f"Task cannot await on itself: {self!r}")))
        elif getattr(awaited, "_asyncio_future_blocking", None) and awaited.get_loop() is self._own:
            awaited._asyncio_future_blocking = False
            awaited.add_done_callback(self._wake, context=self.context)
            self._fut_waiter = awaited
            if self._must_cancel and awaited.cancel(self._message):
                self._must_cancel = False
        else:
            what = f"it awaited {type(awaited).__name__}, which is not its own"
            self._own.ready.append(Ready(self, error=foreign(what, waits_at(self._coro))))

    def _wake(self, future: asyncio.Future[Any]) -> None:
        try:
            future.result()
        except BaseException as error:
            self.step(error=_without_this_frame(error))
        else:
            self.step()

    def _give_up(self) -> None:
        if self.pending is not None:
            self._own.give_up(self.pending)
            self.pending = None
        self._own.ready.append(Ready(self, error=self._cancelled_error()))

    def _cancelled_error(self) -> asyncio.CancelledError:
        return asyncio.CancelledError() if self._message is None else asyncio.CancelledError(self._message)

    def interrupt(self, error: RunCancelled) -> None:
        """Cancels the task, with this error as the reason."""
        if not self.done():
            self._told = error
            self.cancel()

    def outcome(self) -> tuple[object, BaseException | None]:
        """Returns the coroutine's result and its exception, of which one is None."""
        if self.cancelled():
            return None, self._raised or asyncio.CancelledError()
        error = self.exception()
        return (self.result(), None) if error is None else (None, error)

    def close(self) -> None:
        """Closes the coroutine. A `finally` that awaits is interrupted, too."""
        _enter_task(self._own, self)  # code that is closed may ask for the current task
        try:
            self.context.run(self._close)
        finally:
            _leave_task(self._own, self)
        if not self.done():
            _cancelled(self)

    def _close(self) -> None:
        for _ in range(_CLOSES):
            try:
                self._coro.close()
            except RuntimeError:
                continue
            except Exception:  # its state is in the log: errors of a `finally` here will be met again on replay
                return
            return

    # -- asyncio

    def cancel(self, msg: Any = None) -> bool:
        if self.done():
            return False
        self._cancels += 1
        self._message = msg
        if self._fut_waiter is not None and self._fut_waiter.cancel(msg):
            return True
        if self.pending is not None:
            self._give_up()
        else:
            self._must_cancel = True
        return True

    def cancelling(self) -> int:
        return self._cancels

    def uncancel(self) -> int:
        if self._cancels:
            self._cancels -= 1
            if not self._cancels and _TAKES_BACK:
                self._must_cancel = False
        return self._cancels

    def get_coro(self) -> Any:
        return self._coro

    def get_context(self) -> Context:
        return self.context

    def get_name(self) -> str:
        return self._name

    def set_name(self, name: object) -> None:
        self._name = str(name)

    def get_stack(self, *, limit: int | None = None) -> list[Any]:
        frame = getattr(self._coro, "cr_frame", None)
        return [] if frame is None else [frame]

    def print_stack(self, *, limit: int | None = None, file: Any = None) -> None:
        """Does nothing: a function's place is in its run's history."""

    def set_result(self, result: Any) -> NoReturn:
        raise RuntimeError("Task does not support set_result operation")

    def set_exception(self, exception: Any) -> NoReturn:
        raise RuntimeError("Task does not support set_exception operation")

    def __repr__(self) -> str:
        return f"<Task {self._name} {'done' if self.done() else 'pending'}>"
