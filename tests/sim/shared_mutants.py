"""Mutants of transactions and of functions' locks: writes without a record, untold refusals, locks kept too long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from stepwell.engine.actions import Write
from stepwell.engine.durable import operations
from stepwell.engine.durable.held_back import HeldBack
from stepwell.engine.durable.transact import Refusal
from stepwell.engine.limits import locks as engine_locks
from stepwell.engine.records import End
from stepwell.memory.items import changes_of
from stepwell.memory.store import MemoryStore
from stepwell.runtime.log.door import Door

_append, _decide = MemoryStore.append, Door.decide
_lets_go, _refused = engine_locks._lets_go, operations.refused


@contextmanager
def written_without_a_record() -> Iterator[None]:
    """The writes of a transaction are made although its slot is taken."""

    async def append(self: MemoryStore, run_id: str, token: str, slot: int, body: str, **options: Any) -> Any:
        if slot in self._log(run_id, token).records:
            changes = changes_of(options.get("also", ()), self.item)
            self.change_items(() if isinstance(changes, Refusal) else changes)
        return await _append(self, run_id, token, slot, body, **options)

    with mock.patch.object(MemoryStore, "append", append):
        yield


@contextmanager
def writes_of_tasks_left_out() -> Iterator[None]:
    """The transaction of a task is its record alone."""

    def decided(self: Door, at: Any, *rest: Any) -> Any:
        action = _decide(self, at, *rest)
        return replace(action, also=()) if isinstance(action, Write) and at.token.branch else action

    with mock.patch.object(Door, "decide", decided):
        yield


@contextmanager
def refusal_untold() -> Iterator[None]:
    """A transaction that was refused is recorded as one that was written."""
    with mock.patch.object(operations, "refused", lambda *given: replace(_refused(*given), error=None)):
        yield


@contextmanager
def locks_of_functions_kept() -> Iterator[None]:
    """A lock that a function leaves is held until its run ends."""

    def lets_go(locks: Any, record: Any) -> bool:
        return isinstance(record.next, End) if locks.of_function else _lets_go(locks, record)

    with mock.patch.object(engine_locks, "_lets_go", lets_go):
        yield


@contextmanager
def locks_not_held_back() -> Iterator[None]:
    """A task asks for a lock while others have something under way."""
    with mock.patch.object(HeldBack, "hold_back", return_value=None):
        yield


OF_SHARED = (
    written_without_a_record,
    writes_of_tasks_left_out,
    refusal_untold,
    locks_of_functions_kept,
    locks_not_held_back,
)
