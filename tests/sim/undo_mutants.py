"""Mutants of compensation: each takes one law of the protocol away, and the simulator must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from stepwell.engine import attempts, compensation
from stepwell.engine.actions import RunStep
from stepwell.engine.names import Moment, Undo
from stepwell.engine.records import Kind, Pause, Record, RetryAt
from stepwell.engine.token import Token
from stepwell.memory.store import MemoryStore
from stepwell.runtime.forks import rollback
from stepwell.runtime.forks.rollback import BeforePage, Rollback
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import ForkedParent, Standing
from stepwell.runtime.ports import Appended, Saved

_append = MemoryStore.append
_folded, _of_fork = Logbook._folded, Rollback._of_fork
_input_of, _undo_next, _undone = compensation._input_of, compensation.undo_next, compensation.undone


@contextmanager
def undone_by_log() -> Iterator[None]:
    """One token after the other is undone, whatever followed from what."""

    def newest_first(found: Iterable[Undo]) -> tuple[Undo, ...]:
        return tuple(sorted(found, key=lambda one: (one.token, one.slot), reverse=True))

    with mock.patch.object(rollback, "newest_first", newest_first):
        yield


@contextmanager
def undone_by_clock() -> Iterator[None]:
    """Of two commits of one millisecond, either may be undone first."""

    def newest_first(found: Iterable[Undo]) -> tuple[Undo, ...]:
        return tuple(sorted(found, key=lambda one: -one.at_ms))

    with mock.patch.object(rollback, "newest_first", newest_first):
        yield


@contextmanager
def undone_as_written() -> Iterator[None]:
    """Of a DAG's steps that end in one millisecond, the last in the definition is undone first."""
    with mock.patch.object(rollback, "causal_order", lambda fork: range(fork.width)):
        yield


async def _leave_open(fork: ForkedParent, page: int) -> None:
    """Ends no branch."""


@contextmanager
def undone_while_running() -> Iterator[None]:
    """What is to be undone is read while branches still run."""

    async def of_fork(self: Rollback, fork: ForkedParent, by: str, before: BeforePage, since_ms: int) -> list[Undo]:
        return await _of_fork(self, fork, by, _leave_open, since_ms)

    with mock.patch.object(Rollback, "_of_fork", of_fork):
        yield


@contextmanager
def undone_by_two() -> Iterator[None]:
    """What a compensation came to is written over what another worker's came to."""

    async def append(self: MemoryStore, run_id: str, token: str, slot: int, body: str, **named: Any) -> Appended:
        if '"kind":"undone"' not in body:
            return await _append(self, run_id, token, slot, body, **named)
        log = self._log(run_id, token)
        log.slots = sorted({*log.slots, slot})
        log.records[slot] = Saved(slot, body)
        return None

    with mock.patch.object(MemoryStore, "append", append):
        yield


@contextmanager
def undone_although_it_failed() -> Iterator[None]:
    """A compensation that fails for good is passed over."""

    def undone(moment: Moment, token: Token, action: RunStep, outcome: Any, policy: Any) -> Record:
        record = _undone(moment, token, action, outcome, policy)
        if record.error is None or isinstance(record.next, RetryAt):
            return record
        return _undone(moment, token, action, replace(outcome, failure=None, pause=None), policy)

    with mock.patch.object(attempts, "undone", undone), mock.patch.object(compensation, "undone", undone):
        yield


@contextmanager
def undone_from_the_start() -> Iterator[None]:
    """Who reads the log does not see how far compensation had come."""

    async def folded(self: Logbook, at: Standing) -> Standing:
        found = await _folded(self, at)
        undoing = found.token.undoing
        return replace(found, token=replace(found.token, undoing=undoing and replace(undoing, undone=())))

    with mock.patch.object(Logbook, "_folded", folded):
        yield


@contextmanager
def undone_though_it_failed_itself() -> Iterator[None]:
    """A step that failed is undone like one that was committed."""

    def is_commit(record: Record, before: Token) -> bool:
        return record.kind in {Kind.STEP, Kind.MOVED} and not isinstance(record.next, RetryAt | Pause)

    with mock.patch.object(compensation, "_is_commit", is_commit):
        yield


@contextmanager
def undone_under_many_keys() -> Iterator[None]:
    """Each try of a compensation has a key of its own."""

    def undo_next(moment: Moment, token: Token) -> Any:
        action = _undo_next(moment, token)
        return replace(action, key=f"{action.key}{action.attempt}") if isinstance(action, RunStep) else action

    with mock.patch("stepwell.engine.decide.undo_next", undo_next):
        yield


@contextmanager
def told_of_what_came_later() -> Iterator[None]:
    """A compensation gets the input that its step would have in the clock's own time, not the attempt's."""

    def input_of(moment: Moment, token: Token, node: Any) -> Any:
        return _input_of(replace(moment, now_ms=moment.now_ms + 1), token, node)

    with mock.patch.object(compensation, "_input_of", input_of):
        yield


OF_UNDOING: tuple[Callable[[], AbstractContextManager[None]], ...] = (
    undone_by_log,
    undone_by_clock,
    undone_as_written,
    undone_while_running,
    undone_by_two,
    undone_although_it_failed,
    undone_from_the_start,
    undone_though_it_failed_itself,
    undone_under_many_keys,
    told_of_what_came_later,
)
