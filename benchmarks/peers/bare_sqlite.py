"""SQLite alone: the writes that a durable step needs, and nothing else. No program that is durable here is cheaper."""

import sqlite3
import tempfile
from pathlib import Path
from time import perf_counter, process_time

from rounds import serve

IMPORT_MS = process_time() * 1000
BODY = "x" * 300
TOGETHER = 10  # branches of one commit, as many as `stepwell dev` writes at once


class Bare:
    name = "SQLite alone: the floor"
    durability = "SQLite, WAL, synchronous=FULL; an insert of 300 bytes for each step, and for ten branches"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def chain(self, steps: int) -> None:
        for _ in range(steps):
            self._insert()

    def fan(self, width: int) -> None:
        self.chain(width // TOGETHER)

    def event(self) -> float:
        """An event that is accepted, and the end of the run that it resumes."""
        return self._insert() + self._insert()

    def tail(self) -> float:
        """The record of the step that ended, which is that of the run's end."""
        return self._insert()

    def late(self) -> float:
        raise NotImplementedError  # it has no timers

    def cpu_seconds(self) -> float:
        return process_time()

    def _insert(self) -> float:
        began = perf_counter()
        self._connection.execute("INSERT INTO records (body) VALUES (?)", (BODY,))
        return perf_counter() - began


def opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE records (slot INTEGER PRIMARY KEY, body TEXT NOT NULL)")
    return connection


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        serve(Bare(opened(Path(folder) / "floor.db")), IMPORT_MS)
