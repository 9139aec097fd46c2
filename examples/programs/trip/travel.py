"""Three companies that book and cancel, in a folder: each remembers by its key what it was asked for."""

from __future__ import annotations

import os
from pathlib import Path

SOLD_OUT = "nowhere"  # there are flights and hotels, but no cars


def ask(company: str, what: str, key: str) -> str:
    """Returns the booking's number; the same one if the key has come before."""
    here = Path(os.environ.get("TRAVEL_DATA", ".stepwell")) / company
    here.mkdir(parents=True, exist_ok=True)
    if company == "car" and what.endswith(SOLD_OUT):
        raise ValueError(f"no car {what}")
    (here / key.replace("/", "_")).write_text(what, encoding="utf-8")
    return f"{company}-{what.rpartition(' ')[2]}"
