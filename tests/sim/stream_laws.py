"""The laws of live output: no piece hides from a reader, whatever the clocks say, and no record holds one."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from stepwell.engine.records import Record
from stepwell.engine.stored.codec import encode_record
from stepwell.limits import HOUR_MS, MINUTE_MS
from stepwell.runtime.ports import Event
from stepwell.runtime.steps.output import topic_of
from tests.sim.world import World


def laws_of_streams(world: World, logs: dict[str, list[Record]]) -> Iterator[str]:
    """Of one run."""
    stored = world.memory._events.get(topic_of(world.run_id), {})
    for told in world.seen.emitted:
        if not any(json.loads(one.payload) == told for one in stored.values()):
            yield f"streams: {told} was emitted, and is not there"
    yield from _of_readers(world, stored)
    if world.program.emits and any('"piece"' in encode_record(record) for log in logs.values() for record in log):
        yield "streams: a record holds live output"


def _of_readers(world: World, stored: Mapping[str, Event]) -> Iterator[str]:
    """What was there, and less than an hour old, when a reader looked, it has got by then."""
    got: dict[str, set[str]] = defaultdict(set)
    for read in world.seen.reads:
        got[read.reader] |= {one.cursor.partition("-")[0] for one in read.pieces}
        fresh = [one for one in _there(world, stored, read.known) if one.at_ms > read.at_ms - HOUR_MS + MINUTE_MS]
        hidden = [one.id for one in fresh if one.id not in got[read.reader]]
        if hidden:
            yield f"streams: {read.reader} has read past {hidden[0]} and never got it"


def _there(world: World, stored: Mapping[str, Event], known: int) -> Sequence[Event]:
    topic = topic_of(world.run_id)
    return [one for one in stored.values() if world.stored[topic, one.id] < known]
