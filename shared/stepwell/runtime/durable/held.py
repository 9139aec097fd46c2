"""Operations that are more than awaited: a callback has a URL, a lock is held."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepwell.definition.graph import Json
from stepwell.engine.locks import LOCK, UNLOCK
from stepwell.engine.turns import Asked
from stepwell.runtime.durable.operations import Operation


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
