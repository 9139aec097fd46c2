"""Batches of one token: records that its worker made one after the other, and that one append wrote.

    slot     4: step a   5: step b   6: step c        the log has {"batch":4,…} in slot 4, and nothing in 5 and 6
             └─ made ────── made ────── made ── one append

Who writes into slot 4 first has won all three: until then no other writer knows of 5 and 6, and after it everybody
reads 7 as the next. All readers get the records that a batch holds.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.definition.graph import Json
from stepwell.engine.records import Record
from stepwell.engine.stored import formats
from stepwell.engine.stored.codec import decode_record, encode_record, record_fields, record_json, record_with
from stepwell.engine.stored.columns import columns_of, encode, rows_of
from stepwell.engine.stored.jsons import read

BATCH = "batch"  # the durability of workflows whose tokens gather records
_BEGINNING = '{"batch":'  # no record or claim check begins so


def encode_records(records: Sequence[Record], *, is_gathered: bool = False) -> str:
    """Encodes what one append writes as one line of JSON. `is_gathered`: as of `encode_record`, for a single one."""
    if len(records) == 1:
        return encode_record(records[0], is_gathered=is_gathered)
    rows = [record_json(record) for record in records]
    for row in rows:
        del row["slot"]
    return encode({BATCH: records[0].slot, "count": len(rows), **columns_of(rows), formats.KEY: formats.GATHERED})


def is_batch(body: str) -> bool:
    """Tells whether a stored body holds several records."""
    return body.startswith(_BEGINNING)


def decode_records(body: str) -> list[Record]:
    """Decodes what one append wrote. Raises NewerFormat for a body of newer code, EngineFault for a broken one."""
    if not is_batch(body):
        return [decode_record(body)]
    try:
        raw: dict[str, Json] = read(body)
        formats.check_format(raw.get(formats.KEY, formats.OLDEST), BATCH, formats.NEWEST)
        rows = enumerate(rows_of(raw, raw["count"], record_fields), start=raw[BATCH])
        return [record_with({"slot": slot} | row) for slot, row in rows]
    except formats.BROKEN as error:
        raise formats.unreadable(BATCH, error) from error
