"""Charges: the write units, messages, schedules and objects that a run's records led to, as AWS counts them.

Nothing is stored for this. Effects are a function of a record, so folding a log again yields every call that it led to:

    record ── its own item, twice in a transaction ── effects ── items, header, messages, schedules
    `by` of the records ── the messages that moved the token

tests/aws/test_ledger.py holds the counts to the calls that emulated AWS gets.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import itemgetter
from typing import TypeAlias

from stepwell.definition.graph import Graph
from stepwell.engine.effect_kinds import (
    Arrive,
    Effect,
    Forget,
    SetTimer,
    ShowStatus,
    TakeLocks,
    TakePermit,
)
from stepwell.engine.effects import effects
from stepwell.engine.forks.branches import branch_id, first_chunks
from stepwell.engine.forks.join import fan_in_of, must_tell
from stepwell.engine.forks.lanes import LaneLog
from stepwell.engine.forks.marks import is_one_set
from stepwell.engine.limits.permits import ReturnPermit
from stepwell.engine.limits.throttles import FREED
from stepwell.engine.records import (
    CleanUp,
    Compensate,
    End,
    Fork,
    Kind,
    Record,
    RetryAt,
    Status,
    Tally,
)
from stepwell.engine.starts import DEBOUNCE
from stepwell.engine.stored.codec import encode_record
from stepwell.engine.stored.jsons import fast_encoder
from stepwell.engine.stored.snapshots import encode_token
from stepwell.engine.stored.token_batches import encode_records
from stepwell.engine.token import Token
from stepwell.engine.waits.callback import BEAT
from stepwell.limits import FORK_SHARED_MS, SECOND_MS, SNAPSHOT_RECORDS
from stepwell.runtime.calls.effect_charges import (
    Charge,
    is_far,
    is_of_tasks,
    item,
    message_at,
    messages,
    of_effect,
    of_status,
)
from stepwell.runtime.calls.quiet import KILOBYTE, Folding, is_small
from stepwell.runtime.calls.shown import is_had
from stepwell.runtime.ports.headers import FORK, REDRIVE, STARTS, Header
from stepwell.runtime.starts.places import KEYED
from stepwell.runtime.stores.jsontext import encode

Counts: TypeAlias = Counter[str]
_KEY_BYTES = 60  # of a record's item, beside its body, the run's id and the token's: names, and when it expires
_EVENT_BYTES = 250  # of an event's item, beside its payload
_HEADER_BYTES = 900  # of a header with its input; a larger input is an item of its own
_CREATED, _PICKED_UP = 3, 1  # write units, with the indexes: see the table in the docs
_MET = 1  # the sweeper put the run under its watch
_PLAIN = frozenset({Kind.STEP, Kind.MOVED})  # those that lie in a lane
_ATTEMPTS = frozenset({Kind.STEP, Kind.ACTED, Kind.UNDONE})
_MESSAGES = ("wake:", "dead:", "shut:", "parent:", "go_on:")  # how `by` begins where a message's worker wrote
_GOING_ON = (f"{REDRIVE}:", f"{FORK}:")  # how `origin` begins of a run that goes on from another's records
_text = fast_encoder(json.JSONEncoder())


def of_start(graph: Graph, header: Header) -> Iterator[Charge]:
    """Yields the charges of a start: the header's items, the permit, the first message and the deadline's timer.

    Of a redriven or forked run the last two follow from its records, and so does the deadline of one that gathers.
    """
    given = len(encode(header.input).encode())
    apart = given + _KEY_BYTES * 4 > _HEADER_BYTES
    yield "write_units", _CREATED + (_PICKED_UP if header.started_ms else 0) + (_MET if header.watched else 0)
    yield from item(given + _KEY_BYTES + len(header.run_id)) if apart else ()
    if header.started_ms:
        yield "write_units", (graph.concurrency is not None) + (graph.rate_limit is not None)
    if not header.idle and not header.origin.startswith(_GOING_ON):
        gathering = graph.gathering if header.origin.startswith(f"{STARTS}:") else None
        due_ms = header.start_at_ms - header.created_ms
        if gathering is not None:
            yield "write_units", 1  # the place where its starts find it
            due_ms = gathering.period_ms or gathering.max_delay_ms
        elif graph.timeout_ms is not None:
            yield from message_at(graph.timeout_ms)
        yield from message_at(due_ms)


def of_tokens(
    graph: Graph,
    header: Header,
    logs: Mapping[str, Sequence[Record]],
    begun: Callable[[str], Token],
    in_lanes: Mapping[str, int],
    actors: set[str],
    known: Token | None = None,
) -> Counts:
    """Counts what the records of these tokens led to.

    `begun`: makes a token as it was before its first record. `in_lanes`: how many of a token's records lie in its lane,
    which `of_lanes` counts. `actors`: the messages counted so far; those counted here are added to it. `known`: the
    only token, at its end, if it has one.
    """
    since_ms = header.created_ms if header.origin else 0
    counts: Counts = Counter()
    before = len(actors)
    plain: list[Record] = []
    for token_id, records in logs.items():
        shared = in_lanes.get(token_id, 0)
        if _is_plain(records, shared, since_ms):
            plain += records
            continue
        folding = Folding(begun(token_id), known)
        for name, amount in _of_token(graph, header.run_id, folding, records, actors, since_ms, shared):
            counts[name] += amount  # type: ignore[assignment]  # a Counter adds fractions as well
    actors.update(*map(_messages_before, plain))
    counts.update(_of_plain(plain))
    sent = len(actors) - before
    counts["messages"] += sent
    counts["sends"] += sent
    return counts


def _is_plain(records: Sequence[Record], shared: int, since_ms: int) -> bool:
    """Tells whether a branch has only taken steps in its lane, so that its records led to nothing else."""
    is_in_lane = len(records) <= shared and len(records) < SNAPSHOT_RECORDS
    return is_in_lane and all(record.kind in _PLAIN and record.at_ms >= since_ms for record in records)


def _of_plain(records: Sequence[Record]) -> dict[str, float]:
    """Returns the charges of all plain records together, as `_of_record` has them of each."""
    attempts = [record for record in records if record.kind in _ATTEMPTS and not record.taken]
    return {
        "records": len(records),
        "steps": len(attempts),
        "step_seconds": sum(_seconds_of(one) for one in attempts),
        "output_bytes": sum(len(_text(one.output)) for one in attempts),
    }


def _of_token(
    graph: Graph, run_id: str, folding: Folding, records: Sequence[Record], actors: set[str], since_ms: int, shared: int
) -> Iterator[Charge]:
    """Yields what one token's records led to.

    `since_ms`: when a redriven or forked run was created: older records it only keeps. `shared`: this many of the
    records lie in a lane, where a branch's end is its arrival too.
    """
    saved, timers = -1, dict[int, int]()
    yield from messages(_looks(graph, records))
    for place, record in enumerate(records):
        is_saved = record.slot - saved >= _until_saved(record)
        is_quiet = folding.passes(record) and not is_saved and record.at_ms >= since_ms
        token = folding.token if is_quiet else folding.after(record)
        if record.at_ms < since_ms:
            yield from _kept(run_id, token, record)
            continue
        is_shared = record.slot < shared
        yield from _of_record(record)
        items = chain(_of_item(run_id, token.id, record), _of_batch(run_id, token.id, records, place))
        yield from () if is_shared else items
        actors |= _messages_before(record)
        if not is_quiet:
            yield from _of_effects(graph, token, records, place, timers, is_shared=is_shared)
        if is_saved:
            saved = record.slot
            yield from item(len(encode_token(token).encode()) + _KEY_BYTES + len(run_id))


def _of_effects(
    graph: Graph, token: Token, records: Sequence[Record], place: int, timers: dict[int, int], *, is_shared: bool
) -> Iterator[Charge]:
    """Yields the charges of the effects of the record at `place`. `timers`: after how long each fires, by slot."""
    record = records[place]
    if record.kind is Kind.RESUMED and is_far(timers.get(_slot_of_timer(record.by), 0)):
        yield from messages(1)  # the schedule fires early
    # the caller who ended the run performs the effects, and so does the worker that undoes it
    is_twice = record.kind is Kind.ENDED and isinstance(record.next, Compensate | CleanUp)
    is_beat = record.resumption is not None and record.resumption.kind == BEAT  # a heartbeat is only written
    for effect in () if is_beat or _is_passed(records, place) else effects(graph, token):
        if _is_free(graph, token, effect, is_shared=is_shared):
            continue
        if isinstance(effect, SetTimer):
            if effect.slot in timers:
                continue
            timers[effect.slot] = effect.at_ms - record.at_ms
        yield from _of_line(token, records, place, effect)
        for name, amount in of_effect(token, record, effect):
            yield name, 2 * amount if is_twice and name == "write_units" else amount


def _is_passed(records: Sequence[Record], place: int) -> bool:
    """Tells whether this is one of several events that a wait took at once: the last one's effects are those of all."""
    record, around = records[place], records[max(place - 1, 0) : place + 2]
    is_amid = len(around) == 3 and {one.by for one in around} == {record.by}
    return is_amid and record.kind is Kind.RECEIVED and around[2].kind in {Kind.RECEIVED, Kind.RESUMED}


