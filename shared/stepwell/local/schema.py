"""The tables of the local database. `user_version` is VERSION, so an older Stepwell refuses a newer file."""

from __future__ import annotations

import sqlite3

from stepwell.errors import UserError

VERSION = 5

REPORTS = """CREATE TABLE reports (
        run_id TEXT NOT NULL, name TEXT NOT NULL, page INTEGER NOT NULL, value INTEGER NOT NULL,
        PRIMARY KEY (run_id, name, page)) WITHOUT ROWID"""
NOTES = """CREATE TABLE notes (
        kind TEXT NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (kind, name)) WITHOUT ROWID"""
USER_ITEMS = """CREATE TABLE user_items (
        table_name TEXT NOT NULL, place TEXT NOT NULL, item TEXT NOT NULL,
        PRIMARY KEY (table_name, place)) WITHOUT ROWID"""
DUE_RUNS = "CREATE INDEX due_runs ON runs (due_ms, run_id) WHERE watched AND due_ms IS NOT NULL"
SINCE: dict[int, tuple[str, ...]] = {
    2: (REPORTS,),
    3: (NOTES,),
    4: (USER_ITEMS,),
    5: (
        "ALTER TABLE runs ADD COLUMN due_ms INTEGER",
        "ALTER TABLE runs ADD COLUMN watched INTEGER NOT NULL DEFAULT 0",
        DUE_RUNS,
    ),
}  # the additions of each version

# An older Stepwell can ignore these columns, so VERSION does not change and an upgrade can be rolled back.
LATER_COLUMNS = (
    ("events", "format", "INTEGER NOT NULL DEFAULT 1"),
    ("joins", "place", "INTEGER NOT NULL DEFAULT 0"),
    ("runs", "origin", "TEXT NOT NULL DEFAULT ''"),
    ("runs", "paused_ms", "INTEGER NOT NULL DEFAULT 0"),
    ("runs", "paused_by", "TEXT NOT NULL DEFAULT ''"),
    ("runs", "pause_reason", "TEXT NOT NULL DEFAULT ''"),
    ("runs", "resumes_as", "TEXT NOT NULL DEFAULT ''"),
    ("runs", "pause_of", "TEXT NOT NULL DEFAULT ''"),
    ("runs", "failure", "TEXT NOT NULL DEFAULT ''"),
    ("runs", "trace", "TEXT NOT NULL DEFAULT ''"),
    ("runs", "pinned", "INTEGER NOT NULL DEFAULT 0"),
)
HAS_COLUMN = "SELECT 1 FROM pragma_table_info(?) WHERE name = ?"

