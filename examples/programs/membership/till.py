"""A bank, in a folder: it takes money once for each key, and turns some members down."""

from __future__ import annotations

import os
from pathlib import Path


def take(member: str, what: str, key: str) -> None:
    here = Path(os.environ.get("TILL_DATA", ".stepwell"))
    here.mkdir(parents=True, exist_ok=True)
    if member in os.environ.get("TILL_NO_MONEY", "").split(","):
        raise ValueError(f"the card of {member} was declined")
    (here / key.replace("/", "_")).write_text(f"{member}: {what}", encoding="utf-8")
