"""What SQLite must do beyond the contract: survive its process, share its file, read by index, name its troubles."""

from __future__ import annotations

import gc
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from stepwell.api.problems import problem_answer
from stepwell.engine.records import Status, Topic
from stepwell.errors import EngineFault, InvalidInput, PortError, UserError
from stepwell.local import schema, sqlite_queue, sqlite_store
from stepwell.local.database import Database
from stepwell.local.rows import list_sql
from stepwell.local.sqlite_queue import SqliteQueue
from stepwell.local.sqlite_store import SqliteStore
from stepwell.memory.clocks import VirtualClock
from stepwell.memory.inbox import ALL_LANES, Delivery
from stepwell.runtime.ports import Lane, Saved
from stepwell.runtime.ports.headers import RunQuery, StatusChange
from tests.contract.kit import NOW_MS, ORDER, at_once, event, header, other_process, run, waiter

APPEND_FOR_EVER = """
import itertools, sys
from stepwell.runtime.stores.clocks import RealClock
from stepwell.local.database import Database
from stepwell.local.sqlite_queue import SqliteQueue
from stepwell.local.sqlite_store import SqliteStore
from stepwell.runtime.ports import Lane
from tests.contract.kit import run
database = Database(sys.argv[1])
store, queue = SqliteStore(database), SqliteQueue(database, RealClock())
for slot in itertools.count():
    run(queue.send(Lane.WORK, {"slot": slot}))
    queue.receive([Lane.WORK], RealClock().now_ms(), 10**9)
    run(store.append("r1", "0", slot, f"body {slot}"))
    print(slot, flush=True)
"""