# Tables are WITHOUT ROWID where a row is found by its key only: one b-tree, so that an append dirties one page.
# Large columns are last, so that SQLite reads the others without overflow pages.
# `deadline_ms` is for an older Stepwell, which reads it.
TABLES = (
    """CREATE TABLE log (
        run_id TEXT NOT NULL, token TEXT NOT NULL, slot INTEGER NOT NULL, body TEXT NOT NULL,
        PRIMARY KEY (run_id, token, slot)) WITHOUT ROWID""",
    """CREATE TABLE snapshots (
        run_id TEXT NOT NULL, token TEXT NOT NULL, slot INTEGER NOT NULL, body TEXT NOT NULL,
        PRIMARY KEY (run_id, token)) WITHOUT ROWID""",
    """CREATE TABLE joins (
        run_id TEXT NOT NULL, name TEXT NOT NULL, member TEXT NOT NULL, place INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (run_id, name, member)) WITHOUT ROWID""",
    REPORTS,
    NOTES,
    USER_ITEMS,
    """CREATE TABLE runs (
        run_id TEXT NOT NULL PRIMARY KEY, workflow TEXT NOT NULL, version TEXT NOT NULL, created_ms INTEGER NOT NULL,
        status TEXT NOT NULL, rev INTEGER NOT NULL, fingerprint TEXT NOT NULL, started_ms INTEGER NOT NULL,
        ended_ms INTEGER NOT NULL, start_at_ms INTEGER NOT NULL, deadline_ms INTEGER, idle INTEGER NOT NULL,
        priority INTEGER NOT NULL, parent TEXT, origin TEXT NOT NULL DEFAULT '',
        waiting_for TEXT NOT NULL, waiting_node TEXT NOT NULL,
        waiting_since_ms INTEGER NOT NULL, waiting_until_ms INTEGER, changed_ms INTEGER NOT NULL,
        expires_ms INTEGER NOT NULL, due_ms INTEGER, watched INTEGER NOT NULL,
        paused_ms INTEGER NOT NULL DEFAULT 0, paused_by TEXT NOT NULL DEFAULT '',
        pause_reason TEXT NOT NULL DEFAULT '', pause_of TEXT NOT NULL DEFAULT '', resumes_as TEXT NOT NULL DEFAULT '',
        failure TEXT NOT NULL DEFAULT '', trace TEXT NOT NULL DEFAULT '', pinned INTEGER NOT NULL DEFAULT 0,
        tags TEXT NOT NULL,
        input TEXT NOT NULL) WITHOUT ROWID""",
    # Each ends with the order of the lists, so that a page needs no sorting.
    "CREATE INDEX runs_by_time ON runs (created_ms, run_id)",
    "CREATE INDEX runs_by_workflow ON runs (workflow, created_ms, run_id)",
    "CREATE INDEX runs_by_status ON runs (status, created_ms, run_id)",
    "CREATE INDEX runs_by_wait ON runs (waiting_for, created_ms, run_id) WHERE waiting_for <> ''",
    "CREATE INDEX runs_by_due ON runs (waiting_until_ms) WHERE waiting_until_ms IS NOT NULL",
    DUE_RUNS,
    "CREATE INDEX runs_by_expiry ON runs (expires_ms) WHERE expires_ms > 0",
    """CREATE TABLE tags (
        name TEXT NOT NULL, value TEXT NOT NULL, created_ms INTEGER NOT NULL, run_id TEXT NOT NULL,
        PRIMARY KEY (name, value, created_ms, run_id)) WITHOUT ROWID""",
    """CREATE TABLE events (
        name TEXT NOT NULL, key TEXT NOT NULL, id TEXT NOT NULL, at_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL,
        consumed_by TEXT NOT NULL, format INTEGER NOT NULL DEFAULT 1, payload TEXT NOT NULL,
        PRIMARY KEY (name, key, id)) WITHOUT ROWID""",
    # Covers counting, including `consumed_by`; otherwise SQLite (3.40) reads each row for it.
    """CREATE INDEX events_pending ON events (name, key, at_ms, id, expires_ms, consumed_by)
        WHERE consumed_by = ''""",
    """CREATE TABLE waiters (
        name TEXT NOT NULL, key TEXT NOT NULL, run_id TEXT NOT NULL, token TEXT NOT NULL, slot INTEGER NOT NULL,
        arm INTEGER NOT NULL, since_ms INTEGER NOT NULL, match TEXT NOT NULL,
        PRIMARY KEY (name, key, run_id, token, slot, arm)) WITHOUT ROWID""",
    "CREATE TABLE definitions (version TEXT NOT NULL PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID",
    # AUTOINCREMENT: ids are never reused, so a late receipt cannot match a newer message.
    """CREATE TABLE messages (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, lane TEXT NOT NULL, due_ms INTEGER NOT NULL,
        deliveries INTEGER NOT NULL DEFAULT 0, receipt TEXT NOT NULL DEFAULT '', message TEXT NOT NULL)""",
    "CREATE INDEX messages_by_due ON messages (lane, due_ms)",
    "CREATE INDEX messages_leased ON messages (receipt) WHERE receipt <> ''",
    "CREATE TABLE timers (name TEXT NOT NULL PRIMARY KEY, at_ms INTEGER NOT NULL) WITHOUT ROWID",
)


def prepare(connection: sqlite3.Connection, path: str) -> None:
    """Creates the tables of a new file, or those that an older one lacks; refuses a newer Stepwell's file."""
    if _version(connection) == VERSION and not _lacking(connection):
        return
    connection.execute("BEGIN IMMEDIATE")  # if two processes find a new file, the second waits and checks again
    try:
        found = _version(connection)
        if found > VERSION:
            raise UserError(
                f"{path} has schema version {found}; this Stepwell knows versions up to {VERSION}",
                code="data_too_new",
                hint="upgrade stepwell, or use another data folder",
            )
        added = [statement for version in range(found + 1, VERSION + 1) for statement in SINCE.get(version, ())]
        for statement in TABLES if found == 0 else added:
            connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")
        for table, name, kind in _lacking(connection):
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _lacking(connection: sqlite3.Connection) -> list[tuple[str, str, str]]:
    return [one for one in LATER_COLUMNS if not connection.execute(HAS_COLUMN, one[:2]).fetchone()]


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