def _until_saved(record: Record) -> int:
    """Returns after how many records since the last one the fold is saved with this one."""
    following = record.next
    is_wide = isinstance(following, Fork) and following.width > following.chunk
    return 2 if is_wide else SNAPSHOT_RECORDS


def _is_free(graph: Graph, token: Token, effect: Effect, *, is_shared: bool) -> bool:
    """Tells whether an effect costs nothing.

    That is the status of a redriven run, which is shown when its first message is handled; the return of a permit that
    was returned before, or that no concurrency limit counts; an end in a lane, which is the arrival too; and the waits
    of an ended branch, which expire where they lie.
    """
    match effect:
        case ShowStatus():
            return token.last is not None and token.last.kind is Kind.REDRIVEN
        case ReturnPermit():
            return graph.concurrency is None or (token.share is not None and token.share.state == FREED)
        case Arrive():
            return is_shared
        case Forget():
            return token.branch is not None and token.ended
        case _:
            return False


def _of_line(token: Token, records: Sequence[Record], place: int, effect: Effect) -> Iterator[Charge]:
    """Yields the header's write for a token that stands in line for locks or a permit.

    Nothing, if the message that asked for them got them at once.
    """
    had_at_once = any(is_had(records[place], one) for one in records[place + 1 : place + 2])
    if isinstance(effect, TakeLocks | TakePermit) and not had_at_once:
        yield from of_status(token, effect.shown)


