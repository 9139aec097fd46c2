"""The invariants of the design, by their numbers, over the world that a schedule left behind."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from stepwell.engine.fold import fold
from stepwell.engine.records import ROOT, CleanUp, Goto, Kind, Record
from stepwell.engine.stored.codec import decode_record, encode_record
from stepwell.engine.stored.snapshots import decode_snapshot, decode_token, encode_token
from stepwell.engine.stored.token_batches import BATCH
from stepwell.engine.table import Phase
from stepwell.engine.token import Token
from stepwell.engine.waits.aside import is_aside
from stepwell.engine.waits.callback import BEAT
from stepwell.runtime.log.messages import DeadLetter, Wake, from_json
from stepwell.runtime.ports import Event
from tests.sim.answered_laws import laws_of_answered
from tests.sim.asked_laws import laws_of_quiet_callers
from tests.sim.batch_laws import laws_of_batches
from tests.sim.child_laws import laws_of_children, laws_of_quiet_children
from tests.sim.code_laws import laws_of_code, laws_of_quiet_code
from tests.sim.cost_programs import laws_of_costs
from tests.sim.count_laws import laws_of_counts
from tests.sim.dag_laws import laws_of_dags
from tests.sim.erased_programs import laws_of_the_deleted
from tests.sim.fn_cancels import laws_of_clean_ups
from tests.sim.fn_laws import laws_of_functions
from tests.sim.fn_replay import laws_of_replays
from tests.sim.fork_laws import (
    BrokenLawError,
    law_3_branches,
    law_3_joins,
    law_5_line,
    law_6_branches,
    law_9_calls,
    laws_of_shown_branches,
    live_tokens,
)
from tests.sim.gather_laws import is_left_to_the_sweeper, laws_of_gathering
from tests.sim.handed_programs import laws_of_handed
from tests.sim.key_laws import laws_of_keys
from tests.sim.limit_laws import laws_of_limits, laws_of_quiet_limits
from tests.sim.lock_laws import laws_of_locks, laws_of_quiet_locks
from tests.sim.overlap_laws import law_13_overlap
from tests.sim.part_laws import id_of, is_still_wanted, laws_of_parts, matches, stays, taken_by
from tests.sim.race_programs import laws_of_races
from tests.sim.retried_programs import laws_of_retried
from tests.sim.several_programs import laws_of_several
from tests.sim.shared_laws import laws_of_tables
from tests.sim.stream_laws import laws_of_streams
from tests.sim.task_laws import laws_of_tasks
from tests.sim.throttle_laws import laws_of_quiet_throttles, laws_of_resting_throttles, laws_of_throttles
from tests.sim.tree import Logs
from tests.sim.turn_laws import law_11_turns
from tests.sim.undo_laws import laws_of_undoing
from tests.sim.world import World


def logs_of(world: World) -> dict[str, list[Record]]:
    """The logs as the store holds them."""
    return {token: log for token, log in Logs(world.memory, world.blobs, world.run_id).look().records.items() if log}


def check_end(world: World) -> None:
    """All laws, once the last message is gone. Raises BrokenLawError."""
    for of_run in world.runs():
        _check_end_of(of_run)
    for broken in (
        *laws_of_children(world),
        *laws_of_locks(world),
        *laws_of_limits(world),
        *laws_of_throttles(world),
        *laws_of_gathering(world),
        *laws_of_tables(world),
        *laws_of_the_deleted(world),
        *laws_of_counts(world),
    ):
        raise BrokenLawError(broken)


def _check_end_of(world: World) -> None:
    """Those of one run."""
    logs = logs_of(world)
    if not logs and is_left_to_the_sweeper(world):
        return
    for token, log in logs.items():
        for of_token in (_law_1_slots, _law_2_commits, _law_8_fold, _extra_times):
            for broken in of_token(world, token, log):
                raise BrokenLawError(broken)
    of_run = (_law_4_events, _law_6_cancel, law_3_joins, law_3_branches, law_5_line, law_6_branches, law_9_calls)
    for law in (
        laws_of_answered,
        *of_run,
        laws_of_races,
        laws_of_retried,
        laws_of_batches,
        laws_of_costs,
        law_11_turns,
        laws_of_code,
        laws_of_keys,
        laws_of_parts,
        laws_of_handed,
        laws_of_several,
        laws_of_dags,
        laws_of_undoing,
        laws_of_functions,
        laws_of_tasks,
        laws_of_streams,
        laws_of_clean_ups,
        laws_of_replays,
        _extra_runs,
    ):
        for broken in law(world, logs):
            raise BrokenLawError(broken)


def check_quiet(world: World) -> None:
    """When nothing is due: nobody is parked beside its event, or stands without a message that will move it."""
    if any(envelope.is_left or envelope.is_late for envelope in world.envelopes):
        return
    to_come = {envelope.body["type"].partition(" ")[0] for envelope in world.envelopes if envelope.kind == "client"}
    if not (world.main.backlog and world.main.backlog.loses_start):
        to_come.discard("sweep")  # it mends nothing here
    if to_come:
        if to_come <= {"unpause", "resume"}:  # amid a pause: what is paused stands, and holds up nobody
            under_way = _under_way(world)
            for broken in (*laws_of_quiet_limits(world, under_way), *laws_of_resting_throttles(world, under_way)):
                raise BrokenLawError(broken)
        return
    for broken in world.wrong:
        raise BrokenLawError(broken)
    for of_run in world.runs():
        _check_quiet_of(of_run)
    if any(envelope.body.get("late") for envelope in world.envelopes):
        return  # a worker has died whose token others may wait for: it goes on once the late wake comes
    under_way = _under_way(world)
    of_others = (*laws_of_quiet_locks(world, under_way), *laws_of_quiet_limits(world, under_way),
                 *laws_of_quiet_throttles(world, under_way))  # fmt: skip
    for broken in (*laws_of_quiet_children(world), *of_others):
        raise BrokenLawError(broken)


def check_overlap(world: World) -> None:
    """While nothing is due, and steps take their time."""
    for of_run in world.runs():
        for broken in law_13_overlap(of_run):
            raise BrokenLawError(broken)


def _under_way(world: World) -> dict[str, set[str]]:
    """The ids of messages by the run that they are for."""
    runs = [view.run_id for view in world.runs()]
    messages = [envelope.body for envelope in world.envelopes if envelope.kind != "client"]
    return {run_id: {name for body in messages for name in _names_of(body, run_id)} for run_id in runs}


def _wakes(run_id: str, token: Token) -> set[str]:
    """The ids of the wakes that push it on: the starts that a run gathers make none stale."""
    gathers = token.last is not None and token.last.kind is Kind.GATHERED
    slots = range(-1 if gathers else token.slot, token.next_slot + gathers)
    return {Wake(run_id, slot, token.id, late=late).id for slot in slots for late in (False, True)}


def _is_in_line(world: World, token: Token) -> bool:
    """Whether a run that has gathered its starts may wait for a permit: the laws of limits have it."""
    is_before = token.last is not None and token.last.kind is Kind.STARTED and token.gathered is not None
    return is_before and world.program.graph.concurrency is not None


def _check_quiet_of(world: World) -> None:
    logs = world.logs.look()
    if ROOT not in logs.tokens:
        return
    messages = [envelope.body for envelope in world.envelopes if envelope.kind != "client"]
    under_way = {name for body in messages for name in _names_of(body, world.run_id)}
    for broken in laws_of_quiet_callers(world):
        raise BrokenLawError(broken)
    for broken in laws_of_quiet_code(world, logs.tokens, under_way):
        raise BrokenLawError(broken)
    for token in live_tokens(world.program.graph, logs):
        if token.parked is None or token.resumption is not None or token.phase is Phase.COMPENSATING:
            last = token.last
            if last is None or not (under_way & {last.by, *_wakes(world.run_id, token)} or _is_in_line(world, token)):
                where = f"{token.id} stands at {last and last.kind} {last and last.next}"
                raise BrokenLawError(f"law 5: {where}, and nothing will wake it")
            continue
        for event in _wanted_events(world, token):
            if f"event:{event.topic}:{event.id}" not in under_way:  # else its publisher died, and comes again
                raise BrokenLawError(f"law 4: lost wakeup: {event.id} is pending, and {token.id} waits for it")
    for broken in laws_of_shown_branches(world, logs, under_way):
        raise BrokenLawError(broken)


def _names_of(body: Mapping[str, Any], run_id: str) -> Iterator[str]:
    """A message's own id, and those of the wakes that it holds; of an event's, or of one to this run."""
    message = from_json(body)
    of_run = message.wake.run_id if isinstance(message, DeadLetter) else getattr(message, "run_id", run_id)
    if of_run != run_id:
        return
    yield message.id
    if isinstance(message, Wake):
        yield from (replace(message, token=token, count=1).id for token in message.tokens)


def _wanted_events(world: World, token: Token) -> Iterator[Event]:
    for index, arm in enumerate(token.parked.arms if token.parked else ()):
        for topic in arm.topics:
            for event in world.memory._pending.get(topic, {}).values():
                document = json.loads(event.payload).get("document", "")
                is_kept = event.expires_ms > world.now_ms + world.chances.skew_ms  # by every worker's clock
                wanted = is_kept and matches(arm, event)
                if wanted and is_still_wanted(world, token, index, event, document):
                    yield event


def check_parked(world: World) -> None:
    """Law 5, when no message at all is left: ended, or parked without an end of its own."""
    for of_run in world.runs():
        _check_parked_of(of_run)


def _check_parked_of(world: World) -> None:
    logs = world.logs.look()
    root = logs.tokens.get(ROOT)
    if root is None:
        if is_left_to_the_sweeper(world):
            return
        raise BrokenLawError(f"law 5: {world.run_id} was never begun")
    header = world.memory._runs[world.run_id]
    if root.end and header.status is not root.end.status:
        raise BrokenLawError(f"law 5: the header says {header.status}, the log {root.end.status}")
    for token in live_tokens(world.program.graph, logs):
        parked = token.parked
        if parked is not None and parked.of_tasks and parked.until_ms is None and token.has_open_tasks:
            continue  # its operations are looked at, too
        if parked is None or token.resumption is not None or parked.until_ms is not None:
            raise BrokenLawError(f"law 5: {token.id} stands at {token.last and token.last.kind} {token.node} for good")
        if token.id == ROOT and header.status != "waiting":
            raise BrokenLawError(f"law 5: a parked run shows {header.status}")


def _law_1_slots(world: World, token: str, log: list[Record]) -> Iterator[str]:
    if [record.slot for record in log] != list(range(len(log))):
        yield f"law 1: {token} has slots {[record.slot for record in log]}"


def _law_2_commits(world: World, token: str, log: list[Record]) -> Iterator[str]:
    ends = [record.slot for record in log if type(record.next).__name__ == "End"]
    if ends and ends[0] != log[-1].slot:
        yield f"law 2: slot {ends[0]} ended {token}, and {len(log) - 1 - ends[0]} records follow"
    entered = 0
    seen: Counter[tuple[int, str, int, int]] = Counter()
    for record in log:
        if record.kind is Kind.STEP:
            seen[entered, record.node, record.attempt, 0] += 1
        if isinstance(record.next, Goto | CleanUp) or record.kind is Kind.RESUMED:
            entered = record.slot + 1
    for key, count in seen.items():
        if count > 1:
            yield f"law 2: {token}: {key[1]} attempt {key[2]} was committed {count} times"


def _law_4_events(world: World, logs: dict[str, list[Record]]) -> Iterator[str]:
    taken = Counter(event_id for log in logs.values() for event_id, _ in taken_by(log))
    kept = {id_of(event.topic, event.id) for events in world.memory._events.values() for event in events.values()
            if stays(world, event.topic.name)}  # fmt: skip
    for event_id, count in taken.items():
        if count > 1 and event_id not in kept:
            yield f"law 4: event {event_id} resumed {count} waits"
    for events in world.memory._events.values():
        for event in events.values():
            if event.at_ms < world.born_ms:  # in another life of the run, which may have taken it
                continue
            is_taken = event.consumed_by.startswith(f"{world.run_id}|")
            event_id = id_of(event.topic, event.id)
            is_odd = is_taken != (event_id in taken and event_id not in kept)
            if is_odd and event.topic.name != "governance.blocked":
                yield f"law 4: event {event.id} is marked {event.consumed_by!r}, and {taken[event_id]} records hold it"


def _is_aside(log: list[Record], record: Record) -> bool:
    """Whether it is of a wait beside the work."""
    return is_aside(record) or (record.kind is Kind.RESUMED and is_aside(log[record.slot - 1]))


def _law_6_cancel(world: World, logs: dict[str, list[Record]]) -> Iterator[str]:
    acknowledged, log = world.seen.cancelled_at_slot, logs[ROOT]
    later = [] if acknowledged is None else log[acknowledged + 1 :]
    if any(isinstance(record.next, CleanUp) for record in log[: len(log) - len(later)]):
        later = []  # a function may clean up: its own laws say how
    later = [record for record in later if not _is_aside(log, record)]  # a compensation may wait for code, or a permit
    if any(record.kind not in {Kind.UNDONE, Kind.ENDED} for record in later):  # what is undone can be terminated
        yield f"law 6: the cancel was acknowledged at slot {acknowledged}, and the log has {len(log)} records"


def _law_8_fold(world: World, token_id: str, log: list[Record]) -> Iterator[str]:
    own = world.memory._logs.get((world.run_id, token_id))  # none of a branch that ended in its lane
    token, saved = Token(token_id), own.snapshot if own is not None else None
    believed = decode_snapshot(saved.body) if saved and token_id == ROOT else None
    for record in log:
        if decode_record(encode_record(record)) != record:
            yield f"law 8: {token_id} slot {record.slot} does not survive its own encoding"
        token = fold([record], token)
        if believed is not None and saved and saved.slot == token.slot and believed != token:
            yield f"law 8: the snapshot of {token_id} in slot {token.slot} is not the fold"
    if decode_token(encode_token(token)) != token:
        yield f"law 8: a snapshot of {token_id} is not the fold"
    if saved and not 0 <= saved.slot < len(log):
        yield f"law 8: the snapshot of {token_id} is of slot {saved.slot}, which it does not have"


def _extra_times(world: World, token: str, log: list[Record]) -> Iterator[str]:
    if any(after.at_ms < before.at_ms for before, after in pairwise(log)):
        yield f"causal times: a record of {token} is older than the one it follows"
    until = None
    for record in log:
        if record.kind is Kind.WAITING and record.parked:
            until = record.parked.until_ms
        came = record.resumption
        is_due = (
            came is not None and came.kind in {"timer", "timeout"} and came.name != BEAT
        )  # that has a law of its own
        if is_due and until is not None and record.at_ms < until:
            yield f"timers: slot {record.slot} of {token} fired {until - record.at_ms} ms early"


def _extra_runs(world: World, logs: dict[str, list[Record]]) -> Iterator[str]:
    for key, count in world.seen.once.items():
        if count > 1:
            yield f"at_most_once: {key} ran {count} times"
    if world.seen.crashes or world.chances.hands_over:  # who hands over goes on under another name
        return
    if world.program.graph.durability == BATCH and world.chances.double:  # a copy gathers what the other has written
        return
    if (
        world.lane and world.program.takes_ms and world.chances.double
    ):  # who lets go of a branch does not know its copies
        return
    if world.main.breaks or (world.chances.double and (world.main.is_paused or world.main.is_erased)):
        return  # a copy of a wake that rested goes on once the pause is over, or moves another run of that id
    for (token, node, entered, attempt), wakes in world.seen.ran.items():
        if len(wakes) > 1 and _has_one_pusher(world, node):
            where = f"{node} attempt {attempt} of slot {entered} in {token}"
            yield f"{where} was run under {sorted(wakes)}, although nobody died"


def _has_one_pusher(world: World, node: str) -> bool:
    """A retry that one copy of a wake rests for, and another's clock calls due, has two; a time-out's actions retry."""
    if world.program.graph.replays:
        return not node.startswith("r")
    step = world.program.graph.nodes[node].step
    return step is not None and step.retry is None
