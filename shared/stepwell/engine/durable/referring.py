"""The output of an operation of a function's tasks: stored once, in the log of the operation's branch.

    branch     0/3.7 ── 0: STEP, with the output
    function   0 ── 9: RECEIVED 3.7, which says: the output is in slot 0 of that branch

A small output stands in both, which costs no write unit more and saves a read. Only replays and readers of histories
need the output: what a log folds to does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from stepwell import limits
from stepwell.definition.graph import Json
from stepwell.engine.copying import changed
from stepwell.engine.durable.tasks import place_of
from stepwell.engine.forks.branches import branch_id, fork_id
from stepwell.engine.forks.join import Arrival
from stepwell.engine.records import Record
from stepwell.engine.stored.jsons import fast_encoder
from stepwell.errors import EngineFault

Source: TypeAlias = tuple[str, int]  # a token and the slot of its log

_encode = fast_encoder(json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, check_circular=False))


def output_at(arrival: Arrival) -> int:
    """Returns the slot of the branch's log to which the function's record refers; -1 where it holds the output."""
    if arrival.error is not None or arrival.slot < 0 or _bytes(arrival.output) <= limits.OUTPUT_HELD_BYTES:
        return -1
    return arrival.slot


def sources(token: str, records: Iterable[Record]) -> list[Source]:
    """Returns where the outputs are that these records of a token only refer to. None is named twice."""
    found = (source_of(token, record) for record in records if record.output_at >= 0 and record.output is None)
    return list(dict.fromkeys(found))


def source_of(token: str, record: Record) -> Source:
    """Returns the place of the record that holds this record's output. Raises EngineFault where it names none."""
    if record.resumption is None:
        raise EngineFault(f"slot {record.slot} of {token} refers to no operation", code="broken_record")
    slot, index = place_of(record.resumption.part)
    return branch_id(fork_id(token, slot), index), record.output_at


def with_outputs(token: str, records: Iterable[Record], found: Mapping[Source, Json]) -> list[Record]:
    """Returns the records with the outputs that they refer to. Raises EngineFault for one that is not there."""
    return [_with_output(token, one, found) if one.output_at >= 0 and one.output is None else one for one in records]


def _bytes(value: Json) -> int:
    return len(_encode(value).encode(errors="surrogatepass"))


def _with_output(token: str, record: Record, found: Mapping[Source, Json]) -> Record:
    branch, slot = source = source_of(token, record)
    if source not in found:
        raise EngineFault(f"slot {record.slot} of {token} refers to slot {slot} of {branch}, which is not there",
                          code="broken_log", hint="its log was changed from outside")  # fmt: skip
    return changed(record, output=found[source])