def of_lanes(run_id: str, lanes: Iterable[LaneLog]) -> Iterator[Charge]:
    """Yields the charges of the lanes' batches, as they were read."""
    for lane in lanes:
        for batch in lane.batches:
            yield from item(batch.size_bytes + _KEY_BYTES + len(run_id) + 2 * len(lane.place.name))


def _of_item(run_id: str, token_id: str, record: Record) -> Iterator[Charge]:
    """Yields the charges of the record's item; an event that it consumes is in one transaction with it."""
    event = record.resumption if record.resumption is not None and record.resumption.event_id else None
    consumes = event is not None and not event.seen
    yield from item(_size(run_id, token_id, record), times=2 if consumes else 1)
    if event is not None:
        yield from item(len(json.dumps(event.payload).encode()) + _EVENT_BYTES, times=3 if consumes else 1)


def _of_record(record: Record) -> Iterator[Charge]:
    """Yields the charges that follow from the record's own fields."""
    yield "records", 1
    if record.kind in _ATTEMPTS and not record.taken:
        yield "steps", 1
        yield "step_seconds", _seconds_of(record)
        yield "output_bytes", len(_text(record.output))
    if record.kind is Kind.GATHERED and record.by.startswith(KEYED):
        yield "write_units", 1  # the home of the start: see calls/gathering.py
    if record.kind is Kind.WAITING:
        yield "waits", 1
    if isinstance(record.next, Fork):
        yield "forks", 1
    if isinstance(record.next, RetryAt) and is_far(record.next.at_ms - record.at_ms):
        yield "schedules", 1
        yield from messages(1)  # the schedule fires early


def _seconds_of(record: Record) -> float:
    return max(record.at_ms - record.started_ms, 0) / SECOND_MS if record.started_ms else 0


