"""Mutants of the order of events: a wait takes another one than the oldest that is pending."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from stepwell.engine.inputs import Input
from stepwell.runtime.log.door import Answer, Budget, FoundInput
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.advance import Advance
from stepwell.runtime.loop.coordinator import Coordinator
from stepwell.runtime.waits.mailbox import Mailbox

_pending = Mailbox.pending


@contextmanager
def pending_by_name() -> Iterator[None]:
    """Of the pending events a wait takes those of the first name first."""

    async def pending(self: Mailbox, at: Standing) -> list[FoundInput]:
        found: Any = await _pending(self, at)
        return sorted(found, key=lambda one: str(one.given.topic))

    with mock.patch.object(Mailbox, "pending", pending):
        yield


@contextmanager
def offered_out_of_turn() -> Iterator[None]:
    """Who publishes an event offers it to a wait that has an older one to take."""

    async def at_once(self: Coordinator, at: Standing, *_: Any) -> Standing:
        return at

    with mock.patch.object(Coordinator, "_after_older", at_once):
        yield


@contextmanager
def slot_of_another_taken_for_its_own() -> Iterator[None]:
    """A copy of the message has put another event: this one is taken for put as well."""

    async def once(self: Advance, at: Standing, given: Input, by: str, budget: Budget) -> Answer:
        return await self._door.put(at, given, by, budget)

    with mock.patch.object(Advance, "_whole", once):
        yield


OF_TURNS = (pending_by_name, offered_out_of_turn)
OF_COPIES = (slot_of_another_taken_for_its_own,)
