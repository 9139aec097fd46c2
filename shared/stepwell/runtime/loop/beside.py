"""Runs branches of a message beside one whose step takes long, each in a thread of its own."""

from __future__ import annotations

from collections.abc import Coroutine
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from stepwell.runtime.loop.driving import run_now

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor


class Beside:
    """The work of one message in further threads, at most `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._begun: list[Future[None]] = []
        self._threads: ThreadPoolExecutor | None = None

    @property
    def has_room(self) -> bool:
        return len(self._begun) < self._most

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs the work in a thread. Call `join` before the message is done with."""
        if self._threads is None:
            from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - only for who may run several steps

            self._threads = ThreadPoolExecutor(self._most, thread_name_prefix="stepwell-beside")
        self._begun.append(self._threads.submit(copy_context().run, run_now, work))

    def join(self) -> None:
        """Waits for all of the work. Raises what one of them raised, so that the message is redelivered."""
        if self._threads is not None:
            self._threads.shutdown(wait=True)
        for one in self._begun:
            one.result()
