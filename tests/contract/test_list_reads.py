"""What a page of a list reads on SQLite: as much among a hundred thousand runs as among a thousand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepwell.engine.records import Status
from stepwell.local.database import Database
from stepwell.local.rows import header_row
from stepwell.local.sqlite_store import INSERT_RUN, SqliteStore
from stepwell.runtime.ports.headers import Header, RunQuery
from tests.contract.kit import NOW_MS, header, run

PAGE = 50
STEPS = 10  # of SQLite's virtual machine: how finely they are counted
LISTS: dict[str, dict[str, Any]] = {
    "newest": {},
    "of a workflow": {"workflow": "w"},
    "waiting": {"statuses": frozenset({Status.WAITING})},
    "for approval": {"waiting_for": frozenset({"approval"})},
    "by deadline": {"by_deadline": True},
    "by deadline, of a workflow": {"by_deadline": True, "workflow": "w", "waiting_for": frozenset({"approval"})},
}


def rows(count: int) -> Iterator[Header]:
    """Of four runs three wait, as forks do whose branches all wait; the others have completed."""
    for number in range(count):
        one = header(f"r{number:06d}", created_ms=NOW_MS + number, status=Status.COMPLETED)
        if number % 4:
            one = replace(one, status=Status.WAITING, rev=4, waiting_for="approval", waiting_node="ask",
                          waiting_until_ms=NOW_MS + 7 * number % count)  # fmt: skip
        yield one


@pytest.fixture(scope="module", params=[1_000, pytest.param(100_000, marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    path: Path = tmp_path_factory.mktemp("runs") / "stepwell.db"
    database = Database(path, "NORMAL")
    with database.transaction():
        database._here.connection.executemany(INSERT_RUN, map(header_row, rows(request.param)))
    yield SqliteStore(database)
    database.close()


@pytest.mark.parametrize("name", LISTS)
def test_a_page_of_a_list_reads_little_more_than_its_runs(store: SqliteStore, name: str) -> None:
    """Counted in steps of SQLite's virtual machine: a run of a page takes about 60, whatever the table holds."""
    raw, counted = store._db._here.connection, [0]

    def count() -> None:
        counted[0] += STEPS

    query = RunQuery(limit=PAGE, **LISTS[name])
    for _ in range(3):
        counted[0] = 0
        raw.set_progress_handler(count, STEPS)
        page = run(store.list_runs(query))
        raw.set_progress_handler(None, STEPS)
        assert len(page.headers) == PAGE
        assert 0 < counted[0] < 100 * PAGE, f"{counted[0]} steps"
        query = replace(query, cursor=page.next_cursor)
