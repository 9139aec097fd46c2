"""The laws of locks: one holder at a time, everybody has his turn, and what is held is let go. By the logs alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from stepwell.engine.limits.locks import UNLOCK
from stepwell.engine.records import Compensate, End, Fork, Goto, Kind, Record
from stepwell.runtime.log.messages import Wake
from tests.sim.world import World

_FOREVER = 10**12


@dataclass(frozen=True, slots=True)
class _Hold:
    """A lock held by a token's log: from one record of the world to another."""

    name: str
    who: str
    since: int
    until: int


def laws_of_locks(world: World) -> Iterator[str]:
    """Once the last message is gone. Raises nothing; tells what is broken."""
    holds = sorted((hold for view in world.runs() for hold in _holds(view)), key=lambda hold: hold.since)
    last: dict[str, _Hold] = {}
    for hold in holds:
        before = last.get(hold.name)
        if before is not None and before.until > hold.since:
            yield f"locks: {hold.who} has {hold.name} while {before.who} holds it"
        last[hold.name] = hold
    yield from (f"locks: {hold.who} still holds {hold.name}" for hold in holds if hold.until == _FOREVER)
    for view in world.runs():
        for token, log in view.logs.look().records.items():
            if _asks(log[-1]):
                yield f"locks: {view.run_id} {token} still waits"
            yield from _in_order(f"{view.run_id} {token}", log)
    yield from _left_in_queues(world)


def laws_of_quiet_locks(world: World, under_way: dict[str, set[str]]) -> Iterator[str]:
    """When nothing is due: who waits for a lock waits for somebody. `under_way`: ids of messages by run."""
    holds = {hold.name for view in world.runs() for hold in _holds(view) if hold.until == _FOREVER}
    queued = {name for names in _waiting(world) for name in names[2]}
    for run_id, token, names, slot in _waiting(world):
        is_free = not holds & set(names)
        is_first = is_free and all(_first(world, name) in {(run_id, token), None} for name in names)
        if is_first and Wake(run_id, slot, token).id not in under_way.get(run_id, set()):
            yield f"law 5: {run_id} {token} waits for {names}, which nobody holds ({sorted(queued)} are wanted)"


def _waiting(world: World) -> Iterator[tuple[str, str, tuple[str, ...], int]]:
    for view in world.runs():
        for token, log in view.logs.look().records.items():
            if _asks(log[-1]) and log[-1].parked:
                yield view.run_id, token, log[-1].parked.locks, log[-1].slot


def _asks(record: Record) -> bool:
    return record.kind is Kind.WAITING and record.parked is not None and bool(record.parked.locks)


def _holds(world: World) -> Iterator[_Hold]:
    order = world.seen.order
    for token, log in world.logs.look().records.items():
        asked: Record | None = None
        since = -1
        for record in log:
            if _asks(record):
                asked, since = record, -1
            elif record.kind is Kind.RESUMED and record.resumption and record.resumption.kind == "locked":
                since = order[token, record.slot]
            elif asked is not None and asked.parked and since >= 0 and _is_left(world, asked, record):
                until = order[token, record.slot]
                yield from (_Hold(name, f"{world.run_id} {token}", since, until) for name in asked.parked.locks)
                asked = None
        if asked is not None and asked.parked and since >= 0:
            yield from (_Hold(name, f"{world.run_id} {token}", since, _FOREVER) for name in asked.parked.locks)


def _is_left(world: World, asked: Record, record: Record) -> bool:
    """A run's own locks are held to its end, a step's until its node is left, a function's until it says so."""
    if world.program.graph.replays:
        return isinstance(record.next, End) or UNLOCK in record.rules
    return isinstance(record.next, End) or (bool(asked.node) and isinstance(record.next, Goto | Fork | Compensate))


def _in_order(who: str, log: list[Record]) -> Iterator[str]:
    for record in log:
        names = record.parked.locks if record.parked else ()
        if list(names) != sorted(set(names)):
            yield f"locks: {who} takes {names}, which is not the order of all others"


def _queue(world: World, name: str) -> list[tuple[str, str, int]]:
    body = world.memory._notes[f"lock:{name}"].get("queue")
    return [] if body is None else [(run_id, token, slot) for run_id, token, slot in json.loads(body)]


def _first(world: World, name: str) -> tuple[str, str] | None:
    queue = _queue(world, name)
    return queue[0][:2] if queue else None


def _left_in_queues(world: World) -> Iterator[str]:
    """Who holds nothing and waits for nothing stands in no queue, unless a late worker put him there and died of it,

    or met a record there that needs newer code. What a late worker claims for a deleted run stays until the next one
    looks, who finds no run, and drops it.
    """
    if world.seen.crashes or world.has_left:
        return
    for kind in [kind for kind in world.memory._notes if kind.startswith("lock:")]:
        queue = [one for one in _queue(world, kind.removeprefix("lock:")) if one[0] in world.memory._runs]
        if queue:
            yield f"locks: {queue} stands in the queue of {kind}, and everything has ended"
