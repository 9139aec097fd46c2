"""What is more than awaited: a callback has a URL, a lock is held, a limit entered. And handlers, with validators."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from stepwell.definition.graph import Json, Throttle
from stepwell.engine.locks import LOCK, UNLOCK
from stepwell.engine.turns import Asked
from stepwell.errors import InvalidInput
from stepwell.runtime.durable.arguments import throttle_of
from stepwell.runtime.durable.operations import Operation
from stepwell.runtime.durable.running import going_on


def nothing(value: Json) -> None:
    """What is read of an operation that gives nothing."""


class Callback(Operation[Any]):
    """Waits for what somebody outside posts to its URL, which works once."""

    def __init__(self, asked: Asked, read: Callable[[Json], Any], url: Callable[[], str]) -> None:
        super().__init__(asked, read)
        self._url = url

    @property
    def url(self) -> str:
        """Where the result is posted. Whoever has it may end the wait: it belongs in no result, and in no log."""
        self.taken()  # it is in use, whether it is awaited or not
        return self._url()


class Lock:
    """Held from when it was entered until it is left: both are operations."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    async def __aenter__(self) -> None:
        await Operation[None](Asked(LOCK, LOCK, locks=self._names), nothing)

    async def __aexit__(self, *raised: object) -> None:
        await Operation[None](Asked(UNLOCK, UNLOCK), nothing)


class Limit:
    """A named limit. Within its block each attempt of a step, or of `ctx.run`, takes a permit and gives it back."""

    def __init__(self, throttle: Throttle) -> None:
        self.throttle = throttle

    async def __aenter__(self) -> None:
        going_on()
        task = running_task()
        if (other := _entered(task)) is not None:
            both = f"ctx.limit({self.throttle.limit!r}) within ctx.limit({other.limit!r})"
            raise InvalidInput(f"{both}: a step has one permit", code="limit_nested",
                               hint="leave the one before you enter the other")  # fmt: skip
        task.throttle = self.throttle

    async def __aexit__(self, *raised: object) -> None:
        task = running_task()  # of somebody else, where an abandoned coroutine is closed: it need not be a task of ours
        if _entered(task) is self.throttle:
            task.throttle = None


def running_task() -> Any:
    """The task that runs; None where none does, as where an abandoned coroutine is closed: a context variable would be
    that of whoever runs then, and setting it there ended Python 3.11 with a segmentation fault.
    """
    loop = asyncio._get_running_loop()
    return None if loop is None else asyncio.current_task(loop)


def _entered(task: Any) -> Throttle | None:
    """The limit whose block the task is in, or was made in."""
    found: Throttle | None = getattr(task, "throttle", None)
    return found


def limited_by(given: str | Mapping[str, Json] | Limit | None) -> Throttle | None:
    """The limit that an operation is made under: that which it names, else that of the block."""
    if given is None:
        return _entered(running_task())
    return given.throttle if isinstance(given, Limit) else throttle_of(given)


class Handler:
    """What `ctx.update` makes of a function, which may still be called as one."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name, self._function = name, function

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._function(*args, **named)

    def validator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Has the function look at each update before: what it raises refuses that. It changes nothing."""
        if not callable(function) or inspect.iscoroutinefunction(function):
            raise InvalidInput(f"update {self._name} has a plain function as its validator, not {function!r:.80}",
                               code="bad_update_handler")  # fmt: skip
        going_on().validators[self._name] = function
        return function
