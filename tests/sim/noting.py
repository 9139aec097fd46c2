"""Notes what a call to a port has done, for the laws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stepwell.engine.forks.branches import branch_id
from stepwell.engine.forks.lanes import split_lane
from stepwell.engine.records import Record, Topic
from stepwell.engine.stored.token_batches import decode_records
from stepwell.runtime.ports import Blobs, Saved
from tests.sim.actors import Actor
from tests.sim.backlog_laws import note_pick_up
from tests.sim.erased_programs import note_deletion
from tests.sim.pace_laws import note_turns
from tests.sim.programs import SUFFIX
from tests.sim.seen import Taking
from tests.sim.tree import batch_of

if TYPE_CHECKING:
    from tests.sim.world import World

UNDONE = ""  # in the place of a token: a compensation, whose record is of the token that undoes


def note(world: World, name: str, args: tuple[Any, ...], made: Any) -> None:
    """What the laws want to know of a call that has happened."""
    note_deletion(world, name, args, made)
    note_turns(world, name, args, made)
    note_pick_up(world, name, args, made)
    if name in {"append", "consume"} and world.current:
        _note_attempts(world, world.current, args, is_written=made is None)
    if name == "append" and '"kind":"undone"' in args[3] and world.current and world.current.undid:
        (call, is_done), world.current.undid = world.current.undid, None
        undid = records_of(args, world.blobs)[-1][1].undid
        seen = world.seen_of[args[0]]
        seen.undo_given.setdefault((call.key, undid), []).append(call.input)
        seen.undo_done |= {undid} if is_done else set()
    if name == "put_event" and made:
        world.stored[args[0].topic, args[0].id] = len(world.stored)
    if name == "read_logs" and world.current:
        logs = {(args[0], token): [decode_records(one.body) for one in made.get(token, ())] for token in args[1]}
        found = {place: sum(map(len, bodies)) for place, bodies in logs.items()}
        world.current.read |= {place: count + world.current.lanes.get(place, 0) for place, count in found.items()}
    elif name == "read_join" and world.current and made.lanes:
        found = _in_lanes(args[0], made.lanes, world.blobs)
        world.current.lanes |= found
        world.current.read |= found
    elif name in {"append", "consume"} and made is None:
        for token, record in records_of(args, world.blobs):
            _written(world, args[0], token, record.slot)
        if '"kind":"joined"' in args[3] and world.current:
            read = {token: count for (run_id, token), count in world.current.read.items() if run_id == args[0]}
            world.seen_of[args[0]].joined_on[args[1], args[2]] = read


def _note_attempts(world: World, actor: Actor, args: tuple[Any, ...], *, is_written: bool) -> None:
    """Under which wakes those attempts were made that this append tells of."""
    actor.is_behind |= not is_written
    for token, record in records_of(args, world.blobs) if actor.ran else ():
        for call in actor.ran.pop(token, []) + actor.ran.pop(UNDONE, []):
            _ran(world, call, record.by)
            if is_written:
                world.seen_of[call.run_id].committed[call.key, call.attempt] = world.written


def _ran(world: World, call: Any, by: str) -> None:
    """An attempt was made under this wake, whichever message brought it: a shared one, or its own."""
    seen = world.seen_of[call.run_id]
    if undoes(call):
        seen.undo_ran.setdefault((call.key, call.node, call.attempt), set()).add(by)
    else:
        entered = int(call.key.rsplit(":", 1)[1])
        seen.ran.setdefault((call.token, call.node, entered, call.attempt), set()).add(by)


def looks(world: World, name: str) -> None:
    """A look into the mailbox reads one topic after the other: what comes meanwhile may be in it or not."""
    if world.current is None:
        return
    if name == "pending_events" and world.current.last_call != name:
        world.current.looked_at = len(world.stored)
    world.current.last_call = name


def took(world: World, run_id: str, token: str, slot: int, topic: Topic, event_id: str) -> None:
    """An event was consumed into this slot."""
    looked_at = world.current.looked_at if world.current else -1
    known = world.stored[topic, event_id] if looked_at < 0 else looked_at
    taking = Taking(token, slot, topic, event_id, world.pending, world.now_ms, known)
    world.seen_of[run_id].takings.append(taking)


def _written(world: World, run_id: str, token: str, slot: int) -> None:
    world.seen_of[run_id].order[token, slot] = world.written
    world.written += 1


def records_of(args: tuple[Any, ...], blobs: Blobs) -> list[tuple[str, Record]]:
    """The records of an append, with their tokens: one, or those of a lane's batch."""
    lane = split_lane(args[1])
    if lane is None:
        return [(args[1], record) for record in decode_records(args[3])]
    found = batch_of(args[3], lane[0], blobs).records
    return [(branch_id(lane[0], index), record) for index, record in found.items()]


def undoes(call: Any) -> bool:
    return str(call.node).endswith(SUFFIX)


def _in_lanes(run_id: str, lanes: Mapping[str, Sequence[Saved]], blobs: Blobs) -> dict[tuple[str, str], int]:
    """How many records each branch has there."""
    found: Counter[tuple[str, str]] = Counter()
    for name, saved in lanes.items():
        fork = (split_lane(name) or ("", 0))[0]
        for one in saved:
            found.update((run_id, branch_id(fork, index)) for index in batch_of(one.body, fork, blobs).records)
    return dict(found)
