"""Operations that are more than awaited: a callback has a URL, a lock is held. And handlers, which have validators."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from stepwell.definition.graph import Json
from stepwell.engine.locks import LOCK, UNLOCK
from stepwell.engine.turns import Asked
from stepwell.errors import InvalidInput
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
