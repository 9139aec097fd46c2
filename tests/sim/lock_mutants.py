"""Mutants of locks: each takes one law of the queue away, and the simulator must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from stepwell.definition.compiled import Expression
from stepwell.definition.graph import Json
from stepwell.engine.effect_kinds import ReleaseLocks
from stepwell.engine.limits import lock_records
from stepwell.engine.limits import locks as engine_locks
from stepwell.engine.limits.locks import Claim
from stepwell.engine.records import Kind, Record, Status
from stepwell.engine.token import Locks as Held
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.waits.locks import Locks

_let_go = Locks._let_go
_lets_go = engine_locks._lets_go
_release = Locks.release


@contextmanager
def next_told_once() -> Iterator[None]:
    """Who has left a queue before, and may have died then, tells nobody."""

    async def let_go(self: Locks, claim: Claim, name: str) -> bool:
        queue = await self._read(name)
        return await _let_go(self, claim, name) if claim in queue.claims else False

    with mock.patch.object(Locks, "_let_go", let_go):
        yield


@contextmanager
def released_by_success() -> Iterator[None]:
    """Only who completes lets go."""

    async def release(self: Locks, at: Standing, effect: ReleaseLocks) -> None:
        if at.token.end is None or at.token.end.status is Status.COMPLETED:
            await _release(self, at, effect)

    with mock.patch.object(Locks, "release", release):
        yield


@contextmanager
def taken_as_written() -> Iterator[None]:
    """Several locks are taken in the order in which the definition names them."""

    def names(lock: Expression, value: Json) -> tuple[str, ...]:
        return tuple(dict.fromkeys(lock_records._name(lock, one) for one in value))

    with mock.patch.object(lock_records, "_names", names):
        yield


@contextmanager
def held_when_first_in_one() -> Iterator[None]:
    """Who is first for one of several locks has them all."""

    claimed = Locks.claim

    async def claim(self: Locks, claim: Claim, names: Iterable[str]) -> Any:
        return await claimed(self, claim, tuple(names)[:1])

    with mock.patch.object(Locks, "claim", claim):
        yield


@contextmanager
def let_go_between_tries() -> Iterator[None]:
    """A step's locks are let go by each of its records."""

    def lets_go(locks: Held, record: Record) -> bool:
        return _lets_go(locks, record) or (bool(locks.node) and record.kind is Kind.STEP)

    with mock.patch.object(engine_locks, "_lets_go", lets_go):
        yield


OF_LOCKS: tuple[Callable[[], AbstractContextManager[None]], ...] = (
    next_told_once,
    released_by_success,
    taken_as_written,
    held_when_first_in_one,
    let_go_between_tries,
)
