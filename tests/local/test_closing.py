"""A database file that is closed while other threads use it, as when the dev server ends: errors, and no crash."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stepwell.errors import PortError
from stepwell.local.database import Database

THREADS = 4
COUNT = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) SELECT count(*) FROM n"
WRITE = "INSERT INTO messages (lane, due_ms, message) SELECT 'resume', 0, '{}' WHERE 0"


def read(database: Database) -> None:
    database.rows(COUNT)


def write(database: Database) -> None:
    database.change(WRITE, ())


def transact(database: Database) -> None:
    with database.transaction() as execute:
        execute(COUNT, ())
        execute(WRITE, ())


def until_refused(use: Callable[[Database], None], database: Database, began: threading.Barrier) -> str:
    use(database)
    began.wait()
    try:
        while True:
            use(database)
    except PortError as error:
        return str(error)


@pytest.mark.parametrize("use", [read, write, transact])
def test_what_other_threads_execute_ends_before_their_connections_are_closed(
    tmp_path: Path, use: Callable[[Database], None]
) -> None:
    for number in range(5):
        database = Database(tmp_path / f"{number}.db", "NORMAL")
        began = threading.Barrier(THREADS + 1, timeout=60)
        with ThreadPoolExecutor(THREADS) as pool:
            users = [pool.submit(until_refused, use, database, began) for _ in range(THREADS)]
            began.wait()
            database.close()
        assert all("closed database" in user.result() for user in users)


def test_a_thread_that_comes_after_the_close_is_refused(tmp_path: Path) -> None:
    database = Database(tmp_path / "x.db")
    read(database)
    database.close()
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(read, database)
    with pytest.raises(PortError, match="closed"):
        late.result()