def _of_batch(run_id: str, token_id: str, records: Sequence[Record], last: int) -> Iterator[Charge]:
    """Takes off the items of a batch's records, and adds the batch's own. `last`: the index of its last record."""
    batch = records[last + 1 - records[last].together : last + 1]
    for name, amount in (one for record in batch for one in item(_size(run_id, token_id, record))):
        yield name, -amount
    if batch:
        size_bytes = len(encode_records(batch).encode()) + _KEY_BYTES + len(run_id) + 2 * len(token_id)
        yield from item(size_bytes)


def _looks(graph: Graph, records: Sequence[Record]) -> int:
    """Counts how often the wake of a debounced run found newer starts and was put off."""
    times = [record.at_ms for record in records if record.kind is Kind.GATHERED]
    if graph.gathering is None or graph.gathering.mode != DEBOUNCE or not times:
        return 0
    rules, at_ms, looks = graph.gathering, times[0] + graph.gathering.period_ms, 0
    while True:
        last_ms = max(time_ms for time_ms in times if time_ms <= at_ms)
        due_ms = min(last_ms + rules.period_ms, times[0] + rules.max_delay_ms)
        if due_ms <= at_ms:
            return looks
        at_ms, looks = due_ms, looks + 1


def _kept(run_id: str, token: Token, record: Record) -> Iterator[Charge]:
    """Yields the charges of a record copied from another run: no effects, only its item and a branch's arrival."""
    yield "records", 1
    yield from item(_size(run_id, token.id, record))
    if token.branch is not None and token.end is not None and not is_of_tasks(token):
        yield "write_units", 1


def _size(run_id: str, token_id: str, record: Record) -> int:
    """Returns the bytes of a record's item; a kilobyte, if it has less."""
    names = len(run_id) + 2 * len(token_id)
    return KILOBYTE if is_small(record, names) else len(encode_record(record).encode()) + _KEY_BYTES + names


def _messages_before(record: Record) -> set[str]:
    """Returns the ids of the messages that led to the record: its own, and its event's.

    A run's first wake, the wakes of branches, and timers are left out: they are counted where they are sent.
    """
    is_first = record.by.startswith("wake:") and record.by.endswith(":-1")
    found = {record.by} if record.by.startswith(_MESSAGES) and not is_first else set()
    if record.resumption is not None and record.resumption.event_id:
        found.add(f"event:{record.resumption.event_id}")
    return found


def reports(graph: Graph, fork: Fork, page: int, logs: Iterable[Sequence[Record]]) -> int:
    """Counts the reports of a wide fork's page to the root join: when it is full, and when the join may fire."""
    if is_one_set(fork) or fork.is_of_tasks:
        return 0
    ends = sorted(((one.at_ms, one.next.status is not Status.COMPLETED) for records in logs for one in records[-1:]
                  if isinstance(one.next, End)), key=itemgetter(0))  # fmt: skip
    fan_in, tally, reported = fan_in_of(graph, fork), Tally(), 0
    for _, is_failed in ends:
        tally = replace(tally, arrived=tally.arrived + 1, failed=tally.failed + is_failed)
        reported += must_tell(fan_in, fork, page, tally, is_failed=is_failed)
    return reported


def begun_apart(fork: Fork, name: str, logs: Mapping[str, Sequence[Record]]) -> int:
    """Counts the branches that were not begun with their chunk, but by a message each: later, or in a reopened fork."""
    chunks = () if fork.is_reopened else first_chunks(fork)
    first = {branch_id(name, index + more) for _, index, count in chunks for more in range(count)}
    return sum(records[0].by == f"wake:{token}:-1" for token, records in logs.items() if token not in first)


def handed_over(fork: Fork, name: str, logs: Mapping[str, Sequence[Record]]) -> Iterator[Charge]:
    """Yields the messages of branches that began later than those of a chunk share its message: each had its own."""
    for _, index, count in () if fork.is_reopened else first_chunks(fork):
        firsts = [log[0] for more in range(count) if (log := logs.get(branch_id(name, index + more)))]
        began = [first.started_ms or first.at_ms for first in firsts]
        yield from messages(sum(at_ms - min(began) >= FORK_SHARED_MS for at_ms in began))


def _slot_of_timer(by: str) -> int:
    """Returns the slot of the timer that wrote a record; -1 for another writer."""
    kind, _, place = by.partition(":")
    return int(place.rpartition(":")[2]) if kind == "timer" else -1
