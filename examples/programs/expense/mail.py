"""A mail server, in a folder: one mail for each key."""

from __future__ import annotations

import os
from pathlib import Path


def send(to: str, text: str, key: str) -> None:
    here = Path(os.environ.get("MAIL_DATA", ".stepwell"))
    here.mkdir(parents=True, exist_ok=True)
    (here / key.replace("/", "_")).write_text(f"{to}: {text}", encoding="utf-8")
