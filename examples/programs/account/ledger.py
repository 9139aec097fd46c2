"""A shop that gives vouchers for points, in a folder: one for each key."""

from __future__ import annotations

import os
from pathlib import Path


def voucher(points: int, key: str) -> str:
    here = Path(os.environ.get("LEDGER_DATA", ".stepwell"))
    here.mkdir(parents=True, exist_ok=True)
    (here / key.replace("/", "_")).write_text(f"{points}", encoding="utf-8")
    return f"voucher of {points / 100:.2f} EUR"
