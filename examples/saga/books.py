"""The world outside, small: warehouse, bank, mail server and courier write into one book that outlives every crash.

| variable | means | default |
|---|---|---|
| `STORE_DATA` | the folder of the book | `.stepwell/store`; in a Lambda function a temporary one |
| `STORE_LOST_ANSWERS` | how many of the bank's answers to a refund get lost on their way back, per refund | 0 |
"""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

_SCHEMA = "CREATE TABLE IF NOT EXISTS lines (key TEXT PRIMARY KEY, kind TEXT, line TEXT, asked INTEGER)"
_WRITE = """
INSERT INTO lines VALUES (?, ?, ?, 1)
ON CONFLICT (key) DO UPDATE SET asked = asked + 1
RETURNING rowid, asked
"""

Line = dict[str, str | int]


def write(kind: str, key: str, line: Line) -> str:
    """One line per key, however often it is asked for; gives the line's number.

    Raises ConnectionError when the answer gets lost, which does not take the line back.
    """
    with closing(_open()) as book, book:
        number, asked = book.execute(_WRITE, (key, kind, json.dumps(line))).fetchone()
    if kind == "refund" and asked <= int(os.environ.get("STORE_LOST_ANSWERS") or 0):
        raise ConnectionError("the bank did not answer")
    return f"{kind}-{number}"


def read(kind: str) -> list[Line]:
    """The lines of one kind, oldest first."""
    with closing(_open()) as book:
        found = book.execute("SELECT line FROM lines WHERE kind = ? ORDER BY rowid", (kind,))
        return [json.loads(line) for (line,) in found]


def has(key: str) -> bool:
    """Whether there is a line of this key."""
    with closing(_open()) as book:
        return book.execute("SELECT 1 FROM lines WHERE key = ?", (key,)).fetchone() is not None


def _open() -> sqlite3.Connection:
    usual = Path(tempfile.gettempdir()) / "store" if "LAMBDA_TASK_ROOT" in os.environ else Path(".stepwell/store")
    folder = Path(os.environ.get("STORE_DATA") or usual)
    folder.mkdir(parents=True, exist_ok=True)
    book = sqlite3.connect(folder / "book.db", timeout=10)
    book.execute(_SCHEMA)
    return book