APPEND_MANY = """
import sys
from stepwell.local.database import Database
from stepwell.local.sqlite_store import SqliteStore
from tests.contract.kit import run
sys.stdin.readline()
store = SqliteStore(Database(sys.argv[1], "NORMAL"))
print(sum(run(store.append("r1", "0", slot, sys.argv[2])) is None for slot in range(200)), flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "stepwell.db"


def test_everything_is_there_after_a_restart(path: Path) -> None:
    database = Database(path)
    store, queue = SqliteStore(database), SqliteQueue(database, VirtualClock(NOW_MS))
    run(store.create_run(header(tags={"a": "b"})))
    run(store.append("r1", "0", 0, "body"))
    run(store.save_snapshot("r1", "0", 0, "folded"))
    run(store.put_event(event()))
    run(store.append("r1", "0", 1, "resumed", consumes=(ORDER, "e1")))
    run(store.put_waiter(waiter()))
    run(store.put_definition("v1", "text"))
    run(queue.set("t", Lane.RESUME, {"m": 1}, NOW_MS))
    database.close()

    database = Database(path)
    store, queue = SqliteStore(database), SqliteQueue(database, VirtualClock(NOW_MS))
    assert run(store.list_runs(RunQuery(tag=("a", "b")))).headers == (header(tags={"a": "b"}),)
    assert run(store.load("r1", "0")).records == [Saved(1, "resumed")]
    assert not run(store.put_event(event()))
    assert run(store.waiters(ORDER)) == [waiter()]
    assert run(store.get_definition("v1")) == "text"
    delivery = queue.receive([Lane.RESUME], NOW_MS, 1)
    assert delivery is not None
    assert delivery.message == {"m": 1}
    database.close()


def test_a_killed_process_loses_nothing_that_was_acknowledged(path: Path) -> None:
    with other_process(APPEND_FOR_EVER, [str(path)]) as writer:
        assert writer.stdout is not None
        acknowledged = [int(writer.stdout.readline()) for _ in range(100)]
        writer.kill()
        acknowledged += [int(line) for line in writer.stdout.read().split("\n")[:-1]]
    database = Database(path)
    log = run(SqliteStore(database).read_log("r1", "0"))
    assert [record.slot for record in log] == list(range(len(log)))
    assert len(log) >= len(acknowledged)
    assert all(record.body == f"body {record.slot}" for record in log)

    queue = SqliteQueue(database, VirtualClock(NOW_MS))
    assert queue.receive([Lane.WORK], 0, 1) is None
    assert queue.reclaim() >= len(acknowledged)
    assert queue.receive([Lane.WORK], 0, 1) is not None
    database.close()


def test_processes_that_make_and_fill_one_file_at_once_share_its_slots(path: Path) -> None:
    writers = [other_process(APPEND_MANY, [str(path), f"writer {number}"]) for number in range(4)]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    won = [int(writer.communicate()[0]) for writer in writers]
    assert sum(won) == 200


def test_a_file_that_another_process_is_just_making_is_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maker = sqlite3.connect(path, isolation_level=None)
    maker.execute("BEGIN IMMEDIATE")
    with pytest.raises(PortError, match="locked"):
        Database(path, busy_ms=0)
    monkeypatch.setattr("stepwell.local.database.time.sleep", lambda _: maker.execute("COMMIT"))
    Database(path).close()
    maker.close()


def test_writers_that_share_no_lock_but_the_files_wait_for_each_other(path: Path) -> None:
    databases = [Database(path, "NORMAL") for _ in range(2)]

    def work(number: int) -> list[str]:
        database = databases[number % 2]
        store, queue = SqliteStore(database), SqliteQueue(database, VirtualClock(NOW_MS))
        found = []
        for turn in range(20):
            run(store.put_event(event(f"{number} {turn}")))
            run(store.arrive("r1", f"j{turn}", f"{number}"))
            run(queue.set(f"{turn}", Lane.WORK, {"m": turn}, NOW_MS))
            delivery = queue.receive([Lane.WORK], NOW_MS, 1_000)
            found += [delivery.id] if delivery else []
        return found

    delivered = [number for found in at_once(8, work) for number in found]
    assert len(set(delivered)) == len(delivered) == 20
    assert len(run(SqliteStore(databases[0]).pending_events(ORDER, NOW_MS))) == 160
    for database in databases:
        database.close()


def test_80_threads_use_one_store_at_once(path: Path) -> None:
    database = Database(path, "NORMAL")
    store, queue = SqliteStore(database), SqliteQueue(database, VirtualClock(NOW_MS))

    def work(number: int) -> int:
        run(store.create_run(header(f"r{number}")))
        for slot in range(5):
            run(store.append(f"r{number}", "0", slot, "body"))
            run(queue.send(Lane.WORK, {"m": slot}))
        run(store.change_status(StatusChange(f"r{number}", 1, Status.COMPLETED, NOW_MS)))
        return len(run(store.load(f"r{number}", "0")).records)

    assert at_once(80, work) == [5] * 80
    assert run(store.stats())[0]["count"] == 80
    assert queue.pending() == 400
    database.close()


def test_the_connection_of_a_thread_is_closed_when_the_thread_is_gone(path: Path) -> None:
    database = Database(path, "NORMAL")
    for _ in range(5):
        thread = threading.Thread(target=lambda: database.rows("SELECT 1"))
        thread.start()
        thread.join()
    gc.collect()
    assert len(database._open) == 1
    database.close()


def details(path: Path, sql: str, values: Any) -> str:
    """How SQLite would answer this statement."""
    with sqlite3.connect(path) as connection:
        rows = connection.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
    connection.close()
    return "; ".join(row[3] for row in rows)


@pytest.mark.parametrize(
    ("sql", "values", "expected"),
    [
        (sqlite_store.SELECT_LOG, "rtsl", "SEARCH log USING PRIMARY KEY (run_id=? AND token=? AND slot>?)"),
        (sqlite_store.SELECT_SLOT, "rts", "SEARCH log USING PRIMARY KEY (run_id=? AND token=? AND slot=?)"),
        (sqlite_store.SELECT_PENDING, "nke", "SEARCH events USING INDEX events_pending (name=? AND key=?)"),
        (sqlite_store.COUNT_PENDING, "nke", "SEARCH events USING COVERING INDEX events_pending (name=? AND key=?)"),
        (sqlite_store.SELECT_EXPIRED, "nl", "SEARCH runs USING INDEX runs_by_expiry (expires_ms>? AND expires_ms<?)"),
        (sqlite_queue.OLDEST_DUE, "ld", "SEARCH messages USING INDEX messages_by_due (lane=? AND due_ms<?)"),
        (sqlite_queue.NEXT_DUE, "l", "SEARCH messages USING COVERING INDEX messages_by_due (lane=?)"),
    ],
)
def test_a_read_touches_the_rows_it_returns_only(path: Path, sql: str, values: str, expected: str) -> None:
    Database(path).close()
    assert details(path, sql, tuple(values)) == expected


def test_the_oldest_message_of_several_lanes_is_found_without_sorting_those_that_are_due(path: Path) -> None:
    Database(path).close()
    plan = details(path, sqlite_queue.of_each(sqlite_queue.OLDEST_DUE, ALL_LANES), tuple("ldld"))
    assert plan.count("SEARCH messages USING INDEX messages_by_due (lane=? AND due_ms<?)") == len(ALL_LANES)
    assert "TEMP B-TREE" not in plan


def test_a_log_is_loaded_from_its_snapshot_on(path: Path) -> None:
    Database(path).close()
    plan = details(path, sqlite_store.SELECT_LOADED, {"run_id": "r", "token": "t"})
    assert "SEARCH log USING PRIMARY KEY (run_id=? AND token=? AND slot>?)" in plan
    assert "SCAN log" not in plan


@pytest.mark.parametrize(
    ("narrow", "index"),
    [
        ({}, "runs_by_time"),
        ({"cursor": "WzEsICJ4Il0="}, "runs_by_time"),
        ({"workflow": "w"}, "runs_by_workflow"),
        ({"statuses": frozenset({Status.FAILED})}, "runs_by_status"),
        ({"waiting_for": frozenset({"event"})}, "runs_by_wait"),
        ({"workflow": "w", "statuses": frozenset({Status.FAILED})}, "runs_by_"),
        ({"tag": ("a", "b")}, "SEARCH t USING PRIMARY KEY (name=? AND value=?)"),
    ],
)
def test_a_page_of_runs_is_read_off_an_index_without_sorting(path: Path, narrow: Any, index: str) -> None:
    Database(path).close()
    plan = details(path, *list_sql(RunQuery(**narrow)))
    assert index in plan
    assert "TEMP B-TREE" not in plan


def test_overdue_waits_are_found_without_reading_the_others(path: Path) -> None:
    Database(path).close()
    plan = details(path, *list_sql(RunQuery(overdue_at_ms=NOW_MS)))
    assert "SEARCH r USING INDEX runs_by_due (waiting_until_ms<?)" in plan


def test_an_append_is_one_statement_and_one_commit(path: Path) -> None:
    database = Database(path)
    statements: list[str] = []
    database._here.connection.set_trace_callback(statements.append)
    assert run(SqliteStore(database).append("r1", "0", 0, "body")) is None
    assert len(statements) == 1
    assert statements[0].startswith("INSERT INTO log")
    database.close()


def test_a_mark_that_goes_while_an_append_is_refused_leaves_the_slot_to_it(path: Path) -> None:
    database = Database(path)
    store = SqliteStore(database)
    run(store.mark("r1", "0", 5))
    change = database.change

    def then_unmarked(sql: str, values: Any, **options: Any) -> int:
        database.change = change  # type: ignore[method-assign]  # of this database
        count = change(sql, values, **options)
        run(store.unmark("r1", "0", 5))
        return count

    database.change = then_unmarked  # type: ignore[method-assign]  # of this database
    assert run(store.append("r1", "0", 5, "mine")) is None
    assert run(store.read_log("r1", "0")) == [Saved(5, "mine")]


def test_what_is_sent_and_appended_is_durable_by_default(path: Path) -> None:
    database = Database(path)
    assert database.rows("PRAGMA synchronous") == [(2,)]
    assert database.rows("PRAGMA journal_mode") == [("wal",)]
    database.close()


def test_a_file_of_a_newer_stepwell_is_refused(path: Path) -> None:
    Database(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    connection.close()
    with pytest.raises(UserError) as caught:
        Database(path)
    assert caught.value.code == "data_too_new"


def test_a_file_that_is_no_database_is_a_port_error(path: Path) -> None:
    path.write_text("something else " * 100)
    with pytest.raises(PortError, match="not a database"):
        Database(path)


def test_a_folder_that_is_not_there_is_a_port_error(path: Path) -> None:
    with pytest.raises(PortError, match="must exist"):
        Database(path.parent / "missing" / "stepwell.db")


def test_a_file_that_another_process_holds_is_a_port_error(path: Path) -> None:
    database = Database(path, busy_ms=0)
    store = SqliteStore(database)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(PortError, match="locked"):
        run(store.append("r1", "0", 0, "body"))
    with pytest.raises(PortError, match="locked"):
        run(store.put_event(event()))
    assert run(store.read_log("r1", "0")) == []
    holder.execute("ROLLBACK")
    assert run(store.append("r1", "0", 0, "body")) is None
    assert run(store.put_event(event()))
    holder.close()
    database.close()


def test_a_full_disk_is_a_port_error_and_nothing_of_the_call_stays(path: Path) -> None:
    database = Database(path)
    store = SqliteStore(database)
    run(store.put_event(event()))
    pages = database.rows("PRAGMA page_count")[0][0]
    database.rows(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(PortError, match="free some space") as full:
        run(store.append("r1", "0", 0, "x" * 100_000))
    told: Any = problem_answer(full.value).body
    assert (told["status"], told["code"], told["hint"][:15]) == (503, "disk_full", "free some space")
    with pytest.raises(PortError, match="free some space"):
        run(store.append("r1", "0", 0, "x" * 100_000, consumes=(ORDER, "e1")))
    assert [found.id for found in run(store.pending_events(ORDER, NOW_MS))] == ["e1"]
    database.rows("PRAGMA max_page_count = 1000000")
    assert run(store.append("r1", "0", 0, "x" * 100_000, consumes=(ORDER, "e1"))) is None
    database.close()


def test_a_value_that_sqlite_cannot_hold_is_invalid_input(path: Path) -> None:
    database = Database(path)
    store = SqliteStore(database)
    with pytest.raises(InvalidInput):
        run(store.append("r1", "0", 0, "lone surrogate \ud800"))
    with pytest.raises(InvalidInput):
        run(store.create_run(header(created_ms=2**70)))
    assert run(store.create_run(header())) is None
    database.close()


def test_a_closed_database_is_a_port_error(path: Path) -> None:
    database = Database(path)
    database.close()
    store = SqliteStore(database)
    with pytest.raises(PortError, match="closed"):
        run(store.append("r1", "0", 0, "body"))
    with pytest.raises(PortError, match="closed"):
        run(store.read_log("r1", "0"))
    with pytest.raises(PortError, match="closed"):
        run(store.put_event(event()))
    with pytest.raises(PortError, match="closed"):
        SqliteQueue(database, VirtualClock()).delete(Delivery("1", Lane.WORK, {}, 1, "1.1"))


def test_a_file_of_the_version_before_gets_what_it_lacks_and_keeps_what_it_has(path: Path) -> None:
    Database(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE reports")
        connection.execute("DROP TABLE notes")
        connection.execute("DROP TABLE user_items")
        connection.execute("DROP INDEX due_runs")
        connection.execute("ALTER TABLE runs DROP COLUMN due_ms")
        connection.execute("ALTER TABLE runs DROP COLUMN watched")
        connection.execute("INSERT INTO log VALUES ('r1', '0', 0, 'kept')")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    store = SqliteStore(database := Database(path))
    assert run(store.report("r1", "0/3", 0, 1)).numbers == {0: 1}
    assert run(store.put_note("firing", "nightly", "one", None))
    assert store.items("orders") == []
    assert [saved.body for saved in run(store.read_log("r1", "0"))] == ["kept"]
    database.close()


def test_a_file_of_the_format_before_keeps_its_version_so_that_older_code_still_opens_it(path: Path) -> None:
    """What older code writes is of format 1, and is read as such; an upgrade can be taken back."""
    Database(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE events DROP COLUMN format")
    connection.close()
    database = Database(path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
        connection.execute("""INSERT INTO events (name, key, id, at_ms, expires_ms, consumed_by, payload)
            VALUES ('order', '42', 'e1', 1, 9, '', '"old"'), ('order', '42', 'e2', 2, 3, '', 'broken')""")
    connection.close()
    store = SqliteStore(database)
    (old,) = run(store.pending_events(Topic("order", "42"), 5))
    assert (old.format, old.payload) == (1, "old")
    with pytest.raises(EngineFault) as raised:
        run(store.get_event(Topic("order", "42"), "e2"))
    assert raised.value.code == "broken_event"
    database.close()
