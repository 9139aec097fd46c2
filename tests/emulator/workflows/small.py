"""Steps that do what their names say, and one that kills its worker."""

from __future__ import annotations

import os
import time
from pathlib import Path


def greet(name: str) -> str:
    return f"hello {name}"


def forget(name: str, output: str) -> str:
    return f"not {output}"


def nowhere() -> None:
    raise LookupError("there is no such place")


def lap(laps: int) -> int:
    return laps + 1


def slow() -> int:
    """Returns which process ran it."""
    time.sleep(1.2)
    return os.getpid()


def crash(marker: str, always: bool) -> None:
    """Dies without a word, as under a kernel that is out of memory. One line in the file for each time."""
    with Path(marker).open("a+") as times:
        times.seek(0)
        first = not times.read()
        times.write("died\n")
    if always or first:
        os._exit(1)
