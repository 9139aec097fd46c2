"""Dead letters: lists messages that could not be handled, explains why, sends them back or deletes them.

A message is sent back to the lane that it came from, with its counts begun anew, and is then deleted from the
dead-letter queue. A crash in between leaves it in both: every message may come twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from stepwell.definition.graph import Json
from stepwell.engine.names import iso
from stepwell.errors import EngineFault, NewerFormat, NotFound
from stepwell.limits import REPUBLISHED
from stepwell.runtime.log import retries
from stepwell.runtime.log.messages import Message, Publish, Update, Wake, from_json
from stepwell.runtime.ports import Lane
from stepwell.values import dataclass


@dataclass(frozen=True, slots=True)
class Letter:
    """A message in a dead-letter queue.

    `queue`: where it came from. `body` is None if it is no JSON object. `deliveries`: to its handler; 0 if unknown.
    `due_ms`: when it is redelivered by itself; None if somebody has to send it back.
    """

    id: str
    queue: str
    body: Mapping[str, Json] | None
    sent_ms: int
    deliveries: int
    due_ms: int | None = None


class DeadQueue(Protocol):
    """The dead-letter queues. Raises PortError."""

    async def letters(self, limit: int) -> Sequence[Letter]:
        """Returns up to `limit` of the messages, and takes none."""

    async def send_back(self, ids: frozenset[str] | None) -> Sequence[str]:
        """Sends these messages back, or all, but for unreadable ones. Returns the ids of those it sent.

        Of many, it sends some; whoever wants all calls again until there are none.
        """

    async def delete(self, ids: frozenset[str]) -> Sequence[str]:
        """Deletes these messages for good. Returns the ids of those it deleted."""


class NoDeadQueue:
    """Stands in where the process has no dead-letter queue."""

    async def letters(self, limit: int) -> Sequence[Letter]:
        return ()

    async def send_back(self, ids: frozenset[str] | None) -> Sequence[str]:
        return ()

    async def delete(self, ids: frozenset[str]) -> Sequence[str]:
        return ()


def show_letter(letter: Letter) -> dict[str, Json]:
    """Returns a dead letter as the API shows it: without an event's payload."""
    body = letter.body or {}
    message = _message(letter)
    event: Json = None
    if isinstance(message, Publish):
        event = {"name": message.event.topic.name, "key": message.event.topic.key[1:], "id": message.event.id}
    return {
        "id": letter.id,
        "queue": letter.queue,
        "type": str(body.get("type", "unreadable")),
        "run_id": _text(body.get("run_id") or (body.get("wake") or {}).get("run_id")),
        "token": _text(body.get("token")),
        "event": event,
        "why": _why(letter, message),
        "sent_at": iso(letter.sent_ms) if letter.sent_ms else None,
        "deliveries": letter.deliveries,
        "sent_again": retries.times(body, retries.REPUBLISHED),
    }


async def letter(dead: DeadQueue, letter_id: str, limit: int) -> Letter:
    """Returns the dead letter with this id. Raises NotFound."""
    found = [one for one in await dead.letters(limit) if one.id == letter_id]
    if not found:
        raise NotFound(f"there is no dead letter {letter_id!r}", code="unknown_letter",
                       hint="stepwell dlq list shows them; it may have been sent back since")  # fmt: skip
    return found[0]


def sent_back(body: Mapping[str, Json]) -> tuple[Lane, Mapping[str, Json]]:
    """Returns the lane for a message, and its body with fresh counts, as that of a message whose worker may have begun.

    Raises EngineFault, NewerFormat.
    """
    return retries.lane_of(from_json(body)), retries.again(retries.fresh(body))


def is_readable(letter: Letter) -> bool:
    """Tells whether this version can read the message. One of a newer version can be read by that one."""
    return not isinstance(_message(letter), EngineFault)


def _message(letter: Letter) -> Message | EngineFault | NewerFormat:
    if letter.body is None:
        return EngineFault("it is not a JSON object", code="broken_message")
    try:
        return from_json(letter.body)
    except (EngineFault, NewerFormat) as error:
        return error


def _why(letter: Letter, message: Message | EngineFault | NewerFormat) -> str:
    if isinstance(message, NewerFormat):
        return f"it is of a newer version, so it stays until that is deployed: {message.message}"
    if isinstance(message, EngineFault):
        return f"it cannot be read, so it stays until its queue drops it, or somebody deletes it: {message.message}"
    if isinstance(message, Wake | Update):
        why = "each worker died of it, or failed to say so"
        return f"{why}: {_again(letter) or 'the sweeper wakes its run if that stands still'}"
    if again := _again(letter):
        return f"its handler failed each time; {again}"
    times = retries.times(letter.body or {}, retries.REPUBLISHED)
    if times >= REPUBLISHED:
        return f"its handler failed each time; the sweeper has sent it again {times} times and leaves it to you"
    return f"its handler failed each time; the sweeper sends it again ({times} of {REPUBLISHED} times so far)"


def _again(letter: Letter) -> str:
    """Returns when the message is redelivered by itself; "" if only the sweeper or a person sends it back."""
    return "" if letter.due_ms is None else f"it comes again by itself at {iso(letter.due_ms)}"


def _text(value: Json) -> str | None:
    return str(value) if value else None
