"""Batches of a lane as they are stored: what all records share is there once, and what each has is in columns.

{"lane":[20,21],"at_ms":1700000000000,"same":{"slot":0,"kind":"step",…},"each":{"at_ms":[3,5],"output":[1,4]},"v":3}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from stepwell.definition.graph import Json
from stepwell.engine import formats
from stepwell.engine.codec import record_json, record_of
from stepwell.engine.forks import branch_id
from stepwell.engine.jsons import fast_encoder
from stepwell.engine.members import mark_of
from stepwell.engine.records import Record, Status

_encode = fast_encoder(
    json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False)
)
_PLAIN = frozenset({str, int, bool, type(None)})  # of equal values of one of these types, the JSON is the same
_TIMES = ("at_ms", "started_ms")  # kept as what they are later than the batch's own time


@dataclass(frozen=True, slots=True)
class Batch:
    """What one put into a lane says: records by index, and the branches that move after that."""

    records: Mapping[int, Record] = field(default_factory=dict)
    moved: frozenset[int] = frozenset()


def encode_batch(batch: Batch, fork: str) -> str:
    """Encodes a batch as one line of JSON. `fork`: its id, which is left out of what names the branches."""
    rows = [_row_of(record, branch_id(fork, index)) for index, record in batch.records.items()]
    out: dict[str, Json] = {"lane": list(batch.records)}
    if rows:
        base = min(row["at_ms"] for row in rows)
        for row in rows:
            row |= {name: row[name] - base for name in _TIMES if name in row}
        first, *others = rows
        names = [name for name in first if all(name in row for row in others)]
        columns = {name: [row[name] for row in rows] for name in names}
        same = {name: first[name] for name in names if _are_same(columns[name])}
        columns = {name: column for name, column in columns.items() if name not in same}
        rest = [{name: part for name, part in row.items() if name not in names} for row in rows]
        out |= {"at_ms": base, "same": same, "each": columns} | ({"rest": rest} if any(rest) else {})
    out |= {"moved": sorted(batch.moved)} if batch.moved else {}
    return _encode(out | {formats.KEY: formats.NEWEST})


def decode_batch(body: str, fork: str) -> Batch:
    """Raises NewerFormat for a batch of newer code, EngineFault for a broken one."""
    try:
        raw = _opened(body)
        records: dict[int, Record] = {}
        for place, index in enumerate(raw["lane"]):
            row = dict(raw["same"]) | {name: column[place] for name, column in raw["each"].items()}
            row |= raw["rest"][place] if "rest" in raw else {}
            row |= {name: row[name] + raw["at_ms"] for name in _TIMES if name in row}
            records[index] = record_of(row | {"by": _with_token(row["by"], branch_id(fork, index))})
        return Batch(records, frozenset(raw.get("moved", ())))
    except formats.BROKEN as error:
        raise formats.unreadable("batch", error) from error


def arrived_in(body: str) -> set[str]:
    """Returns the branches that ended by a stored batch, as members of their page's join, without their records.

    Nobody waits for those that were cancelled. Raises as `decode_batch` does.
    """
    try:
        raw = _opened(body)
        if "next" in raw.get("same", ()):  # mostly: those of a message end in one way
            mark = _mark_of(raw["same"]["next"])
            return set() if mark is None else {f"{index}{mark}" for index in raw["lane"]}
        marks = {index: _mark_of(_part_of(raw, place, "next")) for place, index in enumerate(raw["lane"])}
        return {f"{index}{mark}" for index, mark in marks.items() if mark is not None}
    except formats.BROKEN as error:
        raise formats.unreadable("batch", error) from error


def _opened(body: str) -> dict[str, Json]:
    raw: dict[str, Json] = json.loads(body)
    formats.check_format(raw.get(formats.KEY, formats.OLDEST), "batch", formats.NEWEST)
    return raw


def _mark_of(following: Json) -> str | None:
    """Returns what marks an arrival with this `next` as a member; None: it is none."""
    if not following or following.get("end", Status.CANCELLED) == Status.CANCELLED:
        return None
    return mark_of(Status(following["end"]), at_join=following.get("at_join", False))


def _part_of(raw: Mapping[str, Json], place: int, name: str) -> Json:
    """Returns a field of one of the records."""
    if name in raw["same"]:
        return raw["same"][name]
    return raw["each"][name][place] if name in raw["each"] else raw["rest"][place].get(name)


def _row_of(record: Record, token: str) -> dict[str, Json]:
    row = record_json(record)
    return row | {"by": record.by.replace("%", "%25").replace(token, "%t")}


def _with_token(by: str, token: str) -> str:
    return by.replace("%t", token).replace("%25", "%")


def _are_same(values: list[Json]) -> bool:
    """Whether all are the same JSON: 1 is neither true nor 1.0."""
    first = values[0]
    if any(type(one) is not type(first) or one != first for one in values):
        return False
    return type(first) in _PLAIN or len({_encode({"": one}) for one in values}) == 1
