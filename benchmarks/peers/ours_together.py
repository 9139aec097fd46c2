"""Stepwell with `durability: batch`: ours, with the records of ten steps in one append."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ours import IMPORT_MS, Stepwell, serving
from rounds import serve


class Together(Stepwell):
    name = "Stepwell, `durability: batch`"
    durability = "SQLite, WAL, synchronous=FULL; a write for ten short steps or branches, which a crash repeats"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name, serving(Path(name), together=True) as (process_id, port):
        serve(Together(process_id, port), IMPORT_MS)
