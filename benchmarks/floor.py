"""What one durable record costs: the bare SQLite insert as the floor, and the store's append against it.

    python benchmarks/floor.py [--records 5000] [--folder .]

A disk under the operating system's temporary folder may be memory: give --folder for the disk that counts.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from stepwell.local.database import Database, Synchronous
from stepwell.local.sqlite_store import SqliteStore
from stepwell.memory.store import MemoryStore
from stepwell.runtime.ports import Log

BODY = "x" * 300
WARM_UP = 200


def bare_insert(path: str | Path, synchronous: Synchronous, count: int) -> tuple[float, float]:
    """(wall, CPU) milliseconds for each insert of 300 bytes, one commit each: nothing durable is cheaper here."""
    connection = sqlite3.connect(str(path), isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("CREATE TABLE records (slot INTEGER PRIMARY KEY, body TEXT NOT NULL)")

    def insert(slot: int) -> None:
        connection.execute("INSERT INTO records (slot, body) VALUES (?, ?)", (slot, BODY))

    try:
        return measure(insert, count)
    finally:
        connection.close()


def store_append(store: Log, count: int) -> tuple[float, float]:
    """(wall, CPU) milliseconds for each append of 300 bytes to one log, called as the local runtime calls it."""

    def append(slot: int) -> None:
        try:
            store.append("run-01hx5w9k3m", "0", slot, BODY).send(None)
        except StopIteration as answer:
            if answer.value is not None:
                raise RuntimeError(f"slot {slot} was taken") from None

    return measure(append, count)


def measure(write: Callable[[int], None], count: int) -> tuple[float, float]:
    """(wall, CPU) milliseconds for each call, after a warm-up."""
    for slot in range(WARM_UP):
        write(slot)
    wall, cpu = time.perf_counter(), time.process_time()
    for slot in range(WARM_UP, WARM_UP + count):
        write(slot)
    return (time.perf_counter() - wall) * 1_000 / count, (time.process_time() - cpu) * 1_000 / count


def compare(folder: Path, synchronous: Synchronous, count: int) -> None:
    """Prints the floor, the store and their ratio for one setting of SQLite."""
    floor = bare_insert(folder / f"floor-{synchronous}.db", synchronous, count)
    database = Database(folder / f"store-{synchronous}.db", synchronous)
    store = store_append(SqliteStore(database), count)
    database.close()
    show(f"{synchronous} bare insert", floor)
    show(f"{synchronous} store.append", store)
    print(f"{synchronous} ratio: wall {store[0] / floor[0]:.2f}, CPU {store[1] / floor[1]:.2f}")


def show(name: str, each_ms: tuple[float, float]) -> None:
    """Prints one line of figures."""
    print(f"{name:22} wall {each_ms[0] * 1_000:8.1f} us   CPU {each_ms[1] * 1_000:8.1f} us")


def main() -> None:
    """Measures in a folder of its own, and leaves nothing behind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=5_000)
    parser.add_argument("--folder", help="where the files are made: the disk to measure")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        compare(Path(folder), "FULL", options.records)
        compare(Path(folder), "NORMAL", options.records)
    show("memory append", store_append(MemoryStore(), options.records))


if __name__ == "__main__":
    main()
