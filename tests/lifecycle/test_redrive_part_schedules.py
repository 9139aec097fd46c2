"""What a failed wait had comes to the redriven one once, and in order, whoever is held up, or dies, as it is sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from stepwell.engine import left_parts as engine
from stepwell.engine.left_parts import left_parts
from stepwell.engine.records import Kind, Record, Resumption
from stepwell.engine.redriving import Kept
from stepwell.runtime.calls import resending
from stepwell.runtime.calls.redriving import Redriver
from stepwell.runtime.calls.resending import Again, Resender
from tests.lifecycle import part_schedules
from tests.lifecycle.resending_mutants import sent_once_it_goes_on
from tests.lifecycle.schedules import breaks

SCHEDULES = 60
MOST_SCHEDULES = 400  # of one mutant
_redrive, _send = Redriver._redrive, Resender.send


def test_a_redriven_wait_gets_each_part_once_whoever_dies_on_the_way() -> None:
    sent: Counter[int] = Counter()

    def left(*given: Any) -> list[tuple[int, Resumption]]:
        found = left_parts(*given)
        sent[len(found)] += 1
        return found

    with mock.patch.object(resending, "left_parts", left):
        found = {seed: why for seed in range(SCHEDULES) if (why := part_schedules.run_schedule(seed)) is not None}
    assert found == {}
    assert sent.total() - sent[0] > SCHEDULES // 2  # the others completed, or had nothing


@contextmanager
def nothing_is_sent() -> Iterator[None]:
    """The new wait begins with nothing."""
    with mock.patch.object(resending, "left_parts", return_value=[]):
        yield


@contextmanager
def sent_by_its_maker_alone() -> Iterator[None]:
    """Whoever finds the new run there takes what the wait had for sent."""

    async def made(self: Redriver, old: Any, there: Any, *given: Any) -> Any:
        made_by = copy(self)
        if there is not None:
            made_by._resender = mock.AsyncMock(due=mock.AsyncMock(return_value=[]))
        return await _redrive(made_by, old, there, *given)

    with mock.patch.object(Redriver, "_redrive", made):
        yield


@contextmanager
def sent_anew_by_each() -> Iterator[None]:
    """Each caller sends it under ids of its own."""

    async def send(self: Resender, run_id: str, one: Again) -> None:
        for event_id in (one.event.id, f"{one.event.id} {self._ports.clock.now_ms()}"):
            await _send(self, run_id, replace(one, event=replace(one.event, id=event_id)))

    with mock.patch.object(Resender, "send", send):
        yield


@contextmanager
def sent_newest_first() -> Iterator[None]:
    """The newest part is sent as if it had come first."""

    def turned(*given: Any) -> list[tuple[int, Resumption]]:
        found = left_parts(*given)
        return [(at_ms, one) for (at_ms, _), (_, one) in zip(found, reversed(found), strict=True)]

    with mock.patch.object(resending, "left_parts", turned):
        yield


@contextmanager
def each_document_sent() -> Iterator[None]:
    """Documents that were replaced are sent as well."""

    def left(run_id: str, kept: Kept, records: Sequence[Record]) -> list[tuple[int, Resumption]]:
        failed = records[len(kept.records) :]
        came = [(one.at_ms, one.resumption) for one in failed if one.kind is Kind.RECEIVED and one.resumption]
        return [(at_ms + place, one) for place, (at_ms, one) in enumerate(came) if one.kind == "event"]

    with mock.patch.object(resending, "left_parts", left):
        yield


@contextmanager
def forgotten_by_a_second_wait() -> Iterator[None]:
    """A wait whose time was up, and which began once more, has lost what it had."""

    def left(run_id: str, kept: Kept, records: Sequence[Record]) -> list[tuple[int, Resumption]]:
        return left_parts(run_id, kept, [replace(one, attempt=0) for one in records])

    with mock.patch.object(resending, "left_parts", left):
        yield


@contextmanager
def what_stays_is_sent() -> Iterator[None]:
    """What is still there for everybody is sent to the new run alone as well."""
    with mock.patch.object(engine, "_is_sent", side_effect=lambda run_id, wait, one: one.kind == "event"):
        yield


@contextmanager
def what_was_not_taken_is_left() -> Iterator[None]:
    """What came for the failed run alone, and it had not taken, stays with it."""
    with mock.patch.object(Resender, "_unread", return_value=[]):
        yield


OF_PARTS = (
    nothing_is_sent,
    what_was_not_taken_is_left,
    sent_once_it_goes_on,
    sent_by_its_maker_alone,
    sent_anew_by_each,
    sent_newest_first,
    each_document_sent,
    forgotten_by_a_second_wait,
    what_stays_is_sent,
)


@pytest.mark.parametrize("mutant", OF_PARTS)
def test_a_redrive_that_sends_otherwise_is_caught(mutant: Callable[[], AbstractContextManager[None]]) -> None:
    with mutant():
        seeds = range(MOST_SCHEDULES)
        found = next((seed for seed in seeds if breaks(part_schedules.run_schedule, seed)), None)
    assert found is not None
    assert part_schedules.run_schedule(found) is None
