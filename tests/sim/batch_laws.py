"""The laws of `durability: batch`: what a crash repeats, and that nothing which others see comes before its record.

Watched where a step begins or ends, and where a call is made; told when the run is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from stepwell.engine.records import Goto, Kind, Record
from stepwell.engine.stored.token_batches import BATCH, decode_records
from stepwell.limits import BATCH_OPEN_MS, BATCH_RECORDS

if TYPE_CHECKING:
    from tests.sim.world import World

_SEEN = frozenset({"send", "set", "put_waiter", "create_run", "change_status", "arrive", "report", "put_note",
                   "save_snapshot", "hold", "consume"})  # fmt: skip


def watch_call(world: World, name: str) -> None:
    """A call that others see: whoever makes it has no step whose record is not written.

    Who has lost its lease writes none any more, and may still wake the other branches of its message.
    """
    actor = world.current
    if actor is None or actor.is_zombie or name not in _SEEN or world.main.graph.durability != BATCH:
        return
    for call in (call for calls in actor.ran.values() for call in calls):
        _note(world, call, f"{name} came before the record of {call.node}")


def watch_begin(world: World, call: Any) -> None:
    """A step begins: its record was not there when its worker took the message, and the batch is not too large."""
    actor, seen = world.current, world.seen_of[call.run_id]
    if actor is None or world.main.graph.durability != BATCH:
        return
    waiting = len(actor.ran.get(call.token, ()))
    if seen.committed.get((call.key, call.attempt), world.written) < actor.since:
        _note(world, call, f"{call.node} ran again, although its record was written before")
    if waiting >= BATCH_RECORDS:
        _note(world, call, f"{call.node} began while {waiting} records waited")
    node = world.programs[call.workflow].graph.nodes.get(call.node)
    if waiting and node is not None and node.step is not None and node.step.at_most_once:
        _note(world, call, f"{call.node} runs at most once, and began while {waiting} records waited")


def watch_end(world: World, call: Any, took_ms: int) -> None:
    """A long step has ended: nothing has waited for it."""
    actor = world.current
    waiting = len(actor.ran.get(call.token, ())) if actor is not None and not actor.is_zombie else 0
    if waiting and took_ms > BATCH_OPEN_MS and world.main.graph.durability == BATCH:
        _note(world, call, f"{waiting} records waited while {call.node} took {took_ms} ms")


def _note(world: World, call: Any, broken: str) -> None:
    world.say(f"    ! {broken}")
    world.seen_of[call.run_id].ahead.append(broken)


def laws_of_batches(world: World, logs: dict[str, list[Record]]) -> Iterator[str]:
    """Tells what is broken: what was watched, and what lies in batches that must not."""
    yield from (f"batches: {broken}" for broken in world.seen.ahead)
    if world.program.graph.durability != BATCH:
        return
    for (run_id, token), log in world.memory._logs.items():
        bodies = [saved.body for saved in log.records.values()] if run_id == world.run_id and token in logs else []
        for body in bodies:
            yield from _of_batch(world, token, logs[token], decode_records(body))


def _of_batch(world: World, token: str, log: list[Record], batch: list[Record]) -> Iterator[str]:
    if len(batch) > BATCH_RECORDS:
        yield f"batches: {len(batch)} records of {token} were written together"
    for record in batch[:-1]:
        node = world.program.graph.nodes.get(record.node)
        before = log[record.slot - 1].kind if record.slot else None
        is_plain = record.kind in {Kind.STEP, Kind.MOVED} and isinstance(record.next, Goto) and record.error is None
        if not is_plain or before is Kind.BEGAN or node is None or node.compensate is not None:
            yield f"batches: slot {record.slot} of {token}, {record.kind} at {record.node}, waited for others"
