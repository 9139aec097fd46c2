"""The invariants of the design, by their numbers, over the world that a schedule left behind."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from stepwell.engine.codec import decode_record, decode_token, encode_record, encode_token
from stepwell.engine.records import ROOT, Arm, Goto, Kind, Parked, Record
from stepwell.engine.token import Token, fold
from stepwell.errors import ExpressionError
from stepwell.runtime.messages import Wake, from_json
from stepwell.runtime.ports import Event
from tests.sim.programs import expression
from tests.sim.world import World

RUN = "run_sim"


class BrokenLawError(Exception):
    """A law does not hold: its name, and how."""


def records_of(world: World) -> list[Record]:
    """The run's log as the store holds it, whatever the engine believes."""
    log = world.memory._logs.get((RUN, ROOT))
    return [decode_record(saved.body) for saved in log.after(-1, None)] if log else []


def check_end(world: World) -> None:
    """All laws, once the last message is gone. Raises BrokenLawError."""
    log = records_of(world)
    for law in (_law_1_slots, _law_2_commits, _law_4_events, _law_6_cancel, _law_8_fold, _extra_times, _extra_runs):
        for broken in law(world, log):
            raise BrokenLawError(broken)


def check_quiet(world: World) -> None:
    """When nothing is due: nobody is parked beside its event, or stands without a message that will move it."""
    log = records_of(world)
    if not log or any(letter.kind == "client" for letter in world.letters):
        return
    token = fold(log, Token())
    parked = token.parked
    if token.ended:
        return
    under_way = {from_json(letter.body).id for letter in world.letters}
    if parked is None or token.resumption is not None:
        if not under_way & {log[-1].by, Wake(RUN, token.slot).id}:
            raise BrokenLawError(f"law 5: the run stands at {log[-1].kind} {log[-1].next}, and nothing will wake it")
        return
    for event in _wanted_events(world, parked):
        if f"event:{event.topic}:{event.id}" not in under_way:  # else its publisher died, and comes again
            raise BrokenLawError(f"law 4: lost wakeup: {event.id} is pending, and {token.node} waits for it")


def _wanted_events(world: World, parked: Parked) -> Iterator[Event]:
    for arm in parked.arms:
        for topic in arm.topics:
            for event in world.memory._pending.get(topic, {}).values():
                if event.expires_ms > world.now_ms and _wanted(arm, event):
                    yield event


def _wanted(arm: Arm, event: Event) -> bool:
    if not arm.match:
        return True
    try:
        return expression(arm.match).evaluate({"event": json.loads(event.payload), "state": {}}) is True
    except ExpressionError:
        return False


def check_parked(world: World) -> None:
    """Law 5, when no message at all is left: ended, or parked without an end of its own."""
    log = records_of(world)
    token = fold(log, Token()) if log else None
    if token is None:
        raise BrokenLawError("law 5: the run was never begun")
    if token.ended:
        header = world.memory._runs[RUN]
        if token.end and header.status is not token.end.status:
            raise BrokenLawError(f"law 5: the header says {header.status}, the log {token.end.status}")
        return
    parked = token.parked
    if parked is None or token.resumption is not None or parked.until_ms is not None:
        raise BrokenLawError(f"law 5: the run stands at {log[-1].kind} {log[-1].node} for good")
    if world.memory._runs[RUN].status != "waiting":
        raise BrokenLawError(f"law 5: a parked run shows {world.memory._runs[RUN].status}")


def _law_1_slots(world: World, log: list[Record]) -> Iterator[str]:
    if [record.slot for record in log] != list(range(len(log))):
        yield f"law 1: slots {[record.slot for record in log]}"


def _law_2_commits(world: World, log: list[Record]) -> Iterator[str]:
    ends = [record.slot for record in log if type(record.next).__name__ == "End"]
    if ends and ends[0] != log[-1].slot:
        yield f"law 2: slot {ends[0]} ended the token, and {len(log) - 1 - ends[0]} records follow"
    entered = 0
    seen: Counter[tuple[int, str, int, int]] = Counter()
    for record in log:
        if record.kind is Kind.STEP:
            seen[entered, record.node, record.attempt, 0] += 1
        if isinstance(record.next, Goto) or record.kind is Kind.RESUMED:
            entered = record.slot + 1
    for key, count in seen.items():
        if count > 1:
            yield f"law 2: {key[1]} attempt {key[2]} was committed {count} times"


def _law_4_events(world: World, log: list[Record]) -> Iterator[str]:
    taken = Counter(r.resumption.event_id for r in log if r.resumption and r.resumption.event_id)
    for event_id, count in taken.items():
        if count > 1:
            yield f"law 4: event {event_id} resumed {count} waits"
    for events in world.memory._events.values():
        for event in events.values():
            if bool(event.consumed_by) != (event.id in taken) and event.topic.name != "governance.blocked":
                yield f"law 4: event {event.id} is marked {event.consumed_by!r}, and {taken[event.id]} records hold it"


def _law_6_cancel(world: World, log: list[Record]) -> Iterator[str]:
    acknowledged = world.seen.cancelled_at_slot
    if acknowledged is not None and len(log) != acknowledged + 1:
        yield f"law 6: the cancel was acknowledged at slot {acknowledged}, and the log has {len(log)} records"


def _law_8_fold(world: World, log: list[Record]) -> Iterator[str]:
    token = Token()
    for record in log:
        if decode_record(encode_record(record)) != record:
            yield f"law 8: slot {record.slot} does not survive its own encoding"
        token = fold([record], token)
    if decode_token(encode_token(token)) != token:
        yield "law 8: a snapshot is not the fold"


def _extra_times(world: World, log: list[Record]) -> Iterator[str]:
    if any(after.at_ms < before.at_ms for before, after in pairwise(log)):
        yield "causal times: a record is older than the one it follows"
    until = None
    for record in log:
        if record.kind is Kind.WAITING and record.parked:
            until = record.parked.until_ms
        came = record.resumption
        if came and came.kind in {"timer", "timeout"} and until is not None and record.at_ms < until:
            yield f"timers: slot {record.slot} fired {until - record.at_ms} ms early"


def _extra_runs(world: World, log: list[Record]) -> Iterator[str]:
    for key, count in world.seen.once.items():
        if count > 1:
            yield f"at_most_once: {key} ran {count} times"
    if world.seen.crashes or world.chances.hands_over:  # who hands over goes on under another name
        return
    for (node, entered, attempt), wakes in world.seen.ran.items():
        if len(wakes) > 1 and _has_one_pusher(world, node):
            yield f"{node} attempt {attempt} of slot {entered} was run under {sorted(wakes)}, although nobody died"


def _has_one_pusher(world: World, node: str) -> bool:
    """A retry that one copy of a wake rests for, and another's clock calls due, has two; a time-out's actions retry."""
    step = world.program.graph.nodes[node].step
    return step is not None and step.retry is None
