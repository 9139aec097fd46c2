"""Mutants of retriers that lose count, and of joins that get something else than their branches' results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from stepwell.definition.graph import Json
from stepwell.engine import retry, routing, writing
from stepwell.engine.forks import join
from stepwell.engine.records import Fork
from stepwell.engine.token import Token
from stepwell.engine.waits import aside

Mutant = Callable[[], AbstractContextManager[None]]
_merged, _used_before = join._merged, retry.used_before


@contextmanager
def retriers_forgotten_by_once() -> Iterator[None]:
    """The record before an at_most_once step does not say how often its retriers were used."""
    with mock.patch.object(writing, "used_before", return_value=()):
        yield


@contextmanager
def retriers_forgotten_without_code() -> Iterator[None]:
    """A step whose code was gone as it had begun is tried by retriers that were never used."""
    with mock.patch.object(aside, "used_before", return_value=()):
        yield


@contextmanager
def retriers_counted_together() -> Iterator[None]:
    """Each retrier counts the retries of all."""

    def used_before(token: Token) -> tuple[int, ...]:
        used = _used_before(token)
        return (sum(used),) * len(used)

    with mock.patch.object(routing, "used_before", used_before):
        yield


@contextmanager
def join_gets_what_was_written() -> Iterator[None]:
    """A join gets what its branches have written, not their results."""

    def output_of(fork: Fork, branch: Token) -> Json:
        return branch.result if fork.is_awaited else dict(branch.scope)

    with mock.patch.object(join, "_output_of", output_of):
        yield


@contextmanager
def results_as_they_came() -> Iterator[None]:
    """A join has the results in the order in which the branches ended."""

    def merged(fan_in: Any, branches: Any, at_join: bool) -> Json:
        return _merged(fan_in, sorted(branches, key=join._by_time), at_join)

    with mock.patch.object(join, "_merged", merged):
        yield


OF_RETRIED: tuple[Mutant, ...] = (
    retriers_forgotten_by_once,
    retriers_forgotten_without_code,
    retriers_counted_together,
)
OF_RESULTED: tuple[Mutant, ...] = (join_gets_what_was_written, results_as_they_came)
