"""Batches of a lane as they are stored: what all records share is there once, and what each has is in columns.

{"lane":[20,21],"at_ms":1700000000000,"same":{"slot":0,"kind":"step",…},"each":{"at_ms":[3,5],"output":[1,4]},"v":3}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from stepwell.definition.graph import Json
from stepwell.engine.forks.branches import branch_id
from stepwell.engine.forks.members import mark_of, member_with
from stepwell.engine.records import End, Record, Status
from stepwell.engine.stored import formats
from stepwell.engine.stored.codec import number_of, record_fields, record_json, record_with
from stepwell.engine.stored.columns import columns_of, encode, part_of, rows_of
from stepwell.engine.stored.jsons import read
from stepwell.values import dataclass

_ARRIVED = "arrived"


@dataclass(frozen=True, slots=True)
class Batch:
    """What one put into a lane says: records by index, and the branches that move after that."""

    records: Mapping[int, Record] = field(default_factory=dict)
    moved: frozenset[int] = frozenset()
    size_bytes: int = field(default=0, compare=False)  # of its text; 0: it was not read


def encode_batch(batch: Batch, fork: str) -> str:
    """Encodes a batch as one line of JSON. `fork`: its id, which is left out of what names the branches."""
    rows = [_row_of(record, branch_id(fork, index)) for index, record in batch.records.items()]
    out: dict[str, Json] = {"lane": list(batch.records)}
    out |= columns_of(rows)
    out |= {"moved": sorted(batch.moved)} if batch.moved else {}
    number = max(map(number_of, batch.records.values()), default=0)
    return encode(out | {formats.KEY: max(number, formats.GATHERED)})


def decode_batch(body: str, fork: str) -> Batch:
    """Raises NewerFormat for a batch of newer code, EngineFault for a broken one."""
    try:
        raw = _opened(body)
        records: dict[int, Record] = {}
        for index, row in zip(raw["lane"], rows_of(raw, len(raw["lane"]), record_fields), strict=True):
            records[index] = record_with(row | {"by": _with_token(row["by"], branch_id(fork, index))})
        return Batch(records, frozenset(raw.get("moved", ())), len(body.encode()))
    except formats.BROKEN as error:
        raise formats.unreadable("batch", error) from error


def beside(batch: Batch) -> dict[str, Json]:
    """Returns what is kept beside the reference to a large batch: who has arrived by it."""
    ends = {index: record.next for index, record in batch.records.items() if isinstance(record.next, End)}
    return {_ARRIVED: [member_with(*one) for one in ends.items() if one[1].status is not Status.CANCELLED]}


def arrived_in(body: str) -> set[str]:
    """Returns the branches that ended by a stored batch, as members of their page's join, without their records.

    Nobody waits for those that were cancelled. Raises as `decode_batch` does.
    """
    try:
        raw = _opened(body)
        if _ARRIVED in raw:
            return set(raw[_ARRIVED])
        if "next" in raw.get("same", ()):  # mostly: those of a message end in one way
            mark = _mark_of(raw["same"]["next"])
            return set() if mark is None else {f"{index}{mark}" for index in raw["lane"]}
        marks = {index: _mark_of(part_of(raw, place, "next")) for place, index in enumerate(raw["lane"])}
        return {f"{index}{mark}" for index, mark in marks.items() if mark is not None}
    except formats.BROKEN as error:
        raise formats.unreadable("batch", error) from error


def _opened(body: str) -> dict[str, Json]:
    raw: dict[str, Json] = read(body)
    formats.check_format(raw.get(formats.KEY, formats.OLDEST), "batch", formats.NEWEST)
    return raw


def _mark_of(following: Json) -> str | None:
    """Returns what marks an arrival with this `next` as a member; None: it is none."""
    if not following or following.get("end", Status.CANCELLED) == Status.CANCELLED:
        return None
    return mark_of(Status(following["end"]), at_join=following.get("at_join", False))


def _row_of(record: Record, token: str) -> dict[str, Json]:
    return record_json(record) | {"by": record.by.replace("%", "%25").replace(token, "%t")}


def _with_token(by: str, token: str) -> str:
    return by.replace("%t", token).replace("%25", "%")
