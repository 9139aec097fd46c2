"""A build tool, in a folder: it notes each target that it makes, and takes its time for some."""

from __future__ import annotations

import os
import time
from pathlib import Path


def make(target: str, parts: list[str]) -> str:
    here = Path(os.environ.get("BUILD_DATA", ".stepwell"))
    here.mkdir(parents=True, exist_ok=True)
    while (here / f"{target}.blocked").exists():
        time.sleep(0.02)
    with (here / "made").open("a", encoding="utf-8") as file:
        file.write(f"{target}\n")
    return f"{target}({','.join(parts)})"
