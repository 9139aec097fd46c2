"""Live output: data that steps emit for readers while they run. It is in no record, and is deleted in an hour."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from types import AsyncGeneratorType, GeneratorType
from typing import Any

from stepwell.definition.graph import Json
from stepwell.engine.records import Topic
from stepwell.engine.waits import run_topic
from stepwell.errors import InvalidInput
from stepwell.limits import HOUR_MS
from stepwell.runtime.ports import Event, Ports
from stepwell.values import dataclass

EVENTS = ("stepwell.output",)
_CURSOR = re.compile(r"(\d{12})-(\d{13})")


@dataclass(frozen=True, slots=True)
class Emitted:
    """One piece of output. `is_first`: the first of an attempt; output of earlier attempts is void."""

    cursor: str
    at_ms: int
    token: str
    step: str
    attempt: int
    is_first: bool
    data: Json


def emitting(made: object, emit: Callable[[object], None] | None) -> object:
    """Returns the result of a step; if it is a generator, emits each value that it yields.

    What a generator returns is the step's result. An async generator returns nothing: so its step's result is None.
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
    """Returns the topic of a run's output. Nobody else may send events of this name."""
    return run_topic(*EVENTS, run_id)


async def read_output(ports: Ports, run_id: str, after: str, limit: int) -> Sequence[Emitted]:
    """Returns the output of the last hour after a cursor, oldest first. Raises InvalidInput for a bad cursor."""
    since_ms = ports.clock.now_ms() - HOUR_MS
    number, at_ms = _place(after)
    # The piece of an old cursor may be gone, and its number reused. But then all pieces that are left are newer.
    found = await ports.mailbox.pending_events(topic_of(run_id), since_ms, number if at_ms > since_ms else "")
    pieces = sorted((one for one in found if one.at_ms > since_ms), key=lambda one: one.id)
    return [_emitted(event) for event in pieces[:limit]]


def _place(cursor: str) -> tuple[str, int]:
    if not cursor:
        return "", 0
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise InvalidInput(f"{cursor[:80]!r} is no cursor of a run's output", code="bad_cursor",
                           hint="pass next_cursor")  # fmt: skip
    return found[1], int(found[2])


def named(number: int) -> str:
    """Returns the id of a piece, by its number among those of its run."""
    return f"{number:012d}"


def _emitted(event: Event) -> Emitted:
    told, cursor = event.payload, f"{event.id}-{event.at_ms:013d}"
    return Emitted(cursor, event.at_ms, told["token"], told["step"], told["attempt"], not told["number"], told["data"])
