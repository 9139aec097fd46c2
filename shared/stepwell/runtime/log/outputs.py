"""Reads the outputs that records refer to (`engine.referring`): a hundred in one request."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.definition.graph import Json
from stepwell.engine.durable.referring import Source, sources, with_outputs
from stepwell.engine.records import Record
from stepwell.engine.stored.token_batches import decode_records
from stepwell.runtime.log.claims import fetch
from stepwell.runtime.ports import Blobs, Slots


async def in_full(slots: Slots, blobs: Blobs, run_id: str, token: str, records: Sequence[Record]) -> list[Record]:
    """Returns a token's records with their outputs, wherever those are stored. Raises EngineFault for a lost one."""
    wanted = sources(token, records)
    if not wanted:
        return list(records)
    bodies = await slots.read_bodies(run_id, wanted)
    found: dict[Source, Json] = {}
    for source, body in bodies.items():
        (record,) = decode_records(await fetch(body, blobs))
        found[source] = record.output
    return with_outputs(token, records, found)
