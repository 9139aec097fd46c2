"""Coroutines awaited together: each is a task of the function, so that they share its variables."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from stepwell.definition.graph import Json
from stepwell.engine.durable.session import CURRENT
from stepwell.engine.durable.turns import Asked
from stepwell.limits import SECOND_MS
from stepwell.runtime.durable.operations import Operation, Reader, is_once

T = TypeVar("T")


class Gathered(Operation[T]):
    """An operation made of tasks: each of their operations is recorded, but not the whole."""

    def __init__(self, asked: Asked, read: Reader, body: Callable[[], Coroutine[Any, Any, T]]) -> None:
        """Takes `body`, and `asked` and `read` for replaying the fork that releases before 0.2 recorded."""
        super().__init__(asked, lambda made: made)
        self._body, self._read_fork = body, read

    def raw(self) -> Generator[Any, Any, Any]:
        session = CURRENT.get(None)
        if session is not None and session.is_recorded_fork(self.asked):
            values: Json = yield self.asked
            return self._read_fork(values)
        made: T = yield from self._body().__await__()
        return made


class Joined(Operation[T]):
    """Several operations as one, which one record begins; tasks, if one of them is awaited elsewhere, too."""

    def __init__(
        self, asked: Asked, read: Reader, parts: Sequence[Operation[Any]], body: Callable[[], Coroutine[Any, Any, T]]
    ) -> None:
        super().__init__(asked, read)
        self.parts, self._body = parts, body

    def _come(self) -> Generator[Any, Any, T]:
        if self._needs_tasks() and is_once():
            made: T = yield from self._body().__await__()
            return made
        for one in self.parts:
            one.begins_with()
        try:
            made = self.read((yield from self.raw()))
        except GeneratorExit:
            raise
        except BaseException:
            self._leave_parts()
            raise
        self._leave_parts()
        return made

    def _leave_parts(self) -> None:
        for one in self.parts:
            one.ended_with()

    def _needs_tasks(self) -> bool:
        found = [id(one) for one in _whole(self.parts)]
        return len({*found}) < len(found) or any(one.is_shared() for one in self.parts)


def _whole(parts: Sequence[Operation[Any]]) -> Iterator[Operation[Any]]:
    for one in parts:
        yield one
        yield from _whole(one.parts)


async def all_of(awaited: Iterable[Awaitable[Any]], max_concurrency: int, tolerated: int) -> list[Any]:
    """Returns the results in order, failures in their places. Too many failures raise, and cancel the others.

    What begins once another has ended is no consequence of how that ended: a redrive keeps it.
    """
    loop: Any = asyncio.get_running_loop()
    ended: asyncio.Queue[asyncio.Task[Any]] = asyncio.Queue()
    left, since = iter(awaited), loop.since
    tasks = _start_tasks(islice(left, max_concurrency or None), ended)
    failed = has_ended = 0
    try:
        while has_ended < len(tasks):
            task = await ended.get()
            has_ended += 1
            failed += task.cancelled() or task.exception() is not None
            if failed > tolerated:
                task.result()
            with loop.made_since(since):
                tasks += _start_tasks(islice(left, 1), ended)
    except GeneratorExit:  # closed with its session: nothing may be awaited any more
        raise
    except BaseException:
        await _cancelled(tasks)
        raise
    finally:
        _close(left)
    return [_outcome(task) for task in tasks]


async def first_of(awaited: Iterable[Awaitable[Any]]) -> tuple[int, Any]:
    """Returns the index and the result of the first to end; the others are cancelled."""
    ended: asyncio.Queue[asyncio.Task[Any]] = asyncio.Queue()
    tasks = _start_tasks(awaited, ended)
    try:
        task = await ended.get()
    except GeneratorExit:
        raise
    except BaseException:
        await _cancelled(tasks)
        raise
    await _cancelled(tasks)
    return tasks.index(task), task.result()


def _start_tasks(awaited: Iterable[Awaitable[Any]], ended: asyncio.Queue[asyncio.Task[Any]]) -> list[asyncio.Task[Any]]:
    tasks: list[Any] = []
    for one in awaited:
        tasks.append(asyncio.ensure_future(_in_loop(one)))
        tasks[-1].add_done_callback(ended.put_nowait)
    return tasks


def _in_loop(one: Awaitable[Any]) -> Awaitable[Any]:
    """Returns an `asyncio.sleep` in place of a timer: the loop's timers need no record of their own."""
    if isinstance(one, Operation) and one.is_timer and one.asked.wait is not None:
        if one.has_begun and is_once():
            return one
        one.taken()
        return asyncio.sleep((one.asked.wait.timeout_ms or 0) / SECOND_MS)
    return one


async def _cancelled(tasks: list[asyncio.Task[Any]]) -> None:
    left = [task for task in tasks if not task.done()]
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left)
    for task in tasks:
        _outcome(task)  # else asyncio warns that its exception was never retrieved


def _outcome(task: asyncio.Task[Any]) -> Any:
    if not task.done():
        return None
    if task.cancelled():
        return asyncio.CancelledError()
    return task.exception() or task.result()


def _close(left: Iterator[Awaitable[Any]]) -> None:
    """Closes coroutines that were never started: Python warns of those that are not awaited."""
    for one in left:
        if isinstance(one, Coroutine):
            one.close()
