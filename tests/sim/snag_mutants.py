"""Mutants of what is left behind by whoever was held up, and dies or acts on what it read long ago."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from stepwell.engine.actions import Write
from stepwell.engine.durable.session import Session
from stepwell.engine.inputs import EventOffered
from stepwell.engine.records import Status
from stepwell.limits import SECOND_MS, YEAR_MS
from stepwell.memory import store
from stepwell.runtime.log.door import UNLIMITED, Budget
from stepwell.runtime.log.messages import Message, Publish, to_json
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop import coordinator
from stepwell.runtime.loop.coordinator import Coordinator
from stepwell.runtime.loop.pausing import Pausing
from stepwell.runtime.loop.perform import Performer
from stepwell.runtime.ports import Lane, Pause
from stepwell.runtime.ports.headers import Header
from tests.sim import limit_laws
from tests.sim.fn_mutants import keyed_anew_after_code


@contextmanager
def late_event_taken() -> Iterator[None]:
    """Whoever was held up with an event's message offers it all the same, once another has done so and is gone."""
    handle = Coordinator.handle

    async def unleased(self: Coordinator, message: Message, budget: Budget = UNLIMITED) -> None:
        await handle(self, message)

    with mock.patch.object(Coordinator, "handle", unleased):
        yield


@contextmanager
def taken_late_and_kept() -> Iterator[None]:
    """A permit taken just after its run's end stays taken, if the worker died before it saw the end."""
    with mock.patch.object(Performer, "give_back"):
        yield


@contextmanager
def nobody_left_to_the_sweeper() -> Iterator[None]:
    """The law takes a run that no start is in for one that waits for its permit."""
    with mock.patch.object(limit_laws, "is_left_to_the_sweeper", return_value=False):
        yield


@contextmanager
def kept_on_another_way() -> Iterator[None]:
    """A kept session whose patch no record names goes on after another worker's record, written before the patch."""
    with mock.patch.object(Session, "follows", return_value=True):
        yield


@contextmanager
def later_pause_ended() -> Iterator[None]:
    """An unpause that stalls ends whatever pause it finds, and wakes nobody for a later one."""

    def pause_of(header: Header) -> tuple[Status, str]:
        return header.status, header.resumes_as

    with mock.patch.object(store, "_pause_of", pause_of):
        yield


@contextmanager
def ended_run_paused() -> Iterator[None]:
    """A pause that stalls between its reads of the token and of the header pauses a run that has ended since."""

    async def held(self: Pausing, at: Standing, pause: Pause) -> bool:
        return await self._ports.runs.hold(at.header, pause, self._ports.clock.now_ms())

    with mock.patch.object(Pausing, "_held", held):
        yield


@contextmanager
def older_for_nobody() -> Iterator[None]:
    """Of an older event that is not consumed a message is sent, though its wait may not have been registered."""

    async def after_older(self: Coordinator, at: Standing, given: EventOffered, by: str, budget: Budget) -> Standing:
        while isinstance(self._door.decide(at, given, by), Write):
            older = await self._older(at, given, by)
            if older is None:
                break
            publish, later_ms = Publish(older[0], kept=True), self._ports.clock.now_ms() + SECOND_MS
            await self._ports.queue.send(Lane.RESUME, to_json(publish), later_ms)
            at = (await self._advance.take(at, older[1], publish.id, budget)).at
        return at

    with mock.patch.object(Coordinator, "_after_older", after_older):
        yield


@contextmanager
def left_waits_passed_over() -> Iterator[None]:
    """The message about the waits that are left of a broadcast event names the last of all as told."""

    def sent(message: Message) -> dict[str, Any]:
        if isinstance(message, Publish) and message.after:
            message = replace(message, after=(YEAR_MS * 1_000, "", "", 0, 0))
        return to_json(message)

    with mock.patch.object(coordinator, "to_json", sent):
        yield


Mutant = Callable[[], AbstractContextManager[None]]
OF_RACED: tuple[Mutant, ...] = (late_event_taken,)
OF_BROADCAST: tuple[Mutant, ...] = (left_waits_passed_over,)
OF_CROWDED: tuple[Mutant, ...] = (taken_late_and_kept,)
OF_DOUBLED: tuple[Mutant, ...] = (nobody_left_to_the_sweeper,)
OF_PATCHED: tuple[Mutant, ...] = (kept_on_another_way, keyed_anew_after_code)
OF_OVERTAKEN: tuple[Mutant, ...] = (older_for_nobody,)
OF_STOPPED: tuple[Mutant, ...] = (later_pause_ended, ended_run_paused)
