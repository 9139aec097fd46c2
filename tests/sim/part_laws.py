"""The laws of waits for several things: what has come is there once, and the wait is over when all of it has."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from stepwell.engine.records import Arm, Kind, Parked, Record, Resumption, Topic
from stepwell.engine.token import Token
from stepwell.engine.waits.code import DEPLOYED
from stepwell.errors import ExpressionError
from stepwell.runtime.calls.callbacks import EVENT_ID
from stepwell.runtime.ports import Event
from tests.sim.programs import expression
from tests.sim.world import World

_ANSWERS = frozenset({"event", "approved", "rejected"})


@dataclass
class _Wait:
    """A wait of a token's log, and what came for it."""

    parked: Parked
    came: list[Resumption] = field(default_factory=list)


def taken_by(log: list[Record]) -> Iterator[tuple[str, int]]:
    """The events that a log's waits have taken, with the arms that did."""
    parked: Parked | None = None
    for record in log:
        parked, came = record.parked or parked, record.resumption
        if came is not None and came.event_id:
            topics = parked.arms[came.arm].topics if parked is not None and came.arm < len(parked.arms) else ()
            yield id_of(topics[0], came.event_id) if topics else came.event_id, came.arm


def id_of(topic: Topic, event_id: str) -> str:
    """What names an event: those of callbacks have one id, and a topic each."""
    return f"{topic.key} {event_id}" if event_id == EVENT_ID else event_id


def laws_of_parts(world: World, logs: dict[str, list[Record]]) -> Iterator[str]:
    """Raises nothing; tells what is broken."""
    for token, log in logs.items():
        had = Counter(taken_by(log))  # one that stays is for each arm that it fits
        yield from (f"law 4: {token} had event {event} {count} times" for (event, _), count in had.items() if count > 1)
        yield from _of_waits(token, log)


def _of_waits(token: str, log: list[Record]) -> Iterator[str]:
    wait: _Wait | None = None
    for record in log:
        if record.kind is Kind.WAITING and record.parked:
            kept = wait.came if wait is not None and record.attempt else []
            wait = _Wait(record.parked, list(kept))
        elif record.kind in {Kind.RECEIVED, Kind.RESUMED} and record.resumption and wait is not None:
            wait.came.append(record.resumption)
            is_over = record.kind is Kind.RESUMED
            if record.resumption.kind in _ANSWERS and is_over is not _is_over(wait):
                yield f"law 4: {token} slot {record.slot} {'ends' if is_over else 'does not end'} its wait"
            yield from _voted_twice(token, wait)
            if sum(one.kind == "escalated" for one in wait.came) > 1:
                yield f"law 4: {token} slot {record.slot} asks others once more"


def _is_over(wait: _Wait) -> bool:
    done = [_has_come(arm, index, wait.came) for index, arm in enumerate(wait.parked.arms)]
    last = wait.came[-1]
    if last.kind == "rejected":
        arm = wait.parked.arms[last.arm]
        noes = {one.part for one in wait.came if one.kind == "rejected" and one.arm == last.arm}
        return not arm.parts or len(asked_of(arm, wait.came) - noes) < arm.need
    return all(done) if wait.parked.is_all else done[last.arm]


def asked_of(arm: Arm, came: Sequence[Resumption]) -> set[str]:
    """Who is asked for an approval, or has answered, once so much has come."""
    asked = set(arm.parts)
    for one in came:
        if one.kind == "delegated" and one.payload.get("approval", arm.name) == arm.name:
            is_handed_on = one.by in asked and one.payload["to"] not in asked
            asked = asked - {one.by} | {one.payload["to"]} if is_handed_on else asked
        elif one.kind == "escalated":
            asked |= set(one.payload["to"])
    return asked


def _has_come(arm: Arm, index: int, came: list[Resumption]) -> bool:
    mine = [one for one in came if one.arm == index and one.kind in {"event", "approved"}]
    return len({one.part for one in mine}) >= arm.need if arm.parts else bool(mine)


def _voted_twice(token: str, wait: _Wait) -> Iterator[str]:
    votes = Counter((one.part, one.arm) for one in wait.came if one.kind in {"approved", "rejected"} and one.part)
    yield from (f"law 4: {name} voted {count} times in {token}" for (name, _), count in votes.items() if count > 1)


def matches(arm: Arm, event: Event) -> bool:
    """Whether an event is what the arm's `match` is about."""
    if not arm.match:
        return True
    try:
        return expression(arm.match).evaluate({"event": json.loads(event.payload), "state": {}}) is True
    except ExpressionError:
        return False


def is_still_wanted(world: World, token: Token, index: int, event: Event, document: str) -> bool:
    """Whether a parked token would take this event for one of its arms, as far as what has come decides."""
    if token.parked is None:
        return False
    if stays(world, event.topic.name):
        is_new = f"{event.at_ms:015d}:{event.id}" not in token.seen.get(str(event.topic), ())
        is_of_another = any(one.event_id == event.id for one in token.received)  # of this wait: it is for both
        return (is_new or is_of_another) and not _has_part(token, index)
    arm = token.parked.arms[index]
    return document in arm.parts if arm.kind == "document" and arm.parts else not _has_part(token, index)


def stays(world: World, name: str) -> bool:
    """Whether events of this name are not consumed."""
    settings = world.program.graph.events.get(name)
    if name == DEPLOYED:
        return True
    return settings is not None and not settings.consume_on_read


def _has_part(token: Token, index: int) -> bool:
    return any(one.arm == index and one.kind == "event" for one in token.received)
