"""Live output: what steps emit as they run, for whoever reads along. It stands in no record, and is gone in an hour."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import count
from threading import Lock
from types import AsyncGeneratorType, GeneratorType
from typing import Any

from stepwell.definition.graph import Json
from stepwell.engine.actions import RunStep
from stepwell.engine.records import Topic
from stepwell.engine.waits import run_topic
from stepwell.errors import Conflict, PortError
from stepwell.limits import HOUR_MS
from stepwell.runtime.log.logbook import Standing
from stepwell.runtime.ports import Clock, Event, Ports

EVENTS = ("stepwell.output",)
_logger = logging.getLogger("stepwell.worker")


@dataclass(frozen=True, slots=True)
class Emitted:
    """One piece of output. `is_first`: of a try; what earlier tries of the step emitted is void."""

    cursor: str
    at_ms: int
    token: str
    step: str
    attempt: int
    is_first: bool
    data: Json


class Output:
    """What one try of a step emits. Safe to use from many threads."""

    def __init__(self, put: Callable[[Event], None], clock: Clock, at: Standing, action: RunStep) -> None:
        """`put` writes an event to the mailbox."""
        self._put, self._clock, self._run_id, self._token = put, clock, at.run_id, at.token.id
        self._slot = at.token.slot  # no other step of the token begins after it
        self._step, self._attempt, self._numbers = action.node, action.attempt, count()
        self._lock, self._last_ms = Lock(), 0

    def emit(self, data: Json) -> None:
        """One write. Output that cannot be written is dropped, with a warning: the step goes on without readers."""
        with self._lock:
            self._last_ms = max(self._clock.now_ms(), self._last_ms)
            at_ms, number = self._last_ms, next(self._numbers)
        told = {"token": self._token, "step": self._step, "attempt": self._attempt, "first": number == 0, "data": data}
        own = f"{at_ms:013d}-{self._slot:06d}-{number:06d}-{self._token}"  # in the order of time: a cursor
        event = Event(topic_of(self._run_id), own, told, at_ms, at_ms + HOUR_MS)
        try:
            self._put(event)
        except (PortError, Conflict) as error:
            _logger.warning("output of %s is lost: %s", self._step, error)


def emitting(made: object, emit: Callable[[object], None] | None) -> object:
    """What a step returned: of a generator, each value that it yields is emitted, and what it returns is the result.

    An async generator returns nothing: so its step's result is None.
    """
    if emit is None or not isinstance(made, GeneratorType | AsyncGeneratorType):
        return made
    if isinstance(made, AsyncGeneratorType):
        return _emitting(made, emit)
    while True:
        try:
            emit(next(made))
        except StopIteration as end:
            return end.value


async def _emitting(made: AsyncGenerator[Any, Any], emit: Callable[[object], None]) -> None:
    async with aclosing(made):
        async for value in made:
            emit(value)


def topic_of(run_id: str) -> Topic:
    """Where the output of a run is. Nobody else may send events of this name."""
    return run_topic(*EVENTS, run_id)


async def read_output(ports: Ports, run_id: str, after: str, limit: int) -> Sequence[Emitted]:
    """The output of the last hour that follows this cursor, oldest first."""
    found = await ports.mailbox.pending_events(topic_of(run_id), ports.clock.now_ms(), after)
    return [_emitted(event) for event in found[:limit]]


def _emitted(event: Event) -> Emitted:
    told = event.payload
    return Emitted(event.id, event.at_ms, told["token"], told["step"], told["attempt"], told["first"], told["data"])
