"""Mutants of deletions: each takes one law away, and the simulator must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from stepwell.memory.store import MemoryStore
from stepwell.runtime.calls import erasing
from stepwell.runtime.calls.erasing import Eraser
from stepwell.runtime.durable import warm
from stepwell.runtime.log.alarms import Alarms
from stepwell.runtime.log.messages import Erase
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.ports.headers import Header

_arm, _drop_run, _delete = Alarms.arm, MemoryStore.drop_run, Eraser.delete


@contextmanager
def id_free_at_once() -> Iterator[None]:
    """Another run may have a deleted run's id while messages and workers of that are still under way."""

    async def drop_run(self: MemoryStore, run_id: str, held_until_ms: int) -> bool:
        return await _drop_run(self, run_id, 0)

    with mock.patch.object(MemoryStore, "drop_run", drop_run):
        yield


@contextmanager
def late_writes_kept() -> Iterator[None]:
    """What a late worker writes to a deleted run stays."""

    async def again(self: Eraser, message: Erase) -> None: ...

    with mock.patch.object(Eraser, "again", again):
        yield


@contextmanager
def late_waits_kept() -> Iterator[None]:
    """What a late worker waits for stays."""
    with mock.patch.object(erasing, "_latest", return_value=()):
        yield


@contextmanager
def session_of_the_deleted() -> Iterator[None]:
    """A worker that has kept the session of a deleted run goes on with it in the next run that has the id."""

    def life(at: Standing) -> tuple[str, int]:
        return at.run_id, 0

    with mock.patch.object(warm, "_life", life):
        yield


@contextmanager
def timer_of_the_deleted() -> Iterator[None]:
    """A timer has the name of the one that a deleted run with this id has set."""

    async def arm(self: Alarms, lane: Any, message: Any, at_ms: int, made_ms: int) -> None:
        await _arm(self, lane, message, at_ms, 0)

    with mock.patch.object(Alarms, "arm", arm):
        yield


@contextmanager
def broken_logs_stay() -> Iterator[None]:
    """A run whose deletion died, and to which a late worker wrote, cannot be deleted any more."""

    async def end(self: Eraser, header: Header, who: str) -> None:
        await self._terminate(header.run_id, "it is deleted", who)

    with mock.patch.object(Eraser, "_end", end):
        yield


@contextmanager
def late_children_run_on() -> Iterator[None]:
    """A child that begins while its parent is deleted is erased, but not ended."""

    async def delete(self: Eraser, run_id: str, **options: Any) -> Any:
        async def end(header: Header, who: str) -> None:
            if header.run_id in known:
                await Eraser._end(self, header, who)

        known = {header.run_id for header, _ in await self._family(run_id)}
        with mock.patch.object(self, "_end", end):
            return await _delete(self, run_id, **options)

    with mock.patch.object(Eraser, "delete", delete):
        yield


OF_DELETIONS: tuple[Callable[[], AbstractContextManager[None]], ...] = (
    id_free_at_once,
    late_writes_kept,
    late_waits_kept,
    session_of_the_deleted,
    timer_of_the_deleted,
    late_children_run_on,
)
