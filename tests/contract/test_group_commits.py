"""Changes that wait for the local database are committed together, and each has an answer of its own."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stepwell.errors import InvalidInput, PortError
from stepwell.local import database as module
from stepwell.local.database import Database
from stepwell.local.sqlite_store import SqliteStore
from stepwell.runtime.ports import Appended
from stepwell.runtime.steps import batons
from stepwell.runtime.steps.batons import Baton, compute_with
from stepwell.runtime.steps.threads import StepInterrupted
from tests.contract.kit import run

THREADS = 5


class Traced(Database):
    """Notes what all its connections execute."""

    def __init__(self, path: Path, *pragmas: str) -> None:
        self.statements: list[str] = []
        self._pragmas = pragmas
        super().__init__(path)

    def _connect(self, synchronous: Any) -> Any:
        connection = super()._connect(synchronous)
        for pragma in self._pragmas:
            connection.execute(f"PRAGMA {pragma}")
        connection.set_trace_callback(lambda statement: self.statements.append(f"{synchronous} {statement}"))
        return connection


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "stepwell.db"


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(THREADS) as pool:
        yield pool


def together(
    database: Database, pool: ThreadPoolExecutor, calls: Sequence[Callable[[], Appended]]
) -> list[Future[Appended]]:
    """Has all calls wait for the database, and then lets them go on."""
    with database._writing:
        begun = [pool.submit(call) for call in calls]
        while len(database._asked) < len(calls):
            threading.Event().wait(0.001)
    return begun


def appends(store: SqliteStore, *records: tuple[int, str]) -> list[Callable[[], Appended]]:
    def append(slot: int, body: str) -> Appended:
        return run(store.append("r1", "0", slot, body))

    return [partial(append, *one) for one in records]


def test_records_that_wait_are_one_durable_commit(path: Path, pool: ThreadPoolExecutor) -> None:
    database = Traced(path)
    calls = appends(SqliteStore(database), *((slot, f"body {slot}") for slot in range(THREADS)))
    assert [one.result() for one in together(database, pool, calls)] == [None] * THREADS
    assert [one.split(" (")[0].split(" INTO")[0] for one in database.statements if "FULL" in one] == [
        "FULL BEGIN IMMEDIATE",
        *["FULL INSERT"] * THREADS,
        "FULL COMMIT",
    ]
    assert len(run(SqliteStore(database).read_log("r1", "0"))) == THREADS
    database.close()


def test_of_two_for_one_slot_one_wins_and_the_other_is_told_by_whom(path: Path, pool: ThreadPoolExecutor) -> None:
    database = Traced(path)
    calls = appends(SqliteStore(database), (0, "one"), (0, "other"), (1, "next"))
    found = [one.result() for one in together(database, pool, calls)]
    assert found[2] is None
    assert sorted(map(str, found[:2])) in (["None", "one"], ["None", "other"])
    database.close()


def test_a_value_that_the_database_cannot_hold_fails_its_own_change_alone(path: Path, pool: ThreadPoolExecutor) -> None:
    database = Traced(path)
    calls = appends(SqliteStore(database), (0, "one"), (1, "lone surrogate \ud800"), (2, "three"))
    first, second, third = together(database, pool, calls)
    assert (first.result(), third.result()) == (None, None)
    with pytest.raises(InvalidInput):
        second.result()
    database.close()


def test_a_full_disk_fails_all_of_them_and_nothing_stays(path: Path, pool: ThreadPoolExecutor) -> None:
    Database(path).close()
    probe = Database(path)
    pages = probe.rows("PRAGMA page_count")[0][0]
    probe.close()
    database = Traced(path, f"max_page_count = {pages}")
    calls = appends(SqliteStore(database), (0, "x" * 100), (1, "x" * 100_000), (2, "x" * 100_000))
    for one in together(database, pool, calls):
        with pytest.raises(PortError, match="free some space"):
            one.result()
    assert run(SqliteStore(database).read_log("r1", "0")) == []
    database.close()


def test_who_commits_for_the_others_may_be_interrupted(
    path: Path, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, make = Traced(path), module._Change.make
    interrupted: list[Any] = []

    def make_once(self: Any, execute: Any) -> None:
        make(self, execute)
        if not interrupted:
            interrupted.append(self)
            raise StepInterrupted

    monkeypatch.setattr(module._Change, "make", make_once)
    calls = appends(SqliteStore(database), *((slot, "body") for slot in range(THREADS)))
    failed = [one for one in together(database, pool, calls) if isinstance(one.exception(), StepInterrupted)]
    assert len(failed) == 1
    assert len(run(SqliteStore(database).read_log("r1", "0"))) == THREADS - 1
    database.close()


def test_an_arrival_waits_for_no_disk_and_the_record_after_it_brings_it_there(path: Path) -> None:
    database = Traced(path)
    store = SqliteStore(database)
    run(store.arrive("r1", "0/3@0", "1"))
    run(store.report("r1", "0/3", 0, 1))
    assert {one.split()[0] for one in database.statements} == {"NORMAL"}
    run(store.append("r1", "0", 0, "joined"))
    assert database.statements[-1].startswith("FULL INSERT")
    database.close()


@pytest.mark.parametrize(
    ("quick_seconds", "turn_seconds", "is_passed_on"),
    [(-1.0, math.inf, True), (math.inf, math.inf, False), (math.inf, -1.0, True)],
    ids=["a slow disk", "a quick disk", "a quick disk, after a long turn"],
)
def test_who_waits_for_the_disk_lets_another_compute_if_that_pays(
    path: Path, monkeypatch: pytest.MonkeyPatch, quick_seconds: float, turn_seconds: float, is_passed_on: bool
) -> None:
    monkeypatch.setattr(batons, "QUICK_SECONDS", quick_seconds)
    monkeypatch.setattr(batons, "TURN_SECONDS", turn_seconds)
    free, could_others = threading.Lock(), list[bool]()
    database = Database(path)
    database._here.connection.create_function("look", 0, lambda: could_others.append(not free.locked()))
    baton = Baton(free)
    compute_with(baton)
    try:
        database.change("SELECT look()", ())
        with database.transaction() as execute:
            execute("SELECT look()", ()).fetchall()
        assert free.locked()  # it has the baton again
    finally:
        baton.give_up()
        compute_with(None)
    assert could_others == [is_passed_on, is_passed_on]
