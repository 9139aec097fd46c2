"""Carriers, each a folder: one file for each request, by its key."""

from __future__ import annotations

import os
from pathlib import Path


def request(carrier: str, what: str, key: str) -> str:
    here = Path(os.environ.get("CARRIERS_DATA", ".stepwell")) / carrier
    here.mkdir(parents=True, exist_ok=True)
    (here / key.replace("/", "_")).write_text(what, encoding="utf-8")
    return f"{carrier}: {what}"
