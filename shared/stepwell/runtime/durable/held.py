"""Objects of `ctx` that do more than be awaited: callbacks with URLs, locks, limits, and update handlers."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from stepwell.definition.graph import Json, Throttle
from stepwell.engine.durable.turns import Asked
from stepwell.engine.limits.locks import LOCK, UNLOCK
from stepwell.errors import InvalidInput
from stepwell.runtime.durable.arguments import throttle_of
from stepwell.runtime.durable.operations import Operation
from stepwell.runtime.durable.running import going_on, running


def nothing(value: Json) -> None:
    """Reads the result of an operation that returns nothing."""


class Callback(Operation[Any]):
    """Waits for a post to its URL, which works once."""

    def __init__(self, asked: Asked, read: Callable[[Json], Any], url: Callable[[], str]) -> None:
        super().__init__(asked, read)
        self._url = url

    @property
    def url(self) -> str:
        """Returns the URL to post the result to. Keep it out of results and logs: whoever has it can end the wait."""
        self.taken()  # it is in use, even if it is never awaited
        return self._url()


class Lock:
    """A lock, held from entering its block to leaving it: both are operations."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    async def __aenter__(self) -> None:
        await Operation[None](Asked(LOCK, LOCK, locks=self._names), nothing)

    async def __aexit__(self, raised: type[BaseException] | None, error: BaseException | None, *more: object) -> None:
        if raised is GeneratorExit:  # a function that is closed awaits nothing more
            return
        session = running()
        session.leaves_with = error if isinstance(error, Exception) else None
        try:
            await Operation[None](Asked(UNLOCK, UNLOCK), nothing)
        finally:
            session.leaves_with = None


class Limit:
    """A named limit. Within its block each attempt of a step, or of `ctx.run`, takes a permit and gives it back."""

    is_known: ClassVar = False  # a block was entered in this process; in most none is, so that nobody looks for one

    def __init__(self, throttle: Throttle) -> None:
        self.throttle = throttle

    async def __aenter__(self) -> None:
        going_on()
        task = running_task()
        if (other := _entered(task)) is not None:
            both = f"ctx.limit({self.throttle.limit!r}) within ctx.limit({other.limit!r})"
            raise InvalidInput(f"{both}: a step has one permit", code="limit_nested",
                               hint="leave the one before you enter the other")  # fmt: skip
        Limit.is_known = True
        task.throttle = self.throttle

    async def __aexit__(self, *raised: object) -> None:
        task = running_task()  # when an abandoned coroutine is closed, this may be any task, or none
        if _entered(task) is self.throttle:
            task.throttle = None


def running_task() -> Any:
    """Returns the current task; None if there is none, as when an abandoned coroutine is closed.

    A context variable would not do: it would belong to whatever runs at that time, and setting it there crashed Python
    3.11 with a segmentation fault.
    """
    loop = asyncio._get_running_loop()
    return None if loop is None else asyncio.current_task(loop)


def _entered(task: Any) -> Throttle | None:
    """Returns the throttle of the limit whose block the task is in, or was made in; None if there is none."""
    found: Throttle | None = getattr(task, "throttle", None)
    return found


def limited_by(given: str | Mapping[str, Json] | Limit | None) -> Throttle | None:
    """Returns the throttle of an operation: the one that it names, else that of the block around it."""
    if given is None:
        return _entered(running_task()) if Limit.is_known else None
    return given.throttle if isinstance(given, Limit) else throttle_of(given)


class Handler:
    """An update's handler, as `ctx.update` returns it. It can still be called as a function."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name, self._function = name, function

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._function(*args, **named)

    def validator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Registers a function that sees each update first: raising refuses the update. It changes nothing."""
        if not callable(function) or inspect.iscoroutinefunction(function):
            raise InvalidInput(f"update {self._name} has a plain function as its validator, not {function!r:.80}",
                               code="bad_update_handler")  # fmt: skip
        going_on().validators[self._name] = function
        return function
