"""Stepwell with `durability: batch`: ours, with the records of ten steps in one append."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ours import IMPORT_MS, Stepwell, serving
from rounds import serve


class Batched(Stepwell):
    name = "Stepwell, durability: batch"
    durability = "SQLite, WAL, synchronous=FULL; a write for ten steps, which a crash repeats"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name, serving(Path(name), "batch") as (process_id, port):
        serve(Batched(process_id, port), IMPORT_MS)
